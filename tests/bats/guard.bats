#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Who may use UDP port 4791 on a host where smcrd runs: root, and its own user.
load common

# drops: packets that host a's RNICs have refused
drops() {
	show a device '[.[].counters | .drop_malformed + .drop_icrc + .drop_qp + .drop_peer] | add'
}

has_dropped() {
	[ "$(drops)" -gt "$1" ]
}

# rules_of_page: the firewall's rules in docs/security.md, for a machine that has no user smcrd
rules_of_page() {
	sed -n '/^ *table inet smcrd/,/^      }/p' "$HOSTS_ROOT/docs/security.md" | sed 's/"smcrd"/65533/'
}

# a_user NAME HOST: a program of user 12345
a_user() {
	talk_start "$1" "$2" python3 "$BATS_TEST_DIRNAME/udp_user.py"
	tell "$1" 'user 12345'
}

hosts_with_ipv6() {
	hosts_up 1500
	ip -n "$HOSTS_ID-a" addr add fd77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd77::2/64 dev eth0 nodad
}

# every_way NAME PORT ANSWER: all ways to send to a's port, and to have it on b
every_way() {
	local address
	for address in 10.77.0.1 fd77::1 ::ffff:10.77.0.1; do
		tell "$1" "send $address $2" "$3"
		tell "$1" "send-corked $address $2" "$3"
		tell "$1" "send-connected $address $2" "$3"
		tell "$1" "connect $address $2" "$3"
	done
	tell "$1" "send-from 10.77.0.12 10.77.0.1 $2" "$3"
	for address in 10.77.0.12 127.0.0.1 fd77::2 ::ffff:127.0.0.1 ::1; do
		tell "$1" "bind $address $2" "$3"
	done
}

@test "users other than root can neither send to UDP port 4791 nor have it while smcrd runs" {
	hosts_with_ipv6
	smcrd_start b --rnic soft:eth0
	a_user user b
	every_way user 4791 EPERM
	every_way user 4790 ok
	# of another network namespace, where no smcrd is
	a_user stranger a
	tell stranger 'send 10.77.0.2 4791'
	tell stranger 'bind 10.77.0.1 4791'
	talk_start root b python3 "$BATS_TEST_DIRNAME/udp_user.py"
	every_way root 4791 ok
	kill -KILL "$SMCRD_PID_b"
	wait "$SMCRD_PID_b" || true
	every_way user 4791 ok
}

@test "a socket that a user has connected to port 4791 before smcrd starts is of no use any more" {
	hosts_with_ipv6
	local way=0 address
	# "port unreachable" would be an error too
	on a nft -f - <<-'END'
		table inet quiet { chain in {
			type filter hook input priority 0; udp dport 4791-4792 drop; }; }
	END
	for address in 10.77.0.1 fd77::1 ::ffff:10.77.0.1; do
		way=$((way + 1))
		a_user "user$way" b
		tell "user$way" "connect $address 4791"
		tell "user$way" write
	done
	a_user twins b
	tell twins 'twins 10.77.0.1 4791'
	a_user other b
	tell other 'connect 10.77.0.1 4792'
	talk_start root b python3 "$BATS_TEST_DIRNAME/udp_user.py"
	tell root 'connect 10.77.0.1 4791'
	smcrd_start b
	for way in 1 2 3; do
		tell "user$way" write EDESTADDRREQ # it is connected no more
	done
	tell twins write EDESTADDRREQ
	tell twins write-second EDESTADDRREQ
	tell user1 'again 10.77.0.1 4791' EPERM
	tell user2 'again fd77::1 4791' EPERM
	tell user3 'again ::ffff:10.77.0.1 4791' EPERM
	tell other write
	tell root write
}

@test "the firewall's rules in docs/security.md let peers pass and nobody else" {
	local before mac
	two_daemons
	rules_of_page >"$HOSTS_DIR/rules"
	on a nft -f "$HOSTS_DIR/rules"
	on b nft -f "$HOSTS_DIR/rules"
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000
	# a host that is no peer
	ip -n "$HOSTS_ID-sw" addr add 10.77.0.99/24 dev br0
	mac=$(ip -n "$HOSTS_ID-a" -j link show eth0 | jq -r '.[0].address')
	ip -n "$HOSTS_ID-sw" neigh replace "$SERVER" lladdr "$mac" dev br0 # eth1 might answer ARP
	before=$(drops)
	on sw python3 "$BATS_TEST_DIRNAME/roce_forge.py" 10.77.0.99 "$SERVER" 1234
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000
	[ "$(drops)" = "$before" ]
	on a nft delete table inet smcrd
	on sw python3 "$BATS_TEST_DIRNAME/roce_forge.py" 10.77.0.99 "$SERVER" 1234
	until_true 5 has_dropped "$before"
}
