# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="systemd-socket-activate: one server for two listeners, started by the first connection; a server for each connection, as inetd does; a server that ends and is started again; a program that cannot have the library"
PACKAGES=(systemd python3 ncat busybox-static)
LIMIT=90

programs() {
	cat >server.py <<-'END'
	# Serve twelve connections on the inherited listeners; then print the environment's variables and end.
	import os, selectors, socket, sys
	count = int(os.environ["LISTEN_FDS"])
	assert int(os.environ["LISTEN_PID"]) == os.getpid()
	names = os.environ.get("LISTEN_FDNAMES", "")
	listeners = selectors.DefaultSelector()
	for fd in range(3, 3 + count):
	    s = socket.socket(fileno=fd)
	    s.setblocking(False)
	    listeners.register(s, selectors.EVENT_READ)
	left = int(sys.argv[1])
	while left:
	    for key, _ in listeners.select():
	        try:
	            c, peer = key.fileobj.accept()
	        except BlockingIOError:
	            continue
	        c.setblocking(True)
	        seen = b""
	        while data := c.recv(65536):
	            seen += data
	        c.sendall(b"%d %s %d %s " % (key.fileobj.getsockname()[1], peer[0].encode(), len(seen), names.encode()) + seen[:40])
	        c.close()
	        left -= 1
	END
	cat >client.py <<-'END'
	import socket, sys, threading
	s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
	def send():
	    s.sendall(open(sys.argv[3], "rb").read())
	    s.shutdown(socket.SHUT_WR)
	threading.Thread(target=send, daemon=True).start()
	while more := s.recv(65536):
	    sys.stdout.buffer.write(more)
	END
}

ask() {
	under b /usr/bin/python3 client.py "$SERVER" "$@"
}

start_activate() {
	start_under a systemd-socket-activate "$@" >>activate.log 2>&1
	activate=$!
}

run() {
	local activate i
	echo "short words" >short
	head -c 3000000 /dev/zero | tr '\0' x >long
	programs
	# the server becomes another program and keeps the listeners: first by activation, then by itself
	start_activate -l "$SERVER:7001" -l "$SERVER:7002" --fdname=one:two /usr/bin/python3 server.py 12
	listening a 7001
	listening a 7002
	for i in 1 2 3; do
		result "listeners.$i" "$(ask 7001 short)" "$(ask 7002 short)" "$(ask 7002 long)" "$(ask 7001 long)"
	done
	wait "$activate"
	result listeners.end "$?"
	# a separate server for each connection
	start_activate -a -l "$SERVER:7003" --inetd /bin/cat
	listening a 7003
	for i in 1 2 3; do
		ask 7003 long >back
		result "accept.$i" "$? $(cmp long back && echo same)"
	done
	result accept.parallel "$(for i in 1 2 3 4 5 6 7 8 9 10; do ask 7003 short & done | sort | uniq -c)"
	stop "$activate"
	result accept.ends "$STATUS"
	# the server is a shell that starts a program
	start_activate -a -l "$SERVER:7004" --inetd /bin/sh -c 'read a b; echo "$b $a" | cat'
	listening a 7004
	result shell "$(ask 7004 short)" "$(ask 7004 short)"
	stop "$activate"
	# a static program inherits the connection and the listener
	start_activate -a -l "$SERVER:7005" --inetd /bin/busybox cat
	listening a 7005
	for i in 1 2 3; do
		ask 7005 long >back
		result "static.$i" "$? $(cmp long back && echo same)"
	done
	stop "$activate"
	start_activate -l "$SERVER:7006" --inetd /bin/busybox nc -ll -p 7007 -e /bin/busybox cat
	listening a 7006
	start_under b timeout 3 ncat "$SERVER" 7006 <short >static.out
	local waiting=$!
	until_true 10 tcp_listens a 7007
	result static.started "$(ask 7007 short)"
	wait "$waiting"
	stop "$activate"
}
