# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="inetd: its own echo, discard, daytime and chargen; programs for each connection, as root and as another user, scripts, a static one; one with wait, which gets the listener; configuration read again"
PACKAGES=(openbsd-inetd python3 curl busybox-static ncat)
LIMIT=90

programs() {
	cat >lines <<-'END'
	#!/bin/sh
	# A script for each connection.
	while read -r line; do echo "$(id -un) heard $line"; done
	END
	cat >names.py <<-'END'
	import socket, sys
	s = socket.socket(fileno=0)
	print(s.getpeername()[0], s.getsockname(), s.family.name, s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), flush=True)
	s.shutdown(socket.SHUT_RDWR)
	END
	cat >waits.py <<-'END'
	# Gets the listener: accepts five times and ends, so that inetd listens again.
	import socket
	l = socket.socket(fileno=0)
	for i in range(5):
	    c, peer = l.accept()
	    c.sendall(b"%d %s" % (i, peer[0].encode()))
	    c.close()
	END
	chmod 755 lines
	chmod 644 ./*.py
	cat >client.py <<-'END'
	import socket, sys, threading
	s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
	limit = int(sys.argv[4]) if len(sys.argv) > 4 else 1 << 40
	data = open(sys.argv[3], "rb").read()
	got = b""
	def send():
	    s.sendall(data)
	    if limit == 1 << 40:
	        s.shutdown(socket.SHUT_WR)
	t = threading.Thread(target=send, daemon=True)
	t.start()
	while len(got) < limit and (more := s.recv(65536)):
	    got += more
	sys.stdout.buffer.write(got[:limit])
	END
}

configure() {
	cat >inetd.conf <<-END
	$SERVER:7002 stream tcp nowait nobody $DIR/lines lines
	$SERVER:7003 stream tcp nowait root /bin/cat cat
	$SERVER:7004 stream tcp nowait nobody /bin/busybox busybox cat
	$SERVER:7005 stream tcp nowait nobody /usr/bin/python3 python3 $DIR/names.py
	$SERVER:7006 stream tcp wait root /usr/bin/python3 python3 $DIR/waits.py
	$SERVER:echo stream tcp nowait root internal
	$SERVER:discard stream tcp nowait root internal
	$SERVER:chargen stream tcp nowait root internal
	END
}

ask() {
	under b /usr/bin/python3 client.py "$SERVER" "$@"
}

questions() {
	local i
	ask 7 large 3000000 >back
	same "$1.echo" back large
	ask 9 large >back
	result "$1.discard" "$? $(wc -c <back)"
	ask 19 empty 740 >back
	result "$1.chargen" "$(wc -c <back) $(head -c 72 back)"
	result "$1.script" "$(ask 7002 words)"
	ask 7003 large >back
	same "$1.cat" back large
	ask 7004 large >back
	same "$1.static" back large
	result "$1.names" "$(ask 7005 empty)"
	result "$1.wait" "$(for ((i = 0; i < 12; i++)); do ask 7006 empty; echo; done | sort | uniq -c)"
	result "$1.parallel" "$(for ((i = 0; i < 12; i++)); do ask 7002 words & done | sort | uniq -c)"
}

run() {
	local inetd
	random_file large 2930
	truncate -s 3000000 large
	printf 'one\ntwo words\nthree\n' >words
	: >empty
	programs
	configure
	start_under a /usr/sbin/inetd -i "$DIR/inetd.conf" >inetd.log 2>&1
	inetd=$!
	listening a 7
	listening a 7006
	questions first
	echo "$SERVER:7007 stream tcp nowait root /bin/echo echo new" >>inetd.conf
	kill -HUP "$inetd"
	listening a 7007
	result new "$(ask 7007 empty)"
	questions again
	stop "$inetd"
	result inetd.ends "$STATUS"
}
