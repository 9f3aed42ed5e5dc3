#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrd adds neighbour entries for peers' RNICs, which all IP traffic of the host uses.
bats_require_minimum_version 1.5.0
load common

# mac_of HOST NIC
mac_of() {
	ip -n "$HOSTS_ID-$1" -j link show "$2" | jq -r '.[0].address'
}

# permanent HOST ADDRESS: print the MAC of the permanent entry for an address, if there is one
permanent() {
	ip -n "$HOSTS_ID-$1" -j neigh show to "$2" nud permanent | jq -r '.[0].lladdr // empty'
}

is_permanent() {
	[ -n "$(permanent "$1" "$2")" ]
}

is_not_permanent() {
	[ -z "$(permanent "$1" "$2")" ]
}

# stop HOST [SIGNAL]: end the daemon of that host
stop() {
	local name=SMCRD_PID_$1
	kill "-${2:-TERM}" "${!name}"
	wait "${!name}" || [ "${2:-TERM}" = KILL ]
}

transfer() {
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
}

server() {
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
}

@test "an operator's permanent neighbour entry outlives smcrd's use of it" {
	local mac
	hosts_up 1500
	mac=$(mac_of a eth0)
	ip -n "$HOSTS_ID-b" neigh replace "$SERVER" lladdr "$mac" dev eth0 nud permanent
	smcrd_start a --rnic soft:eth0
	smcrd_start b --rnic soft:eth0
	server
	transfer
	until_true 5 is_permanent a "$CLIENT"
	[ "$(permanent b "$SERVER")" = "$mac" ]
	stop b
	[ "$(permanent b "$SERVER")" = "$mac" ]
	# smcrd deletes its own entries when it stops
	stop a
	is_not_permanent a "$CLIENT"
}

@test "the next daemon deletes the neighbour entries that a killed one has left, and no others" {
	two_daemons --rnic soft:eth0
	ip -n "$HOSTS_ID-b" neigh add 10.77.0.99 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
	server
	transfer
	until_true 5 is_permanent b "$SERVER"
	stop b KILL
	is_permanent b "$SERVER"
	# a smcrd that cannot serve does not touch the entries, which may belong to another smcrd
	run -1 on b "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/b.conf" \
		--socket "$HOSTS_DIR/no/such/b.sock"
	is_permanent b "$SERVER"
	smcrd_start b --rnic soft:eth0
	until_true 5 is_not_permanent b "$SERVER"
	[ "$(permanent b 10.77.0.99)" = 02:00:00:00:00:99 ]
	transfer
}

# claim MAC: an attacker on host b tells the server on host a that host b's RNIC has this MAC
claim() {
	start_on b /usr/bin/python3 "$BATS_TEST_DIRNAME/clc_attack.py" "$SERVER" 7001 confirm "$CLIENT" "$1" \
		>"$HOSTS_DIR/claim.out" 2>&1
	CLAIM_PID=$!
	until_true 10 grep -q sent "$HOSTS_DIR/claim.out"
}

doubts() {
	grep -q "$CLIENT on eth0 names the MAC $1" "$HOSTS_DIR/a.log"
}

@test "a false MAC in a CLC message does not lead a host's packets astray" {
	local mac
	two_daemons --rnic soft:eth0
	server
	mac=$(mac_of b eth0)
	claim 02:00:00:00:00:66
	# plain TCP between these hosts still works
	timeout 300 ip netns exec "$HOSTS_ID-b" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	until_true 10 doubts 02:00:00:00:00:66
	grep -q "the network $mac, which is used" "$HOSTS_DIR/a.log"
	[ "$(permanent a "$CLIENT")" != 02:00:00:00:00:66 ]
	wait "$CLAIM_PID"
}

@test "a false MAC does not displace the entry of links that work" {
	two_daemons --rnic soft:eth0
	server
	transfer
	until_true 5 is_permanent a "$CLIENT"
	claim 02:00:00:00:00:66
	[ "$(permanent a "$CLIENT")" = "$(mac_of b eth0)" ]
	transfer
	wait "$CLAIM_PID"
	[ "$(permanent a "$CLIENT")" = "$(mac_of b eth0)" ]
}
