#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Only root and smcrd's own user may use UDP port 4791 on a host where smcrd runs.
bats_require_minimum_version 1.5.0
load common

# drops: how many packets host a's RNICs have refused
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

# a_user NAME HOST: start a program of user 12345
a_user() {
	talk_start "$1" "$2" python3 "$BATS_TEST_DIRNAME/udp_user.py"
	tell "$1" 'user 12345'
}

hosts_with_ipv6() {
	hosts_up 1500
	ip -n "$HOSTS_ID-a" addr add fd77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd77::2/64 dev eth0 nodad
}

# every_send NAME PORT ANSWER: try all ways to send to this port of a; each must give ANSWER
every_send() {
	local address
	for address in 10.77.0.1 fd77::1 ::ffff:10.77.0.1; do
		tell "$1" "send $address $2" "$3"
		tell "$1" "send-corked $address $2" "$3"
		tell "$1" "send-connected $address $2" "$3"
		tell "$1" "connect $address $2" "$3"
	done
	tell "$1" "send-from 10.77.0.12 10.77.0.1 $2" "$3"
}

# every_way NAME PORT ANSWER: the same, and all ways to bind this port on b
every_way() {
	local address
	every_send "$@"
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
	# a user in another network namespace, where no smcrd runs
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
	# block ICMP "port unreachable", which would be an error too
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
		tell "user$way" write EDESTADDRREQ # the socket is not connected any more
	done
	tell twins write EDESTADDRREQ
	tell twins write-second EDESTADDRREQ
	tell user1 'again 10.77.0.1 4791' EPERM
	tell user2 'again fd77::1 4791' EPERM
	tell user3 'again ::ffff:10.77.0.1 4791' EPERM
	tell other write
	tell root write
}

# transfer: bytes go from b to a and back, by SMC-R
transfer() {
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000
}

# stranger_comes: a host that is no peer is on the LAN, and knows the MAC of a
stranger_comes() {
	local mac
	ip -n "$HOSTS_ID-sw" addr add 10.77.0.99/24 dev br0
	mac=$(ip -n "$HOSTS_ID-a" -j link show eth0 | jq -r '.[0].address')
	ip -n "$HOSTS_ID-sw" neigh replace "$SERVER" lladdr "$mac" dev br0 # eth1 might answer ARP
}

stranger_forges() {
	on sw python3 "$BATS_TEST_DIRNAME/roce_forge.py" 10.77.0.99 "$SERVER" 1234
}

@test "the firewall's rules in docs/security.md let peers pass and nobody else" {
	local before
	two_daemons
	rules_of_page >"$HOSTS_DIR/rules"
	on a nft -f "$HOSTS_DIR/rules"
	on b nft -f "$HOSTS_DIR/rules"
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	transfer
	until_true 20 shows a linkgroup 'all(.type == "symmetric")' # nothing else is under way
	stranger_comes
	before=$(drops)
	stranger_forges
	transfer
	[ "$(drops)" = "$before" ]
	on a nft delete table inet smcrd
	stranger_forges
	until_true 5 has_dropped "$before"
}

# load_printed_rules HOST: as an operator does
load_printed_rules() {
	smcrctl_on "$1" doctor --rules | on "$1" nft -f -
	[ "${PIPESTATUS[*]}" = "0 0" ]
}

@test "the firewall's rules that smcrctl doctor prints let peers pass and nobody else" {
	local before host
	hosts_up 1500
	echo 'link_timeout_milliseconds = 4000' | tee "$HOSTS_DIR/a.conf" >"$HOSTS_DIR/b.conf"
	echo 'egress_guard = no' >>"$HOSTS_DIR/b.conf" # only the firewall is to keep users from the port
	smcrd_start a
	smcrd_start b
	run -1 smcrctl_on a doctor --rules -s "$HOSTS_DIR/b.sock" # rules of another host are not for this one
	[[ "$output" == *"smcrd runs in another network namespace than this command"* ]]
	load_printed_rules a # no peer is known yet: all may come
	echo_server_on_a "$RUN"
	transfer
	for host in a b; do
		until_true 20 shows "$host" linkgroup 'length == 1 and all(.type == "symmetric")'
		load_printed_rules "$host"
		load_printed_rules "$host" # takes the place of the one before
		[ "$(on "$host" nft list table inet smcrd | grep -c 'saddr != @peers drop')" = 1 ]
	done
	on a nft get element inet smcrd peers '{ 10.77.0.2, 10.77.0.12 }'
	on b nft get element inet smcrd peers '{ 10.77.0.1, 10.77.0.11 }'
	run -0 smcrctl_on a doctor
	[[ "$output" == *"drops some of UDP port 4791, which RoCE needs, where it comes in at eth0"* ]] # what is no peer's
	[[ "$output" != *"drops"*"where it goes out"* ]]
	stranger_comes
	a_user user b
	before=$(drops)
	stranger_forges
	tell user "send $SERVER 4791" EPERM # the port of its own host's smcrd is not for a user's program
	transfer
	[ "$(drops)" = "$before" ]
	shows a linkgroup 'length == 1 and all(.type == "symmetric")'
	# without the rules they get through
	on b nft delete table inet smcrd
	on a nft delete table inet smcrd
	tell user "send $SERVER 4791"
	until_true 5 has_dropped "$before"
	before=$(drops)
	stranger_forges
	until_true 5 has_dropped "$before"
}

# clc_user NAME HOST: start a program of user 12345 that sends CLC
clc_user() {
	talk_start "$1" "$2" python3 "$BATS_TEST_DIRNAME/clc_user.py"
	tell "$1" 'user 12345'
}

# kept_from HOST COUNT: has the host kept back more than COUNT packets?
kept_from() {
	[ "$(show "$1" stats .refused.clc)" -gt "$2" ]
}

# nobody_hears NAME HOST COMMAND: the CLC that the program sends by this command does not leave the host
nobody_hears() {
	local before
	before=$(show "$2" stats .refused.clc)
	tell "$1" "$3"
	until_true 5 kept_from "$2" "$before"
	tell "$1" heard nothing
}

@test "users cannot speak CLC in the name of their host, as client or server" {
	two_daemons
	chmod 755 "$HOSTS_DIR"
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	clc_user client b
	tell client "connect $SERVER 7001"
	nobody_hears client b propose
	tell client "connect $SERVER 7001"
	nobody_hears client b end-group
	# the program hands the socket over as an accepted one; smcrd gives it up, and the restriction stays
	tell client "connect $SERVER 7001"
	tell client "hand-over $HOSTS_DIR/b.sock 3"
	until_true 5 shows b connection 'any(.fallback_reason != null)'
	nobody_hears client b propose
	# a peer reads past an urgent byte
	tell client "connect $SERVER 7001"
	nobody_hears client b urgent
	# The user has a server on the other host. The client's smcrd proposes, and the user's answer does not get out.
	clc_user server a
	tell server "listen $SERVER 7002"
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7002 --bytes 100
	tell server accept
	tell server wait
	tell server heard clc
	tell server end-group
	until_true 5 kept_from a 0
	shows a linkgroup 'length == 0'
	# smcrd has taken the socket over, and the user keeps it too: smcrd's Proposal passes, the user's Confirm does not.
	tell client "connect $SERVER 7001"
	tell client "hand-over $HOSTS_DIR/b.sock"
	until_true 10 shows b connection 'any(.mode == "smcr")'
	nobody_hears client b confirm
	# An event names the user.
	until_true 5 shows b event 'any(.event == "user-refused" and (.text | startswith("user 12345 was refused to speak CLC")))'
	[ "$(show a stats .refused.roce)" = 0 ]
	# Root may send CLC, because root could forge the segments anyway.
	on b python3 "$BATS_TEST_DIRNAME/clc_attack.py" "$SERVER" 7001 bad-trailer
}

as_user=(setpriv --reuid 12345 --regid 12345 --clear-groups)

nothing_refused() {
	shows a stats '.refused.clc == 0 and .refused.roce == 0'
	shows b stats '.refused.clc == 0 and .refused.roce == 0'
}

@test "programs of users use SMC-R through the gate" {
	two_daemons
	chmod 755 "$HOSTS_DIR"
	start_on a "${as_user[@]}" "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	start_on a "${as_user[@]}" "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7001
	until_true 5 tcp_listens a 7002
	on b "${as_user[@]}" "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000
	on b "${as_user[@]}" "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000 --way epoll
	on b "${as_user[@]}" "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7002 --bytes 1000000
	nothing_refused
}

@test "programs of users get their bytes over TCP when smcrd has declined" {
	local way
	hosts_up 1500
	chmod 755 "$HOSTS_DIR"
	ip -n "$HOSTS_ID-b" addr del 10.77.0.2/24 dev eth0
	ip -n "$HOSTS_ID-b" addr add 10.77.0.2/28 dev eth0
	ip -n "$HOSTS_ID-b" link set eth1 down
	smcrd_start a
	smcrd_start b --rnic soft:eth0
	start_on a "${as_user[@]}" "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	for way in block epoll; do
		on b "${as_user[@]}" "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000 --way "$way"
	done
	until_true 5 shows a info '.connections.fallbacks_total > 0'
	nothing_refused
}

@test "the gate does not keep smcrd from connecting again to a user's server that does not speak CLC" {
	local port=7002 word
	two_daemons
	chmod 755 "$HOSTS_DIR"
	clc_user server a
	# the second word begins with E2, as CLC does
	for word in hello '€' '“'; do
		tell server "listen $SERVER $port"
		start_on b "${as_user[@]}" "$RUN" python3 -c '
import socket
print(socket.create_connection(("'"$SERVER"'", '"$port"')).recv(5).decode())' >"$HOSTS_DIR/got"
		client=$!
		tell server accept
		tell server "hello $word"
		tell server accept 'the option was not negotiated'
		tell server "hello $word"
		wait "$client"
		[ "$(cat "$HOSTS_DIR/got")" = "$word" ]
		smcrctl_on b policy forget "$SERVER"
		port=$((port + 1))
	done
	nothing_refused
}

@test "egress_guard = no lets users send to UDP port 4791, and yes ends that at once" {
	hosts_with_ipv6
	echo 'egress_guard = no' >"$HOSTS_DIR/b.conf"
	smcrd_start b
	a_user user b
	every_send user 4791 ok
	tell user 'connect 10.77.0.1 4791'
	[[ "$(smcrctl_on b doctor || true)" == *"warning: any user of this host can send"*"egress_guard is no"* ]]
	echo 'egress_guard = yes' >"$HOSTS_DIR/b.conf"
	smcrctl_on b config reload
	tell user write EDESTADDRREQ
	every_way user 4791 EPERM
	until_true 5 shows b event 'any(.event == "user-refused" and (.text | startswith("user 12345 was refused the use of UDP port 4791")))'
	shows b stats '.refused.roce > 10'
	[[ "$(smcrctl_on b doctor || true)" == *"ok: users cannot send RoCEv2 packets or CLC messages in this host's name"* ]]
	smcrctl_on b config set egress_guard no
	every_send user 4791 ok
	shows b stats '.refused.roce > 10' # they are not forgotten
}
