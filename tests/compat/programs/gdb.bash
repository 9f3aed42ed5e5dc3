# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="programs under gdb: a client with breakpoints in connect and recv; a server and a client that gdb attaches to and leaves again and again while they transfer"
PACKAGES=(gdb curl python3)
LIMIT=120

programs() {
	cat >client.py <<-'END'
	import socket, sys, hashlib
	s = socket.create_connection((sys.argv[1], 8080), timeout=60)
	s.sendall(b"GET /large HTTP/1.0\r\n\r\n")
	data = b""
	while more := s.recv(65536):
	    data += more
	print(hashlib.sha256(data.partition(b"\r\n\r\n")[2]).hexdigest())
	END
	cat >breaks.gdb <<-'END'
	set pagination off
	set confirm off
	set breakpoint pending on
	set debuginfod enabled off
	tbreak connect
	run
	info symbol $pc
	tbreak close
	continue
	continue
	END
	cat >attach.gdb <<-'END'
	set pagination off
	set debuginfod enabled off
	info threads
	detach
	END
}

# said [WORD]: print what gdb tells about the program's end, and lines with WORD
said() {
	grep -E "exited|SIG|${1:-no sum}" | sed 's/process [0-9]*/process/; s/'"${1:-no sum}"'/the sum/'
}

# attach HOST PID TIMES: attach gdb to the process TIMES times, and print how often that worked
attach() {
	local i
	for ((i = 0; i < $3; i++)); do
		on "$1" gdb -q -batch -p "$2" -x attach.gdb 2>>attach.log | grep -Eo 'Inferior 1.*detached'
	done | sed 's/process [0-9]*/process/' | sort | uniq -c
}

run() {
	local server client sum
	programs
	random_file large 20000
	sum=$(sha256sum <large | cut -d' ' -f1)
	start_under a /usr/bin/python3 -m http.server --bind "$SERVER" 8080 >http.log 2>&1
	server=$!
	listening a 8080
	result run "$(under b gdb -q -batch -ex run --args curl -sS --max-time 60 -o fetched "http://$SERVER:8080/large" 2>&1 | said)"
	same run.same fetched large
	result breaks "$(under b gdb -q -batch -x breaks.gdb --args /usr/bin/python3 client.py "$SERVER" 2>&1 | tee breaks.log | said "$sum")"
	right breaks.connect grep -Eq '(^| in )(__)?(libc_)?connect( |$)' breaks.log
	start_under b curl -sS --limit-rate 700k --max-time 150 -o slow "http://$SERVER:8080/large"
	client=$!
	result attach.client "$(attach b "$client" 3)"
	result attach.server "$(attach a "$server" 3)"
	wait "$client"
	result slow "$?"
	same slow.same slow large
	result stopped "$(under b gdb -q -batch -ex 'catch syscall connect' -ex run -ex 'delete' -ex continue --args curl -sS --max-time 60 -o fetched "http://$SERVER:8080/large" 2>&1 | said)"
	stop "$server" INT
	result server.ends "$STATUS"
}
