#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Unusual TCP handshakes: a peer's CLC never is data of the program, so both ends agree on what the handshake was. Repeated
# SYNs and SYN-ACKs, SYN cookies and Fast Open clients are in option.bats.
bats_require_minimum_version 1.5.0

load proves
load net
load handshakes

# drop_at HOST: TCP packets that have the SYN flag and no ACK do not come in there, or with another expression for these
drop_at() {
	on "$1" nft -f - <<-END
		table ip filter { chain in {
			type filter hook input priority 0; tcp dport 7001-7002 ${2:-tcp flags & (syn | ack) == syn} counter drop; }; }
	END
}

dropped_at() {
	[ "$(on "$1" nft list table ip filter | sed -n 's/.*packets \([0-9]*\).*/\1/p')" -ge 1 ]
}

pass_at() {
	on "$1" nft delete table ip filter
}

# open_at NAME ADDRESS PORT PEER PORT: a claimed client, which will connect from that address
open_at() {
	tell "$1" 'socket tcp'
	tell "$1" claim-to-connect
	tell "$1" "bind $2 $3"
	talk_send "$1" "connect $4 $5"
}

# plain_both: both ends are plain TCP, and bytes pass both ways.
plain_both() {
	both 'ok no'
	tell client 'send hello'
	tell server receive 'ok hello'
	tell server 'send world'
	tell client receive 'ok world'
}

@test "simultaneous open, where one end's SYN is lost: no option on the SYN-ACK, and both ends are plain TCP" {
	capture_start a eth0 wire tcp port 7001
	drop_at a
	open_at server 10.77.0.2 7002 10.77.0.1 7001
	until_true 5 dropped_at a
	open_at client 10.77.0.1 7001 10.77.0.2 7002
	[ "$(talk_hear client)" = ok ]
	[ "$(talk_hear server)" = ok ]
	plain_both
	capture_stop wire
	carry wire syn
	at_least 1 wire synack
	[ -z "$(capture_fields wire 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
}

# asks HOST: has its kernel sent a SYN for which there is no answer?
asks() {
	[ -n "$(on "$1" ss -Htn state syn-sent)" ]
}

@test "simultaneous open, where the SYNs cross: both ends are plain TCP" {
	local host
	# The SYNs wait for the MAC of the other host, until both are there.
	ip -n "$HOSTS_ID-sw" link set br0 down
	for host in a b; do
		on "$host" ip neigh flush all
		on "$host" sysctl -qw net.ipv4.neigh.eth0.mcast_solicit=1000
	done
	capture_start a eth0 wire tcp port 7001
	open_at server 10.77.0.2 7002 10.77.0.1 7001
	open_at client 10.77.0.1 7001 10.77.0.2 7002
	until_true 5 asks a
	until_true 5 asks b
	ip -n "$HOSTS_ID-sw" link set br0 up
	[ "$(talk_hear client)" = ok ]
	[ "$(talk_hear server)" = ok ]
	plain_both
	capture_stop wire
	[ "$(capture_fields wire 'tcp.flags.syn == 1 && tcp.flags.ack == 1' ip.src | sort -u | wc -l)" = 2 ]
	[ -z "$(capture_fields wire 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
}

@test "a socket that is connected to itself is plain TCP" {
	capture_start a lo wire tcp port 7001
	open_at client 10.77.0.1 7001 10.77.0.1 7001
	[ "$(talk_hear client)" = ok ]
	tell client negotiated 'ok no'
	tell client 'send hello'
	tell client receive 'ok hello'
	capture_stop wire
	carry wire syn
	[ -z "$(capture_fields wire 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
}

@test "a SYN with the option and data (Fast Open): the SYN-ACK has no option, and the data is the program's" {
	# accepts data without a cookie, at all listeners
	on b sysctl -qw net.ipv4.tcp_fastopen=0x602
	# the kernel of the other host knows nothing of this connection
	on a nft -f - <<-'END'
		table ip filter { chain out {
			type filter hook output priority 0; tcp flags rst drop; }; }
	END
	serve 7001 claim
	capture_start b eth0 wire tcp port 7001
	on a python3 "$BATS_TEST_DIRNAME/raw_syn.py" 10.77.0.1 40001 10.77.0.2 7001 "$OPTION" '' hello
	tell server accept
	tell server negotiated 'ok no'
	tell server reason 'ok 3060000'
	tell server receive 'ok hello'
	# SYN-ACKs are repeated until it is acknowledged
	until_true 10 at_least 2 wire synack
	capture_stop wire
	[ "$(capture_fields wire 'tcp.flags.ack == 1' tcp.ack_raw | sort -u)" = 1006 ] # of the data too
	bare_answer wire
}

@test "a listener that defers accept() until data comes: both ends agree, also when the SYN-ACK is repeated" {
	tell server 'socket tcp'
	tell server claim
	tell server 'bind 10.77.0.2 7001'
	tell server defer-accept
	tell server listen
	for held in no yes; do
		tell client 'socket tcp'
		tell client claim
		[ $held = no ] || hold_synacks
		capture_start b eth0 "wire_$held" tcp port 7001
		talk_send client 'connect 10.77.0.2 7001'
		if [ $held = yes ]; then
			until_true 10 at_least 2 wire_yes synack
			release_synacks
		fi
		[ "$(talk_hear client)" = ok ]
		tell client 'send hello'
		tell server accept
		both 'ok yes'
		tell server receive 'ok hello'
		capture_stop "wire_$held"
		carry "wire_$held" synack
		part
	done
}

@test "a listener that has promised SMC-R is closed before the handshake ends, and an unclaimed one follows" {
	# the client has no SYN-ACK yet: it asks again
	serve 7001 claim
	hold_synacks
	capture_start b eth0 wire tcp port 7001
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7001'
	until_true 10 at_least 1 wire synack
	carry wire synack
	tell server close
	serve 7001
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell client negotiated 'ok no'
	tell server accept
	tell server negotiated 'ok unknown'
	tell client 'send hello'
	tell server receive 'ok hello'
	capture_stop wire
	part
	tell server close

	# the client has it, and the server's kernel has not heard of that: the connection is reset
	serve 7001 claim
	drop_at b 'tcp flags & (syn | ack) == ack'
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7001'
	tell client negotiated 'ok yes'
	until_true 5 dropped_at b
	tell server close
	serve 7001
	pass_at b
	tell client 'send proposal'
	tell client receive ECONNRESET
	tell client close
	meet 7001 claim
	tell client negotiated 'ok no'
	tell client 'send hello'
	tell server receive 'ok hello'
}
