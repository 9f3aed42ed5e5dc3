# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="socat: listeners that fork, EXEC with pipes, socket pairs and terminals, SYSTEM, OPENSSL, PROXY and SOCKS4, half-close, options on sockets, a chain of relays, UNIX to TCP, chroot and setuid"
PACKAGES=(socat openssl nginx-light curl python3)
LIMIT=120

# socat waits half a second for data after an end of file, which is too short on a busy machine.
server() {
	start_under a socat -t 15 -lf "$DIR/socat.log" "$@"
	servers+=($!)
}

ask() {
	under b socat -t 15 -T 30 - "$@"
}

run() {
	local servers=() i pid
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	cat key.pem cert.pem >both.pem
	random_file large 6000
	chmod 644 both.pem
	server "TCP-LISTEN:7001,bind=$SERVER,fork,reuseaddr" EXEC:/bin/cat
	server "TCP-LISTEN:7002,bind=$SERVER,fork,reuseaddr" EXEC:/usr/bin/sha256sum,pipes
	server "TCP-LISTEN:7003,bind=$SERVER,fork,max-children=4" "SYSTEM:read a b; echo \$b \$a"
	server "TCP-LISTEN:7004,bind=$SERVER,fork" EXEC:"/bin/sh -c 'tty -s && echo terminal'",pty,stderr
	server "OPENSSL-LISTEN:7005,bind=$SERVER,cert=both.pem,verify=0,fork" EXEC:/bin/cat
	server "TCP-LISTEN:7006,bind=$SERVER,fork,su=nobody,nodelay,keepalive,keepidle=30,linger=5,rcvbuf=100000" "EXEC:/usr/bin/id -un"
	server "UNIX-LISTEN:$DIR/unix,fork" "TCP:$CLIENT:8001,bind=$SERVER"
	server "TCP-LISTEN:7007,bind=$SERVER,fork" "UNIX-CONNECT:$DIR/unix"
	server "TCP-LISTEN:7008,bind=$SERVER,fork,range=10.9.0.0/16" EXEC:/bin/cat
	server -u "TCP-LISTEN:7009,bind=$SERVER,fork" "OPEN:$DIR/received,creat,append"
	start_under b socat "TCP-LISTEN:8001,bind=$CLIENT,fork" EXEC:/bin/cat
	servers+=($!)
	for i in 1 2 3 4 5 6 7 8 9; do listening a "700$i"; done
	listening b 8001

	status cat ask "TCP:$SERVER:7001" <large >back
	same cat.same back large
	right sum [ "$(ask "TCP:$SERVER:7002" <large)" = "$(sha256sum <large)" ]
	result system "$(echo one two | ask "TCP:$SERVER:7003")"
	result system.parallel "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo one two | ask "TCP:$SERVER:7003" & done | sort | uniq -c)"
	result terminal "$(ask "TCP:$SERVER:7004" </dev/null | tr -d '0-9\r')"
	status tls ask "OPENSSL:$SERVER:7005,verify=0" <large >back
	same tls.same back large
	result user "$(ask "TCP:$SERVER:7006,nodelay,sndbuf=100000,connect-timeout=5" </dev/null)"
	status chain ask "TCP:$SERVER:7007" <large >back
	same chain.same back large
	status refused.range ask "TCP:$SERVER:7008" <large >back 2>/dev/null
	result refused "$(ask TCP:"$SERVER":1 </dev/null 2>&1 | sed 's/.*socat\[[0-9]*\] //') "
	status one.way under b socat -u OPEN:large "TCP:$SERVER:7009"
	until_true 10 cmp -s received large
	same one.way.same received large
	status retry under b socat -u OPEN:large "TCP:$SERVER:7009,retry=3,interval=0.1,sourceport=7777,reuseaddr"
	result environment "$(start_under a socat "TCP-LISTEN:7010,bind=$SERVER" 'SYSTEM:echo $SOCAT_PEERADDR $SOCAT_SOCKADDR $SOCAT_SOCKPORT'
		until_true 10 tcp_listens a 7010
		ask "TCP:$SERVER:7010" </dev/null)"
	# a relay between two TCP connections
	start_under b socat "TCP-LISTEN:8002,bind=$CLIENT,reuseaddr" "TCP:$SERVER:7001" &
	listening b 8002
	status relay under a socat -t 15 - "TCP:$CLIENT:8002" <large >back
	same relay.same back large
	for pid in "${servers[@]}"; do stop "$pid"; done
	result server.ends "$STATUS"
	result said "$(sed 's/.*socat\[[0-9]*\] //; s/[0-9]\{4,\}/N/g' socat.log | grep -E '^[EF] ' | sort | uniq -c)"
}
