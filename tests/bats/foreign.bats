#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# Somebody else's BPF programs on the host, and whatever else takes the option out of a handshake: what each side takes
# the handshake for is what the peer has seen.
bats_require_minimum_version 1.5.0

load proves
load net
load handshakes

# Callbacks, as bits: of sock_ops programs.
CONNECT=8 ACTIVE=10 PASSIVE=20 STATE=400 LISTEN=800 LEN=4000 WRITE=8000
REMOVED='ok a000014' # option-removed
NO_SMC='ok 3010000'  # peer-no-smc

# foreign_start HOST: attach somebody else's BPF program, which does nothing yet.
foreign_start() {
	talk_start foreign "$1" "$HOSTS_BUILD/tests/tools/foreign_bpf"
	[ "$(talk_hear foreign)" = ready ]
}

# foreign_in_front HOST: the same, so that it is called before those of the daemon.
foreign_in_front() {
	talk_kill "daemon_$1"
	foreign_start "$1"
	holder_start "$1"
}

# speaks: bytes pass both ways, whoever speaks first.
speaks() {
	tell server 'send welcome'
	tell client receive 'ok welcome'
	tell client 'send hello'
	tell server receive 'ok hello'
}

# removed_at_server: the server's SYN-ACK has lost the option: both sides are plain TCP, and say why.
removed_at_server() {
	both 'ok no'
	tell server reason "$REMOVED"
	tell client reason "$NO_SMC"
	speaks
	part
}

# removed_at_client: the same of the client's SYN.
removed_at_client() {
	both 'ok no'
	tell client reason "$REMOVED"
	tell server reason "$NO_SMC"
	speaks
	part
}

@test "a BPF program answers 0 for the room or for the option of a SYN-ACK: plain TCP at both ends" {
	local start at
	for start in foreign_start foreign_in_front; do
		$start b
		serve 7001 claim
		meet 7001 claim
		both 'ok yes'
		part
		for at in $LEN $WRITE FFFFFFFF; do
			tell foreign "zero $at"
			meet 7001 claim
			removed_at_server
		done
		tell foreign 'zero 0'
		meet 7001 claim
		both 'ok yes'
		part
		tell server close
		talk_kill foreign
	done
}

@test "a BPF program answers 0 for the room or for the option of a SYN: plain TCP at both ends" {
	local start at
	serve 7001 claim
	for start in foreign_start foreign_in_front; do
		$start a
		for at in $LEN $WRITE FFFFFFFF; do
			tell foreign "zero $at"
			meet 7001 claim
			removed_at_client
		done
		tell foreign 'zero 0'
		meet 7001 claim
		both 'ok yes'
		part
		talk_kill foreign
	done
}

@test "a BPF program answers 0 over IPv6: plain TCP at both ends" {
	ip -n "$HOSTS_ID-a" addr add fd77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd77::2/64 dev eth0 nodad
	tell server 'socket tcp 6'
	tell server claim
	tell server 'bind :: 7001'
	tell server listen
	foreign_start b
	for at in 0 $LEN $WRITE; do
		tell foreign "zero $at"
		tell client 'socket tcp 6'
		tell client claim
		tell client 'connect fd77::2 7001'
		tell server accept
		if [ "$at" = 0 ]; then
			both 'ok yes'
			part
		else
			# before this version the kernel does not show SYN-ACKs over IPv6
			[ "$at" = $LEN ] || [ "$(printf '%s\n' 6.6 "$(uname -r)" | sort -V | head -1)" = 6.6 ] || return 0
			removed_at_server
		fi
	done
}

# slow_handshake: the client connects while its host drops SYN-ACKs; returns when one has left. wire NAME records.
slow_handshake() {
	hold_synacks
	capture_start b eth0 "$1" tcp port 7001
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7001'
	until_true 10 at_least 1 "$1" synack
}

# ends_handshake NAME: the next SYN-ACK comes through.
ends_handshake() {
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell server accept
	capture_stop "$1"
}

@test "only the first SYN-ACK loses the option: the later ones have none either, and both ends are plain TCP" {
	serve 7001 claim
	foreign_start b
	for at in $LEN $WRITE; do
		tell foreign "zero $at"
		slow_handshake "wire$at"
		tell foreign 'zero 0'
		ends_handshake "wire$at"
		bare_answer "wire$at"
		removed_at_server
	done
}

@test "only later SYN-ACKs lose the option: the server's side waits for the first bytes to tell" {
	serve 7001 claim
	foreign_start b
	for at in $LEN $WRITE; do
		tell foreign 'zero 0'
		slow_handshake "wire$at"
		tell foreign "zero $at"
		ends_handshake "wire$at"
		tell client negotiated 'ok no'
		tell server negotiated 'ok doubtful'
		tell client 'send hello'
		tell server receive 'ok hello'
		part
	done
}

@test "a SYN that lost the option is repeated with it: both ends agree" {
	serve 7001 claim
	foreign_start a
	on b nft -f - <<-'END'
		table ip filter { chain in {
			type filter hook input priority 0; tcp dport 7001 drop; }; }
	END
	capture_start a eth0 wire tcp port 7001
	tell foreign "zero $WRITE"
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7001'
	until_true 10 at_least 1 wire syn
	tell foreign 'zero 0'
	on b nft delete table ip filter
	[ "$(talk_hear client)" = ok ]
	capture_stop wire
	tell server accept
	both 'ok yes'
}

@test "a BPF program overwrites the callback flags: what is left is told, and both ends agree" {
	local start host flags at claim
	for start in foreign_start foreign_in_front; do
		for host in a b; do
			$start $host
			# no callback, and one callback for each packet
			for flags in 0 64; do
				for at in $CONNECT $LISTEN $STATE $ACTIVE $PASSIVE; do
					tell foreign "flags $at $flags"
					serve 7001 claim
					for claim in claim ''; do
						meet 7001 $claim
						speaks
						[ -z "$claim" ] || agree
						part
					done
					tell server close
				done
			done
			talk_kill foreign
		done
	done
}

# agree: do both ends take the handshake for the same?
agree() {
	local here there
	talk_send client negotiated
	here=$(talk_hear client)
	talk_send server negotiated
	there=$(talk_hear server)
	[ "$here" = "$there" ] && [[ $here =~ ^ok\ (yes|no)$ ]]
}

@test "callback flags are taken from a claimed listener, or from a connecting client: the reason is told" {
	foreign_start b
	tell foreign "flags $LISTEN 0"
	serve 7001 claim
	meet 7001 claim
	removed_at_server
	talk_kill foreign
	tell server close
	serve 7001 claim
	foreign_start a
	tell foreign "flags $CONNECT 0"
	meet 7001 claim
	removed_at_client
}

@test "a BPF program that wants header options of all sockets: an unclaimed listener does not answer for a claimed one that is gone" {
	# The end of the claimed listener is not seen, as the callback for that is switched off.
	foreign_start b
	tell foreign "flags $LISTEN 64"
	serve 7001 claim
	meet 7001 claim
	both 'ok yes'
	part
	tell server close
	serve 7001
	capture_start a eth0 wire tcp port 7001
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7001'
	tell client negotiated 'ok no'
	tell server accept
	speaks
	until_true 5 at_least 1 wire synack
	capture_stop wire
	bare_answer wire
}

@test "a BPF program adds TCP options of its own: beside ours if there is room" {
	serve 7001 claim
	for host in a b; do
		foreign_start $host
		tell foreign "flags 8F8 64" # it wants them in every packet
		tell foreign "option C000 8"
		capture_start b eth0 "wire_$host" tcp port 7001
		tell server close
		serve 7001 claim
		meet 7001 claim
		both 'ok yes'
		until_true 5 at_least 1 "wire_$host" synack
		capture_stop "wire_$host"
		carry "wire_$host" syn
		carry "wire_$host" synack
		[ -n "$(capture_fields "wire_$host" 'tcp.option_kind == 253' frame.number)" ]
		part
		talk_kill foreign
	done
}

@test "a BPF program's own TCP options leave no room for ours: plain TCP, and the reason is told" {
	serve 7001 claim
	foreign_in_front b
	tell server close
	tell foreign "flags 8F8 64"
	tell foreign "option C000 20"
	serve 7001 claim
	meet 7001 claim
	removed_at_server
	talk_kill foreign
	foreign_in_front a
	tell foreign "flags 8F8 64"
	tell foreign "option C000 20"
	tell server close
	serve 7001 claim
	meet 7001 claim
	removed_at_client
	# It takes more room than it has asked for.
	tell foreign "option 4000 4"
	tell foreign "option 8000 12"
	meet 7001 claim
	agree
	speaks
}

@test "a BPF program wants header options of a Fast Open connection: its SYN-ACK has no option" {
	on b sysctl -qw net.ipv4.tcp_fastopen=0x602 # data without a cookie, at all listeners
	on a nft -f - <<-'END'
		table ip filter { chain out {
			type filter hook output priority 0; tcp flags rst drop; }; }
	END
	foreign_start b
	tell foreign "flags $PASSIVE 64"
	serve 7001 claim
	capture_start b eth0 wire tcp port 7001
	on a python3 "$BATS_TEST_DIRNAME/raw_syn.py" 10.77.0.1 40001 10.77.0.2 7001 "$OPTION" '' hello
	tell server accept
	tell server negotiated 'ok no'
	tell server receive 'ok hello'
	until_true 10 at_least 2 wire synack
	capture_stop wire
	bare_answer wire
}

# strip HOST: its firewall takes the option out of what it sends.
strip() {
	on "$1" nft -f - <<-'END'
		table ip strip { chain out {
			type filter hook output priority 0; tcp flags & syn == syn reset tcp option 254; }; }
	END
}

@test "the host's own firewall takes the option out: plain TCP at both ends, and the reason is told" {
	serve 7001 claim
	strip b
	meet 7001 claim
	removed_at_server
	on b nft delete table ip strip
	strip a
	meet 7001 claim
	removed_at_client
}
