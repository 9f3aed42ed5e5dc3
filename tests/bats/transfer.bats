#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Unmodified programs exchange data over SMC-R between two hosts.
bats_require_minimum_version 1.5.0
load common

@test "a web server and curl: the file is whole, no byte of it goes over TCP" {
	# RoCE of reliable connections: the upper three bits of the opcode are 0. Queue pair 1 belongs to RDMA connection
	# managers.
	local rc_only="udp port 4791 and udp[8] < 0x20 and udp[12:4] & 0xffffff > 1"
	two_daemons
	capture_start sw br0 tcp tcp port 8080
	capture_start sw br0 roce -c 20 "$rc_only"
	capture_start sw br0 rest "(tcp or udp) and not tcp port 8080 and not ($rc_only)"
	web_server a "$SERVER" "$RUN"
	random_file "$HOSTS_DIR/www/file" 64
	on b "$RUN" --require curl -sS -o "$HOSTS_DIR/copy" "http://$SERVER:8080/file"
	cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
	shows b connection '[.[] | select(.mode == "smcr" and .rx_bytes > 67108864)] | length == 1'
	until_true 5 eval '[ -n "$(capture_fields tcp "tcp.flags.fin == 1" tcp.len)" ]'
	capture_stop tcp
	capture_stop rest
	# GEN-2: everything else is on reliable connections, and nothing goes to a connection manager
	until_true 5 eval '[ "$(capture_fields roce infiniband.bth frame.number | wc -l)" = 20 ]'
	[ -z "$(capture_fields rest frame frame.number)" ]
	# GEN-3: the TCP connection carries nothing but CLC messages
	[ -n "$(capture_fields tcp "tcp.payload[0:4] == e2:d4:c3:d9" tcp.len)" ]
	[ -z "$(capture_fields tcp "tcp.len > 0 && !(tcp.payload[0:4] == e2:d4:c3:d9)" tcp.len)" ]
	proves GEN-2 GEN-3 CLOSE-2
}

@test "first contact gives a symmetric group with two links over two NICs, both used by their MAC" {
	two_daemons
	web_server a "$SERVER" "$RUN"
	random_file "$HOSTS_DIR/www/file" 1
	for _ in 1 2 3 4; do
		on b "$RUN" --require curl -sS -o /dev/null "http://$SERVER:8080/file"
	done
	for host in a b; do
		until_true 60 shows "$host" linkgroup 'length == 1 and .[0].type == "symmetric" and .[0].links == 2'
		[ "$(show "$host" link '[.[] | select(.state == "active") | .rnic] | unique | length')" = 2 ]
		until_true 5 eval '[ "$(ip -n "$HOSTS_ID-$host" neigh show nud permanent | wc -l)" -ge 2 ]'
	done
	# the neighbour entries have the MAC of the peer's NIC, not of another NIC that has answered ARP
	for nic in 0 1; do
		mac=$(ip -n "$HOSTS_ID-a" -j link show "eth$nic" | jq -r '.[0].address')
		ip -n "$HOSTS_ID-b" neigh show dev "eth$nic" nud permanent | grep -q "$mac"
	done
	[ "$(show a linkgroup '.[0].role')" = server ]
	[ "$(show b linkgroup '.[0].role')" = client ]
	proves GEN-7 GEN-12 CLC-17
}

@test "one NIC a side gives a single link; one and two as well" {
	hosts_up 1500
	smcrd_start a --rnic soft:eth0
	smcrd_start b --rnic soft:eth0
	web_server a "$SERVER" "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	[ "$(on b "$RUN" --require curl -sS "http://$SERVER:8080/hello")" = hello ]
	shows a linkgroup 'length == 1 and .[0].type == "single" and .[0].links == 1'
}

@test "connections in both directions use two link groups with opposite roles" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	start_on b "$RUN" "$PROGRAMS/echo_server" "$CLIENT" 7001
	until_true 5 tcp_listens a 7001
	until_true 5 tcp_listens b 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	on a "$RUN" --require "$PROGRAMS/echo_client" "$CLIENT" 7001 --bytes 100000
	[ "$(show a linkgroup '[.[].role] | sort | join(" ")')" = "client server" ]
	proves PLG-4
}

@test "half close: the client ends its direction and still gets everything" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 5000000 --half-close
	proves CLOSE-5 CLOSE-6
}

@test "100 connections at once, from several processes, with epoll before connect, select and threads" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	pids=()
	for way in epoll select threads; do
		start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 200000 \
			--connections 34 --way "$way"
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	# all connections used SMC-R, in one link group
	shows b linkgroup 'length == 1'
	[ "$(show b info .connections.established_total)" -ge 102 ]
	[ "$(show b info .connections.fallbacks_total)" = 0 ]
	proves SOCK-1
}

@test "1,000 connections through one link group leave nothing behind" {
	hosts_up 1500
	for host in a b; do
		# unused RMBs are freed soon, so that leftovers can be compared; short connections stay on SMC-R
		printf '%s\n' 'rmb_idle_seconds = 1' 'short_connection_rate = 0' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100
	# at rest three timers run: one ends an idle group, and one for each link probes it
	until_true 10 shows a info '.engine.timers == 3'
	until_true 10 shows b info '.engine.timers == 3'
	before_a=$(leftovers a) before_b=$(leftovers b)
	fds_a=$(ls "/proc/$SMCRD_PID_a/fd" | wc -l) fds_b=$(ls "/proc/$SMCRD_PID_b/fd" | wc -l)
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000 --repeat 1000
	[ "$(show b info .connections.established_total)" = 1001 ]
	# how often smcrd looks without sleeping depends on the machine: on a busy one looking does not pay
	shows b info '.event_loop | .spins_total > 0 and .sleeps_total > 0'
	shows b linkgroup 'length == 1'
	until_true 10 eval '[ "$(leftovers a)" = "$before_a" ]'
	until_true 10 eval '[ "$(leftovers b)" = "$before_b" ]'
	# that of smcrctl goes a moment after smcrctl
	until_true 5 eval '[ "$(ls "/proc/$SMCRD_PID_a/fd" | wc -l)" -le "$fds_a" ]'
	until_true 5 eval '[ "$(ls "/proc/$SMCRD_PID_b/fd" | wc -l)" -le "$fds_b" ]'
}

@test "TLS runs unchanged above it, handshake included" {
	two_daemons
	openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=a -keyout "$HOSTS_DIR/key.pem" \
		-out "$HOSTS_DIR/cert.pem" 2>/dev/null
	mkdir "$HOSTS_DIR/www"
	random_file "$HOSTS_DIR/www/file" 8
	cd "$HOSTS_DIR/www"
	start_on a "$RUN" openssl s_server -quiet -WWW -accept "$SERVER:8443" \
		-cert "$HOSTS_DIR/cert.pem" -key "$HOSTS_DIR/key.pem" >"$HOSTS_DIR/tls.log" 2>&1
	until_true 5 tcp_listens a 8443
	on b "$RUN" --require curl -sS --insecure -o "$HOSTS_DIR/copy" "https://$SERVER:8443/file"
	cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
	shows b connection '[.[] | select(.mode == "smcr" and .rx_bytes > 8388608)] | length == 1'
	proves SEC-5
}

@test "filters on the TCP handshake work: a connection they refuse is refused" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on a nft -f - <<-'EOF'
	table inet guard {
		chain in {
			type filter hook input priority 0
			tcp dport 7001 tcp flags & (syn | ack) == syn reject with tcp reset
		}
	}
	EOF
	run -1 on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001
	[[ "$output" == *"Connection refused"* ]]
	run -1 on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --way epoll
	[[ "$output" == *"Connection refused"* ]]
	on a nft delete table inet guard
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	proves SEC-3
}

# heard_both_ways CAPTURE ADDRESS: has it packets from there, and to there?
heard_both_ways() {
	[ -n "$(capture_fields "$1" "ip.src == $2" ip.dst)" ] && [ -n "$(capture_fields "$1" "ip.dst == $2" ip.src)" ]
}

@test "two links are two paths: each NIC carries the packets of its own link, with default sysctls" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	# Before smcrd has proven the MACs of CLC and LLC, packets go to the NIC that answers ARP.
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100
	for host in a b; do
		until_true 10 eval '[ "$(ip -n "$HOSTS_ID-$host" neigh show nud permanent | wc -l)" = 2 ]'
	done
	for nic in 0 1; do
		capture_start a "eth$nic" "nic$nic" udp port 4791
	done
	# LG-17 spreads connections over both links
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 20000 --connections 6 \
		--way threads
	for nic in 0 1; do
		own=10.77.0.$((nic * 10 + 1)) peer=10.77.0.$((nic * 10 + 2))
		until_true 5 heard_both_ways "nic$nic" "$own"
		capture_stop "nic$nic"
		[ "$(capture_fields "nic$nic" "ip.src == $own" ip.dst | sort -u)" = "$peer" ]
		[ "$(capture_fields "nic$nic" "ip.dst == $own" ip.src | sort -u)" = "$peer" ]
		[ -z "$(capture_fields "nic$nic" "!(ip.addr == $own)" ip.src)" ]
	done
	proves LG-17
}

@test "tshark decodes CLC, LLC and CDC of a recorded session without an expert error" {
	two_daemons
	capture_start sw br0 all tcp port 7001 or udp port 4791
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 300000 --repeat 3
	until_true 5 shows b info '.engine.connections == 0'
	capture_stop all
	for message in smc.clc_msg smc.llc_msg 'smc.llc_msg == 0xfe'; do
		[ -n "$(capture_fields all "$message" frame.number)" ]
	done
	# tshark 4.0 expects the growth area that deployed peers put into a Proposal, and reads past the end of a Proposal
	# that is exactly as in the RFC's A.2.2 (offset 0, 52 bytes). Only those may fail.
	capture_fields all 'smc && (_ws.malformed || _ws.expert.severity == error) &&
		!(smc.clc_msg == 1 && tcp.len == 52)' frame.number >"$HOSTS_DIR/errors"
	[ ! -s "$HOSTS_DIR/errors" ]
}

# time_waits HOST: print how many TCP connections of port 7001 are in TIME_WAIT there
time_waits() {
	on "$1" ss -Htan state time-wait '( sport = :7001 or dport = :7001 )' | wc -l
}

client_waits() {
	[ "$(time_waits b)" = 10 ]
}

@test "TIME_WAIT is at the host whose program ends first, as with TCP" {
	two_daemons
	start_on a "$RUN" --require python3 -c 'import socket, sys
listener = socket.create_server((sys.argv[1], 7001))
while True:
    conn = listener.accept()[0]
    while conn.recv(100):
        pass
    conn.sendall(b"answer")
    conn.close()' "$SERVER"
	until_true 10 tcp_listens a 7001
	on b "$RUN" --require python3 -c 'import socket, sys
for i in range(10):
    conn = socket.create_connection((sys.argv[1], 7001))
    conn.sendall(b"question")
    conn.shutdown(socket.SHUT_WR)
    assert conn.recv(100, socket.MSG_WAITALL) == b"answer"
    conn.close()' "$SERVER"
	until_true 10 client_waits
	[ "$(time_waits a)" = 0 ]
	proves CLOSE-2
}

@test "an answer and its end are read after one send too many, as with TCP" {
	two_daemons
	start_on a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" answering-server "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	run -0 on b /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" late-sender "$SERVER" 7001
	run -0 on b "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" late-sender "$SERVER" 7001
	shows b connection 'any(.mode == "smcr")'
}

@test "a client writes, reads nothing and closes: the answer meets a reset, as with TCP, while bytes wait" {
	two_daemons
	for way in '' "$RUN"; do
		# shellcheck disable=SC2086 # no word, or one
		start_on a $way /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" late-answer "$SERVER" 7001 \
			>"$HOSTS_DIR/answer"
		local server=$!
		until_true 5 tcp_listens a 7001
		# shellcheck disable=SC2086
		on b $way /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" filling-client "$SERVER" 7001
		wait "$server"
		[ "$(cat "$HOSTS_DIR/answer")" = reset ]
	done
	shows b connection 'any(.mode == "smcr")'
}
