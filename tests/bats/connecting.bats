#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A connect() that takes long: the first SYNs are lost, or the server accepts late or never.
bats_require_minimum_version 1.5.0
load common

lose_syns() {
	on a nft -f - <<-'EOF'
	table inet lose {
		chain in {
			type filter hook input priority 0
			tcp dport 7001 tcp flags syn drop
		}
	}
	EOF
}

refuse_syns() {
	on a nft -f - <<-'EOF'
	table inet refuse {
		chain in {
			type filter hook input priority 0
			tcp dport 7001 tcp flags syn reject with tcp reset
		}
	}
	EOF
}

# connect_slowly: start the client while SYNs are lost; returns when the daemon has the connection.
connect_slowly() {
	lose_syns
	start_on b "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 3000000 --way epoll \
		2>"$HOSTS_DIR/client.err"
	CLIENT_PID=$!
	until_true 5 shows b connection 'any(.mode == "pending" and .state == "init")'
}

@test "connect() in progress ends in SMC-R" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	connect_slowly
	on a nft delete table inet lose
	wait "$CLIENT_PID"
	until_true 5 shows b connection 'any(.mode == "smcr" and .tx_bytes == 3000000 and .rx_bytes == 3000000)'
	proves GEN-6
}

@test "connect() in progress to a peer without SMC-R: the program gets its TCP socket back" {
	two_daemons
	start_on a "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	connect_slowly
	on a nft delete table inet lose
	wait "$CLIENT_PID"
	# The program has its TCP socket back, so the daemon has relayed no byte.
	until_true 5 shows b connection 'any(.mode == "tcp" and .tx_bytes == null and
		.fallback_reason == "peer-no-smc")'
	proves TCPO-5
}

@test "connect() in progress that is refused tells the program why" {
	two_daemons
	connect_slowly
	on a nft delete table inet lose
	refuse_syns
	if wait "$CLIENT_PID"; then false; fi # `run` is a subshell, which cannot wait for it
	cat "$HOSTS_DIR/client.err"
	grep -qi "refused" "$HOSTS_DIR/client.err"
	until_true 5 shows b connection 'any(.state == "failed" and .error == "ECONNREFUSED")'
}

@test "a program killed while it connects: the daemon gives up too" {
	two_daemons
	connect_slowly
	kill -KILL "$CLIENT_PID"
	until_true 5 shows b connection 'all(.ended)'
	proves GEN-10
}

# late_server [WRAPPER..]: start a server on host a that accepts when it is told to.
late_server() {
	talk_start server a "$@" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" late-server "$SERVER" 7001
	until_true 10 tcp_listens a 7001
}

# early_client [PREFIX..]: start a client on host b, behind the words PREFIX; returns when its connect() has succeeded.
early_client() {
	talk_start client b "$@" "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" early-client "$SERVER" 7001
	[ "$(talk_hear client)" = connected ]
}

@test "connect() succeeds before the server accepts; what was written then goes over SMC-R" {
	two_daemons
	late_server "$RUN"
	early_client
	tell client 'send early'
	shows b connection 'any(.mode == "pending" and .tx_bytes == 0)'
	talk_send server accept
	tell client rest early
	[ "$(talk_hear server)" = ok ]
	until_true 5 shows b connection 'any(.mode == "smcr" and .tx_bytes == 5 and .rx_bytes == 5)'
}

@test "a socket whose listen() failed and that is connected past the library is plain TCP" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	cat >"$HOSTS_DIR/past.py" <<-'EOF'
		import ctypes, errno, os, socket, struct, sys
		def bound():
		    s = socket.socket()
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		    s.bind(("0.0.0.0", 7009))
		    return s
		first, second = bound(), bound()
		first.listen()
		try:
		    second.listen()
		    sys.exit("listen() succeeded")
		except OSError as error:
		    assert error.errno == errno.EADDRINUSE, error
		connect = {"x86_64": 42, "i686": 362}.get(os.uname().machine, 203)  # SYS_connect
		to = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 7001) + socket.inet_aton(sys.argv[1]) + bytes(8)
		assert ctypes.CDLL(None).syscall(connect, second.fileno(), to, len(to)) == 0
		second.sendall(b"hello")
		second.settimeout(10)
		assert second.recv(5, socket.MSG_WAITALL) == b"hello"
		second.close()
	EOF
	on b "$RUN" python3 "$HOSTS_DIR/past.py" "$SERVER"
	until_true 5 shows a connection 'any(.mode == "tcp" and .fallback_reason == "peer-no-smc")'
}

@test "members of a ring connect to each other before any of them accepts" {
	two_daemons
	talk_start one a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" ring-member "$SERVER" 7001 "$CLIENT" 7002
	talk_start two b "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" ring-member "$CLIENT" 7002 "$SERVER" 7001
	until_true 10 tcp_listens a 7001
	until_true 10 tcp_listens b 7002
	talk_send one go
	talk_send two go
	[ "$(talk_hear one)" = "$CLIENT" ]
	[ "$(talk_hear two)" = "$SERVER" ]
	until_true 5 shows a connection '[.[] | select(.mode == "smcr")] | length == 2'
}

# answers_without_clc: the server accepts the early client without the library, which fails, and once more from TCP.
answers_without_clc() {
	tell client 'send early'
	tell server accept
	tell server 'send greeting' # this is no CLC message, so the client's daemon connects again
	tell server close
	tell server parent
	tell server accept
	tell server receive 'ok early'
	tell server 'send answer'
	tell server close
	tell client rest answer
}

@test "a program without the library accepts from a claimed listener: TCP, and the port is skipped" {
	two_daemons
	chmod 711 "$HOSTS_DIR"
	# the server claims its listener, but accepts without the library
	talk_start server a "$PROGRAMS/tcp_claim"
	tell server 'socket tcp'
	tell server claim
	tell server "bind $SERVER 7001"
	tell server listen
	early_client
	answers_without_clc
	shows b connection 'any(.mode == "tcp" and .fallback_reason == "no-answer")'
	talk_kill client
	tell server parent

	early_client
	tell server accept
	tell client 'send plain'
	tell server receive 'ok plain'
	shows b info '.skipped_peers | length == 1 and .[0].uid == 0'
	shows b connection 'any(.mode == "tcp" and .fallback_reason == "peer-skipped")'
	tell server close
	talk_kill client
	tell server parent

	# another user finds out for itself: nobody's connections stay TCP for what another user's have shown
	early_client setpriv --reuid 65534 --regid 65534 --clear-groups
	answers_without_clc
	shows b connection 'any(.uid == 65534 and .fallback_reason == "no-answer")'
	shows b info '[.skipped_peers[].uid] | sort == [0, 65534]'
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7002
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7002 --bytes 100000
}
@test "a server that accepts later than the CLC limit gets the bytes over TCP" {
	two_daemons
	late_server "$RUN"
	early_client
	tell client 'send early'
	until_true 20 shows b connection 'any(.fallback_reason == "no-answer")'
	talk_send server accept
	tell client rest early
	[ "$(talk_hear server)" = ok ]
}

# drop_syns: as where the queue of a server that does not accept is full
drop_syns() {
	on a nft -f - <<-'END'
		table ip full { chain in { type filter hook input priority 0;
			tcp dport 7001 tcp flags & (syn | ack) == syn counter drop; }; }
	END
}

dropped_syns() {
	on a nft list table ip full | sed -n 's/.*packets \([0-9]*\).*/\1/p'
}

@test "a server that answers no SYN when the connection is made again: its client waits, as with TCP" {
	two_daemons
	on b sysctl -qw net.ipv4.tcp_syn_retries=1
	late_server "$RUN"
	early_client
	tell client 'send early'
	drop_syns
	# the first SYN, its repetition, and the next connect()'s
	until_true 30 eval '[ "$(dropped_syns)" -ge 3 ]'
	shows b connection 'all(.state != "failed")'
	on a nft delete table ip full
	talk_send server accept
	tell client rest early
	[ "$(talk_hear server)" = ok ]
}

@test "a program that is killed while its connection is made again leaves nothing behind" {
	two_daemons
	on b sysctl -qw net.ipv4.tcp_syn_retries=1
	late_server "$RUN"
	early_client
	drop_syns
	until_true 30 eval '[ "$(dropped_syns)" -ge 3 ]'
	talk_kill client KILL
	until_true 20 shows b connection 'all(.ended)'
}


# opener HOST OWN-ADDRESS OWN-PORT ADDRESS PORT: start a program that connects from there, and prints what it is sent
opener() {
	cat >"$HOSTS_DIR/open.py" <<-'EOF'
		import socket, sys
		own, own_port, peer, peer_port = sys.argv[1:]
		with socket.socket() as s:
		    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		    s.bind((own, int(own_port)))
		    s.connect((peer, int(peer_port)))
		    s.sendall(b"from " + own_port.encode())
		    s.shutdown(socket.SHUT_WR)
		    print(b"".join(iter(lambda: s.recv(100), b"")).decode())
	EOF
	start_on "$1" "$RUN" python3 "$HOSTS_DIR/open.py" "${@:2}" >"$HOSTS_DIR/opener_$1.out"
}

@test "two programs connect to each other's port (simultaneous open): both get the other's bytes, by TCP" {
	two_daemons
	drop_syns
	opener b "$CLIENT" 7002 "$SERVER" 7001
	other=$!
	until_true 10 eval '[ -n "$(on b ss -Htn state syn-sent "dport = :7001")" ]'
	opener a "$SERVER" 7001 "$CLIENT" 7002
	wait $!
	wait "$other"
	[ "$(cat "$HOSTS_DIR/opener_a.out")" = 'from 7002' ]
	[ "$(cat "$HOSTS_DIR/opener_b.out")" = 'from 7001' ]
	until_true 5 shows a connection 'any(.mode == "tcp" and .state != "failed")'
	shows b info '.skipped_peers == []'
}
