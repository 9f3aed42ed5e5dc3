#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs that are killed, daemons that are killed or stopped, and peers and packets that lie.
bats_require_minimum_version 1.5.0
load common

@test "the daemon killed in the middle: ECONNRESET at once, with and without the preload" {
	# --reader exec: a child without the library reads the inherited descriptor
	for reader in plain exec; do
		for victim in a b; do
			two_daemons
			start_on a "$RUN" "$PROGRAMS/endless_server" "$SERVER" 7002
			until_true 5 tcp_listens a 7002
			start_on b "$RUN" --require "$PROGRAMS/reset_reader" "$SERVER" 7002 --reader "$reader"
			reader_pid=$!
			until_true 5 shows b connection '[.[] | select(.rx_bytes > 1000000)] | length == 1'
			pid=SMCRD_PID_$victim
			kill -KILL "${!pid}"
			# reset_reader exits with 0 only after ECONNRESET. If the server's daemon was killed, the client's
			# daemon learns of the end by TCP, or by the dead link.
			wait "$reader_pid"
			hosts_down
		done
	done
	proves GEN-10
}

@test "a stopped daemon loses nothing" {
	two_daemons
	web_server a "$SERVER" "$RUN"
	random_file "$HOSTS_DIR/www/file" 256
	for victim in a b; do
		start_on b "$RUN" --require curl -sS --limit-rate 150M -o "$HOSTS_DIR/copy" \
			"http://$SERVER:8080/file"
		curl_pid=$!
		until_true 5 shows b connection '[.[] | select(.state == "active" and .rx_bytes > 20000000)] | length == 1'
		pid=SMCRD_PID_$victim
		kill -STOP "${!pid}"
		sleep 1 # the stop has to last a second
		kill -CONT "${!pid}"
		wait "$curl_pid"
		cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
	done
}

@test "a program killed: the peer sees the end or a reset, nothing is left" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/endless_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7002
	for _ in 1 2 3 4 5; do
		start_on b "$RUN" --require "$PROGRAMS/reset_reader" "$SERVER" 7002
		reader_pid=$!
		until_true 5 shows b connection '[.[] | select(.state == "active" and .rx_bytes > 1000000)] | length == 1'
		kill -KILL "$reader_pid"
		wait "$reader_pid" || true
		until_true 5 shows a info '.engine.connections == 0'
		until_true 5 shows b info '.engine.connections == 0'
	done
	until_true 5 shows a info '.engine.elements_used == 0'
	until_true 5 shows b info '.engine.elements_used == 0'
	shows b linkgroup 'length == 1'
	proves ABORT-5
}

@test "CLC peers that are malformed, oversized, out of order or silent harm nobody else" {
	two_daemons
	echo_server_on_a "$RUN"
	# one good connection stays open all the time
	start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100 --hold
	hold_pid=$!
	until_true 5 shows b connection '[.[] | select(.state == "active")] | length == 1'
	for attack in garbage bad-trailer oversized truncated accept-first confirm-first wrong-type \
		application-data zero-length decline; do
		on b python3 "$BATS_TEST_DIRNAME/clc_attack.py" "$SERVER" 7001 "$attack"
	done
	until_true 5 shows a connection '[.[] | select(.state == "active")] | length == 1'
	# a silent peer is given up when its time is over, and delays nobody meanwhile (ERR-10); a busy machine
	# needs a few of them to show that
	for _ in 1 2 3 4 5; do
		start_on b /usr/bin/python3 "$BATS_TEST_DIRNAME/clc_attack.py" "$SERVER" 7001 silent
		silent_pid=$!
		until_true 5 eval '! kill -0 "$silent_pid" 2>/dev/null || shows a connection "any(.mode == \"pending\")"'
		on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
		meanwhile=no
		! kill -0 "$silent_pid" || meanwhile=yes
		wait "$silent_pid"
		[ "$meanwhile" = no ] || break
	done
	[ "$meanwhile" = yes ]
	kill "$hold_pid"
	until_true 5 shows a info '.engine.connections == 0'
	proves ERR-10 ERR-11 ERR-13
}

@test "stray and forged RoCE packets are dropped or refused, and counted" {
	two_daemons
	echo_server_on_a "$RUN"
	start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100 --hold
	hold_pid=$!
	until_true 5 shows a connection '[.[] | select(.state == "active")] | length == 1'
	qpn=$(show a link '.[0].local_qpn')
	drops() {
		show a device '[.[].counters | .drop_malformed + .drop_icrc + .drop_qp + .drop_peer + .drop_psn + .drop_access] | add'
	}
	before=$(drops)
	# sent from the bridge's namespace, with an address that is no QP's peer
	ip -n "$HOSTS_ID-sw" addr add 10.77.0.99/24 dev br0
	mac=$(ip -n "$HOSTS_ID-a" -j link show eth0 | jq -r '.[0].address')
	ip -n "$HOSTS_ID-sw" neigh replace "$SERVER" lladdr "$mac" dev br0 # eth1 might answer ARP
	on sw python3 "$BATS_TEST_DIRNAME/roce_forge.py" 10.77.0.99 "$SERVER" "$qpn"
	until_true 5 eval '[ "$(drops)" -ge $((before + 6)) ]'
	until_true 5 shows a connection '[.[] | select(.state == "active")] | length == 1'
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	kill "$hold_pid"
}
