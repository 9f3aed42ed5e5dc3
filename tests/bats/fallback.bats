#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# When SMC-R is not possible, connections are plain TCP, lose no byte, and the operator sees the reason.
bats_require_minimum_version 1.5.0
load common

@test "a peer without SMC-R: plain TCP, no CLC byte, the reason is shown" {
	hosts_up 1500
	smcrd_start b
	echo_server_on_a
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	shows b linkgroup 'length == 0'
	run ! on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100
	proves TCPO-5
}

# plain HOST FILTER: is the filter true for the connections that were plain TCP from their handshake on?
plain() {
	shows "$1" connection "[.[] | select(.mode == \"tcp\" and .id == null)] | $2"
}

@test "three downloads from a server without SMC-R: three rows, with time, program and reason, and counts" {
	local before
	hosts_up 1500
	smcrd_start b
	echo_server_on_a
	before=$(date +%s)
	for way in block block epoll; do
		on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000 --way "$way"
	done
	until_true 5 shows b info '.connections.pending + .connections.relayed == 0'
	smcrctl_on b connection
	until_true 5 shows b connection 'length == 3'
	shows b connection 'length == 3 and all(.mode == "tcp" and .fallback_reason == "peer-no-smc" and
		.program == "echo_client" and .uid == 0 and .peer == "'"$SERVER"':7001" and
		.time_us >= '"$before"'000000 and .time_us <= (now + 1) * 1000000)'
	[ "$(smcrctl_on b connection | grep -c 'tcp .*echo_client .*the peer did not offer SMC-R')" = 3 ]
	shows b info '.connections.plain_tcp_total == 3 and .connections.fallbacks_total == 0'
	shows b info '[.fallbacks[] | select(.reason == "peer-no-smc")] | length == 1 and .[0].connections == 3'
	shows b info '.fallback_peers | length == 1 and .[0].peer == "'"$SERVER"'" and .[0].connections == 3'
	smcrctl_on b info | grep -q "^why not SMC-R  *the peer did not offer SMC-R.*(3)"
	smcrctl_on b info | grep -q "^with which peers  *$SERVER (3)"
}

@test "a server's connections from programs without SMC-R: counted, with the server's program" {
	two_daemons
	echo_server_on_a "$RUN"
	for _ in 1 2 3; do on b "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000; done
	until_true 5 plain a 'length == 3'
	plain a 'length == 3 and all(.role == "server" and .program == "echo_server" and .pid == '"$ECHO_PID"' and
		.fallback_reason == "peer-no-smc" and .local == "'"$SERVER"':7001" and .state == "plain")'
	shows a info '.connections.plain_tcp_total == 3'
	shows b connection 'length == 0' # programs without the library are not shown
}

@test "a user makes very many plain connections: each is counted, and those of other users stay visible" {
	# from the normal build, because a program built with sanitizers does not load the library
	local count=6000 bench=$HOSTS_ROOT/build/bench/tcpbench
	hosts_up 1500
	smcrd_start b
	# A server's connections, since a client's library soon leaves the option off.
	start_on b "$RUN" "$bench" answer 10.77.0.2 7002
	until_true 20 tcp_listens b 7002
	# a connection of another user before the flood
	echo_server_on_a
	on b setpriv --reuid 12345 --regid 12345 --clear-groups "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100
	# Stop smcrd, so that nobody reads the ring.
	kill -STOP "$SMCRD_PID_b"
	on a "$bench" ask 10.77.0.2 7002 "$count"
	kill -CONT "$SMCRD_PID_b"
	until_true 5 shows b info '.connections.plain_tcp_total == '$((count + 1))
	shows b info '[.fallback_peers[].connections] | add == '$((count + 1))
	plain b '(length <= 1024) and ([.[] | select(.uid == 12345)] | length == 1) and
		([.[] | select(.uid == 0)] | length == 256)'
}

@test "a fallback during the rendezvous, and a reset, are events of their own" {
	two_daemons
	block_roce a
	echo_server_on_a "$RUN"
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	until_true 5 shows b event 'any(.event == "fallback" and .peer == "'"$SERVER"'" and .reason != null and
		(.text | test("^connection 10.77.0.2:[0-9]+ to 10.77.0.1:7001 \\(pid [0-9]+\\) fell back to TCP: ")))'
	until_true 5 grep -q 'info: connection 10.77.0.2:[0-9]* to 10.77.0.1:7001 (pid [0-9]*) fell back to TCP: ' "$HOSTS_DIR/b.log"
	hosts_down

	two_daemons
	echo_server_on_a "$RUN"
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000 --hold
	until_true 10 shows b connection 'any(.state == "active" and .rx_bytes == 1000)'
	kill -KILL "$SMCRD_PID_a"
	wait "$SMCRD_PID_a" || true
	until_true 10 shows b event 'any(.event == "reset" and .peer == "'"$SERVER"'" and
		(.text | test("^connection .* was reset: the peer has reset the TCP connection$")))'
}

@test "an unclaimed server on a host with smcrd: plain TCP" {
	two_daemons
	echo_server_on_a
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	shows b linkgroup 'length == 0'
}

# told_plain COUNT: have all connections of host b been counted, but those whose number the program has kept?
told_plain() {
	shows b info ".connections.plain_tcp_total | . >= $(($1 - 32)) and . <= $1"
}

@test "a program connects a thousand times to a server without SMC-R: it asks seldom, and all are counted" {
	# from the normal build, as above
	local count=1000 bench=$HOSTS_ROOT/build/bench/tcpbench
	hosts_up 1500
	smcrd_start b
	start_on a "$bench" answer "$SERVER" 7002
	until_true 20 tcp_listens a 7002
	on b "$RUN" "$bench" ask "$SERVER" 7002 "$count"
	until_true 5 told_plain "$count"
	shows b info '(.connections.plain_tcp_total) as $all | ([.fallback_peers[].connections] | add == $all) and
		(.fallbacks | length == 1 and .[0].reason == "peer-no-smc" and .[0].connections == $all)'
	# Each row is a connection that was asked about, and those before it that were not.
	plain b 'length < 500 and any(.unasked > 0) and all(.unasked <= 32)'
	plain b 'length >= 256 or (map(1 + .unasked) | add) >= '$((count - 32))
	smcrctl_on b connection | grep -q 'the peer did not offer SMC-R: .*; the same for [1-9][0-9]* before it'
	# -v says so of each connection
	on b "$RUN" -v "$bench" ask "$SERVER" 7002 100 2>"$HOSTS_DIR/words"
	[ "$(grep -c '> 10.77.0.1:7002: TCP: .*peer-no-smc: the peer did not offer' "$HOSTS_DIR/words")" = 100 ]
	grep -q 'TCP: not asked again so soon, peer-no-smc' "$HOSTS_DIR/words"
}

@test "non-blocking connect() to a server without SMC-R: smcrd is handed few of the sockets, and all are counted" {
	local count=300 host
	hosts_up 1500
	# Another processor handles packets, so that connect() returns before the handshake has ended.
	for host in a b; do
		on "$host" sh -c 'echo 2 >/sys/class/net/eth0/queues/rx-0/rps_cpus'
	done
	smcrd_start b
	start_on a "$HOSTS_BUILD/bench/tcpbench" answer "$SERVER" 7002
	until_true 20 tcp_listens a 7002
	cat >"$HOSTS_DIR/loop.py" <<-'END'
		import select, socket, sys
		for _ in range(int(sys.argv[3])):
		    connection = socket.socket()
		    connection.setblocking(False)
		    connection.connect_ex((sys.argv[1], int(sys.argv[2])))
		    select.select([], [connection], [])
		    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
		    connection.send(bytes(64))
		    select.select([connection], [], [])
		    assert connection.recv(64)
		    connection.close()
	END
	on b "$RUN" taskset -c 0 /usr/bin/python3 "$HOSTS_DIR/loop.py" "$SERVER" 7002 "$count"
	until_true 5 told_plain "$count"
	shows b info '(.connections.plain_tcp_total) as $all | [.fallback_peers[].connections] | add == $all'
	shows b connection '[.[] | select(.state == "handed-back")] | length < 200'
}

# carried HOST: has a connection of this host come to use SMC-R?
carried() {
	shows "$1" info '.connections.established_total > 0'
}

@test "a server gets its smcrd while a client connects to it in a loop: SMC-R within a second" {
	local bench=$HOSTS_ROOT/build/bench/tcpbench late
	hosts_up 1500
	smcrd_start b
	# The first connection after the start of smcrd has the library claim the listener.
	start_on a "$RUN" "$bench" answer "$SERVER" 7002
	until_true 20 tcp_listens a 7002
	start_on b "$RUN" "$bench" ask "$SERVER" 7002 10000000
	until_true 10 plain b 'any(.unasked > 0)'
	smcrd_start a
	late=$(took until_true 10 carried b)
	echo "SMC-R after $late ms"
	[ "$late" -lt $((1000 * ${HOSTS_PATIENCE:-1})) ]
}

# option_calls FILE: how often was a socket option read or set, according to strace?
option_calls() {
	grep -cE '[gs]etsockopt\(' "$1"
}

# For the first connection of a process the library makes more calls.
@test "a connection that falls back costs the client's program two system calls, the server's one" {
	local count=40 first=30 bench=$HOSTS_BUILD/bench/tcpbench
	two_daemons
	# smcr-run starts strace, under which the search for leaks does not work.
	export ASAN_OPTIONS=detect_leaks=0
	start_on a "$bench" answer "$SERVER" 7002
	start_on a "$RUN" strace -f -o "$HOSTS_DIR/server" -e trace=getsockopt,setsockopt \
		"$bench" answer "$SERVER" 7003
	until_true 20 tcp_listens a 7002
	until_true 20 tcp_listens a 7003
	on b "$RUN" strace -f -o "$HOSTS_DIR/client" -e trace=getsockopt,setsockopt \
		"$bench" ask "$SERVER" 7002 "$count"
	option_calls "$HOSTS_DIR/client"
	[ "$(option_calls "$HOSTS_DIR/client")" -le $((2 * count + first)) ]
	[ "$(option_calls "$HOSTS_DIR/client")" -ge $((2 * 16)) ] # until it asks seldom
	# in the long run not even one
	on b "$RUN" strace -f -o "$HOSTS_DIR/client" -e trace=getsockopt,setsockopt \
		"$bench" ask "$SERVER" 7002 2000
	[ "$(option_calls "$HOSTS_DIR/client")" -le 1000 ]
	on b "$bench" ask "$SERVER" 7003 "$count"
	option_calls "$HOSTS_DIR/server"
	[ "$(option_calls "$HOSTS_DIR/server")" -le $((count + first)) ]
	[ "$(option_calls "$HOSTS_DIR/server")" -ge "$count" ]
}

@test "hosts without a common subnet: declined, both sides say why, the bytes go over TCP" {
	hosts_up 1500
	ip -n "$HOSTS_ID-b" addr del 10.77.0.2/24 dev eth0
	ip -n "$HOSTS_ID-b" addr add 10.77.0.2/28 dev eth0
	ip -n "$HOSTS_ID-b" link set eth1 down
	smcrd_start a
	smcrd_start b --rnic soft:eth0
	echo_server_on_a "$RUN"
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000 --half-close
	until_true 5 shows a connection '[.[] | select(.fallback_reason == "prefix-mismatch")] | length == 1'
	shows b connection '[.[] | select(.fallback_reason == "peer-declined" and
		.peer_fallback_reason == "prefix-mismatch" and (.peer_fallback_text | length) > 10)] | length == 1'
	proves RV-3 ERR-2 GEN-4 SEC-2
}

# falls_back DEAD: where RoCE to that host is dropped. LATE says if it took longer than it may.
falls_back() {
	local dead=$1 machine elapsed
	two_daemons
	block_roce "$dead"
	echo_server_on_a "$RUN"
	# the time that the machine needs for the same without SMC-R
	machine=$(took on b "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000)
	elapsed=$(took on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000)
	echo "dead side $dead: $elapsed ms; plain: $machine ms"
	[ "$elapsed" -lt $((2000 + 20 * machine)) ] || LATE=yes
	shows b connection '[.[] | select(.mode == "tcp" and (.fallback_text | length) > 10)] | length >= 1'
	# the host that notices first declines; the other one may not notice
	shows b info '.skipped_peers | length == 1' || shows a info '.skipped_peers | length == 1'
	elapsed=$(took on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000)
	echo "second connection: $elapsed ms"
	[ "$elapsed" -lt $((500 + 20 * machine)) ] || LATE=yes
	[ "$(show b info .connections.fallbacks_total)" = 1 ]
	until_true 5 shows b info '.engine.queue_pairs == 0 and .engine.memory_used_bytes == 0'
	until_true 5 shows a info '.engine.queue_pairs == 0 and .engine.memory_used_bytes == 0'
}

@test "UDP 4791 dropped at either side: TCP within 2 s, the reason is shown, the next skips SMC-R" {
	local dead
	for dead in a b; do
		for _ in 1 2 3; do # one of three shows that it is in time on a busy machine
			LATE=
			falls_back "$dead"
			hosts_down
			[ -n "$LATE" ] || break
		done
		[ -z "$LATE" ]
	done
	proves ERR-5 ERR-6 ERR-18 RV-14
}

@test "non-blocking programs get their bytes whole over TCP after a fallback in mid-connect" {
	two_daemons
	block_roce a
	echo_server_on_a "$RUN"
	for way in epoll select; do
		on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 3000000 --way "$way" --half-close
	done
}

# foreign_start HOST: attach somebody else's BPF program to that host, which does nothing yet.
foreign_start() {
	talk_start foreign "$1" "$HOSTS_BUILD/tests/tools/foreign_bpf"
	[ "$(talk_hear foreign)" = ready ]
}

# greeter: a server on host a, port 7002, that speaks first
greeter() {
	cat >"$HOSTS_DIR/greeter.py" <<-'EOF'
		import socket, sys
		with socket.create_server((sys.argv[1], 7002)) as listener:
		    while True:
		        s = listener.accept()[0]
		        with s:
		            s.sendall(b"welcome")
		            s.sendall(s.recv(100))
	EOF
	start_on a "$RUN" python3 "$HOSTS_DIR/greeter.py" "$SERVER"
	until_true 10 tcp_listens a 7002
}

# both_orders: a client that speaks first, and one that is greeted, exchange bytes with host a
both_orders() {
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	on b "$RUN" python3 - "$SERVER" <<-'EOF'
		import socket, sys
		with socket.create_connection((sys.argv[1], 7002)) as s:
		    assert s.recv(100) == b"welcome"
		    s.sendall(b"hello")
		    assert s.recv(100) == b"hello"
		    assert s.recv(100) == b""
	EOF
}

# reasons HOST ROLE: print the reasons of the connections that were plain TCP from their handshake on, each once
reasons() {
	show "$1" connection "[.[] | select(.role == \"$2\" and .mode == \"tcp\") | .fallback_reason] | unique | join(\" \")"
}

@test "somebody else's BPF program drops the option: plain TCP, whoever speaks first, and the host that did it says so" {
	local at host
	two_daemons
	echo_server_on_a "$RUN"
	greeter
	both_orders
	until_true 5 shows b connection '[.[] | select(.mode == "smcr")] | length == 2'
	foreign_start a
	for at in 4000 8000 ffffffff; do # the room for the option, the option, everything
		tell foreign "zero $at"
		both_orders
	done
	until_true 5 shows a connection '[.[] | select(.mode == "tcp")] | length == 6'
	[ "$(reasons a server)" = option-removed ]
	until_true 5 shows b connection '[.[] | select(.mode == "tcp")] | length == 6'
	[ "$(reasons b client)" = peer-no-smc ]
	talk_kill foreign
	hosts_down

	hosts_up 1500
	for host in a b; do
		echo 'egress_guard = no' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	echo_server_on_a "$RUN"
	greeter
	foreign_start b
	for at in 4000 8000 ffffffff; do
		tell foreign "zero $at"
		both_orders
	done
	until_true 5 shows b connection '[.[] | select(.mode == "tcp")] | length == 6'
	[ "$(reasons b client)" = option-removed ]
	shows b info '.skipped_peers == []'
}

# drop_at HOST FILTER: the host drops TCP packets with port 7001 that come in; counted
drop_at() {
	on "$1" nft -f - <<-END
		table ip lose { chain in {
			type filter hook input priority 0; tcp $2 counter drop; }; }
	END
}

dropped_at() {
	[ "$(on "$1" nft list table ip lose | sed -n 's/.*packets \([0-9]*\).*/\1/p')" -ge "$2" ]
}

@test "a SYN-ACK has the option and the next one has not: the client's first bytes tell the server which of them came" {
	two_patient_daemons
	echo_server_on_a "$RUN"
	foreign_start a
	# the first one comes, and the server's kernel does not hear of it before it has sent another one
	drop_at a 'dport 7001 tcp flags & (syn | ack) == ack'
	capture_start a eth0 first tcp src port 7001
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	CLIENT_PID=$!
	until_true 10 synacks first 1
	tell foreign 'zero 8000'
	until_true 20 synacks first 2
	on a nft delete table ip lose
	wait "$CLIENT_PID"
	capture_stop first
	until_true 5 shows b connection 'any(.mode == "smcr" and .rx_bytes == 100000)'

	# the first one is lost
	tell foreign 'zero 0'
	drop_at b 'sport 7001 tcp flags & (syn | ack) == syn | ack'
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	CLIENT_PID=$!
	until_true 10 dropped_at b 1
	tell foreign 'zero 8000'
	on b nft delete table ip lose
	wait "$CLIENT_PID"
	until_true 5 shows a connection 'any(.role == "server" and .mode == "tcp" and .fallback_reason == "option-removed")'
	until_true 5 shows b connection 'any(.role == "client" and .mode == "tcp" and .fallback_reason == "peer-no-smc")'
}

# synacks NAME N: has the capture so many SYN-ACKs?
synacks() {
	[ "$(capture_fields "$1" 'tcp.flags.syn == 1' frame.number | wc -l)" -ge "$2" ]
}

@test "BPF programs put sockets into a sockmap: SMC-R is used all the same, also when the Proposal comes before the server accepts" {
	local host use
	two_patient_daemons
	echo_server_on_a "$RUN"
	greeter
	for host in a b; do
		for use in none msg verdict; do
			foreign_start "$host"
			[ "$use" = none ] || tell foreign "use $use"
			tell foreign 'map 30' # when the handshake is over
			both_orders
			on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000 --way epoll
			talk_send foreign mapped
			[ "$(talk_hear foreign)" != 'ok 0' ]
			talk_kill foreign
		done
	done
	# more often than the server's accept() can be in front of the Proposal
	foreign_start a
	tell foreign 'map 30'
	for _ in 1 2 3 4 5; do both_orders; done
	until_true 5 shows b connection 'all(.mode == "smcr")'
	shows a connection 'all(.mode == "smcr")'
}
