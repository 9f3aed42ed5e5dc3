#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# connect() of a non-blocking program that takes its time: the first SYNs are lost.
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

# connect_slowly: start the client with SYNs lost; returns once the daemon has its connection.
connect_slowly() {
	lose_syns
	start_on b "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 3000000 --way epoll \
		2>"$HOSTS_DIR/client.err"
	CLIENT_PID=$!
	until_true 5 shows b connection 'any(.mode == "pending" and .state == "INIT")'
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
	# Out of the daemon's sight: it has relayed no byte.
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
	grep -qi "refused" "$HOSTS_DIR/client.err"
	until_true 5 shows b connection 'any(.state == "FAILED" and .error == "ECONNREFUSED")'
}

@test "a program killed while it connects: the daemon gives up too" {
	two_daemons
	connect_slowly
	kill -KILL "$CLIENT_PID"
	until_true 5 shows b connection 'all(.ended)'
	proves GEN-10
}
