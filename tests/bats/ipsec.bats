#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Connections under IPsec stay TCP (RFC 7609 5.5), because RDMA would bypass the IPsec policy. The policies here
# are optional ("level use"), so that TCP works without keys.
bats_require_minimum_version 1.5.0
load common

setup() {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7001
	until_true 5 tcp_listens a 7002
	capture_start sw br0 tcp tcp
}

# policy HOST WORDS..: add a policy that protects packets with ESP, if there are keys.
policy() {
	ip -n "$HOSTS_ID-$1" xfrm policy add "${@:2}" tmpl proto esp mode transport level use
}

echo_to() { # PORT [WRAPPER OPTIONS..]
	on b "$RUN" "${@:2}" "$PROGRAMS/echo_client" "$SERVER" "$1" --bytes 100000
}

smcr_connections() {
	show b info .connections.established_total
}

# syns PORT FILTER: connections with such a SYN to that port so far; a SYN may be repeated
syns() {
	capture_fields tcp "tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.dstport == $1 && $2" tcp.srcport |
		sort -u | wc -l
}

# unoffered PORT: a connection to that port whose SYN has no option
unoffered() {
	local port=$1 offered all
	offered=$(syns "$port" "tcp.options.experimental.exid")
	all=$(syns "$port" frame)
	echo_to "$port" && until_true 5 eval '[ "$(syns "$port" frame)" -gt "$all" ]' &&
		[ "$(syns "$port" "tcp.options.experimental.exid")" = "$offered" ]
}

@test "a policy between two addresses: no option in the SYN, plain TCP, until the policy is gone" {
	policy b src "$CLIENT/32" dst "$SERVER/32" dir out
	until_true 5 unoffered 7002 # smcrd hears of it a moment later
	run ! echo_to 7001 --require
	echo_to 7001
	[ "$(smcr_connections)" = 0 ]
	until_true 5 eval '[ "$(syns 7001 "tcp.options.experimental.exid")" = 0 ] && [ "$(syns 7001 "frame")" -ge 1 ]'
	ip -n "$HOSTS_ID-b" xfrm policy flush
	until_true 5 echo_to 7001 --require
	[ "$(smcr_connections)" = 1 ]
	until_true 5 eval '[ "$(syns 7001 "tcp.options.experimental.exid")" = 1 ]'
	proves SEC-4 TCPO-8
}

@test "a policy at the server only: its answer carries no option, plain TCP" {
	policy a src "$CLIENT/32" dst "$SERVER/32" dir in
	echo_to 7001
	[ "$(smcr_connections)" = 0 ]
	[ "$(show a info .connections.established_total)" = 0 ]
	proves SEC-4 TCPO-8
}

@test "a policy for one port at the client: declined with the reason; the other port uses SMC-R" {
	policy b src "$CLIENT/32" dst "$SERVER/32" proto tcp dport 7001 dir out
	echo_to 7001
	[ "$(smcr_connections)" = 0 ]
	shows b connection '[.[] | select(.mode == "tcp" and .fallback_reason == "ipsec")] | length == 1'
	until_true 5 shows a connection '[.[] | select(.mode == "tcp" and .peer_fallback_reason == "ipsec")] | length == 1'
	run ! echo_to 7001 --require
	echo_to 7002 --require
	[ "$(smcr_connections)" = 1 ]
	# the first two connections sent nothing over RoCE, and no Proposal
	[ -z "$(capture_fields tcp "tcp.dstport == 7001 && tcp.payload[0:5] == e2:d4:c3:d9:01" tcp.len)" ]
	proves SEC-4 GEN-4
}

@test "a policy for one port at the server: declined with the reason, whichever way the client connects" {
	policy a src "$CLIENT/32" dst "$SERVER/32" proto tcp dport 7001 dir in
	for way in epoll select threads; do
		on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 300000 --way "$way" --half-close
	done
	[ "$(smcr_connections)" = 0 ]
	shows b connection '[.[] | select(.peer_fallback_reason == "ipsec")] | length >= 3'
	shows a connection '[.[] | select(.fallback_reason == "ipsec")] | length >= 3'
	echo_to 7002 --require
	proves SEC-4 GEN-4
}
