# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Handshakes step by step, for tests of the TCP option: on each of two hosts a program with one socket (client on a,
# server on b), and option_holder in place of the daemon.

OPTION=fe06e2d4c3d9

setup() {
	hosts_up
	arp_own_only a
	arp_own_only b
	holder_start a
	holder_start b
	talk_start client a "$HOSTS_BUILD/tests/programs/tcp_claim"
	talk_start server b "$HOSTS_BUILD/tests/programs/tcp_claim"
}

teardown() {
	net_down
}

holder_start() {
	talk_start "daemon_$1" "$1" "$HOSTS_BUILD/tests/tools/option_holder"
	[ "$(talk_hear "daemon_$1")" = ready ] || {
		cat "$HOSTS_DIR/daemon_$1.err" >&2
		return 1
	}
}

# serve PORT [claim]: the server listens.
serve() {
	tell server 'socket tcp'
	[ -z "${2:-}" ] || tell server claim
	tell server "bind 10.77.0.2 $1"
	tell server listen
}

# meet PORT [claim]: the client connects, the server accepts.
meet() {
	tell client 'socket tcp'
	[ -z "${2:-}" ] || tell client claim
	tell client "connect 10.77.0.2 $1"
	tell server accept
}

part() {
	tell client close
	tell server parent
}

# hold_synacks: SYN-ACKs do not reach the client from here on; release_synacks undoes that.
hold_synacks() {
	on a nft -f - <<-'END'
		table ip filter { chain in {
			type filter hook input priority 0; tcp flags & (syn | ack) == syn | ack drop; }; }
	END
}

release_synacks() {
	on a nft delete table ip filter
}

# both ANSWER: both ends must give this answer to "negotiated".
both() {
	tell client negotiated "$1"
	tell server negotiated "$1"
}

# options NAME syn|synack: print the TCP options of each such packet in hexadecimal.
options() {
	local ack=0
	[ "$2" = syn ] || ack=1
	capture_fields "$1" "tcp.flags.syn == 1 && tcp.flags.ack == $ack" tcp.options
}

# at_least N NAME syn|synack
at_least() {
	[ "$(options "$2" "$3" | wc -l)" -ge "$1" ]
}

# carry NAME syn|synack: are there such packets, and does each have the option, once?
carry() {
	local line
	at_least 1 "$1" "$2"
	while read -r line; do
		[ "$(grep -o "$OPTION" <<<"$line" | wc -l)" = 1 ] || return 1
	done < <(options "$1" "$2")
}

# bare NAME syn|synack: are there such packets, and does none have an option of kind 254?
bare() {
	at_least 1 "$1" "$2"
	[ -z "$(capture_fields "$1" 'tcp.option_kind == 254' frame.number)" ]
}

# bare_answer NAME: has no packet of the server an option of kind 254?
bare_answer() {
	[ -z "$(capture_fields "$1" 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
}
