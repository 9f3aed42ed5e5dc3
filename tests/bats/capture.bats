#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrctl capture: the file contains the messages that pass between two hosts, and tshark decodes them.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

declare -gA TAP_PID

# tap_start HOST NAME ARGUMENTS..: capture to $HOSTS_DIR/NAME.pcap; returns when the capture has begun.
tap_start() {
	local host=$1 name=$2
	shift 2
	start_on "$host" "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/$host.sock" capture "$@" \
		-w "$HOSTS_DIR/$name.pcap" 2>"$HOSTS_DIR/$name.err"
	TAP_PID[$name]=$!
	until_true 10 grep -q capturing "$HOSTS_DIR/$name.err"
}

# tap_stop NAME: the file is complete when this returns.
tap_stop() {
	kill -INT "${TAP_PID[$1]}"
	wait "${TAP_PID[$1]}"
	grep -q ', 0 lost$' "$HOSTS_DIR/$1.err"
}

# echoes [ARGUMENTS..]: run echo_client on b with a server on a, and wait until both engines have freed all connections.
echoes() {
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 "$@"
	until_true 5 shows a info '.engine.connections == 0'
	until_true 5 shows b info '.engine.connections == 0'
}

# one_by_one: switch segmentation offload off, so that tcpdump records packets one by one.
one_by_one() {
	for host in a b; do
		for nic in 0 1; do
			on "$host" ethtool -K "eth$nic" gso off gro off tx-udp-segmentation off
		done
	done
}

# sends FILE: print each different 44-byte message in recorded RDMA SENDs once, with its two addresses.
sends() {
	capture_fields "$1" 'infiniband.bth.opcode == 4' ip.src ip.dst udp.payload |
		awk '{ print $1, $2, substr($3, 25, 88) }' | sort -u
}

# same_sends: both captures have the messages that were on the wire so far, and no others. What differs goes to a file.
same_sends() {
	sends own >"$HOSTS_DIR/own.sends"
	[ "$(wc -l <"$HOSTS_DIR/own.sends")" -gt 10 ] &&
		diff <(cat <(sends nic0) <(sends nic1) | sort -u) "$HOSTS_DIR/own.sends" >"$HOSTS_DIR/differ" &&
		diff "$HOSTS_DIR/own.sends" <(sends peer) >"$HOSTS_DIR/differ"
}

has_moved() {
	! json a link -e --argjson number "${1#*/}" 'any(.link[]; .number == $number)' >/dev/null
}

@test "a first contact, CDC messages and a deleted link are in a capture as on the wire, and tshark decodes them" {
	two_daemons_with_patient_links
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	one_by_one
	for nic in 0 1; do
		capture_start a "eth$nic" "nic$nic" -s 2000 -B 16384 udp port 4791 # none may be dropped
	done
	tap_start a own
	tap_start b peer
	echoes --bytes 100000 --repeat 3
	until_true "$FAILOVER_PATIENCE" symmetric
	link=$(link_on a 1)
	ctl a link delete "$link"
	until_true 5 has_moved "$link"
	# they are the very same as on the wire, on both hosts; when captures end more may be under way
	until_true 10 same_sends || { cat "$HOSTS_DIR/differ"; false; }
	tap_stop own
	tap_stop peer
	for nic in 0 1; do
		capture_stop "nic$nic"
	done

	# CONFIRM LINK, ADD LINK, DELETE LINK and CDC, in both directions
	for file in own peer; do
		for type in 0x01 0x02 0x04 0xfe; do
			for direction in 1 2; do
				[ -n "$(capture_fields "$file" "smc.llc_msg == $type &&
					frame.packet_flags_direction == $direction" frame.number)" ]
			done
		done
		[ -z "$(capture_fields "$file" '_ws.malformed || _ws.expert.severity == error' frame.number)" ]
		[ -z "$(capture_fields "$file" 'infiniband.bth.opcode != 4' frame.number)" ] # no data
		[ "$(capture_fields "$file" 'frame.interface_name' frame.interface_name | sort -u | xargs)" = \
			"soft:eth0 soft:eth1" ]
	done
	capture_fields own "ip.addr == ${SERVER%.*}.11 && smc.llc_msg" frame.comment | sort -u >"$HOSTS_DIR/comments"
	[ "$(cat "$HOSTS_DIR/comments")" = "link group ${link%/*}, link ${link#*/}, peer $CLIENT" ]

	[ "$(grep -c '^0 packets dropped' "$HOSTS_DIR"/nic?.tcpdump | awk -F: '{ sum += $2 } END { print sum }')" = 2 ]
	# the log tells who captured, when the capture began, and that it has ended
	grep -q 'capture.run .*by uid 0, pid .*: begun' "$HOSTS_DIR/a.log"
	until_true 5 grep -q 'capture.run .*by uid 0, pid .*: ended' "$HOSTS_DIR/a.log"
}

# written FILE DIRECTION: how many bytes RDMA WRITEs carried.
written() {
	capture_fields "$1" "infiniband.reth && frame.packet_flags_direction == $2" infiniband.reth.dmalen |
		awk '{ sum += $1 } END { print sum + 0 }'
}

# stream FILE DIRECTION: print the data of all RDMA WRITEs in hexadecimal, without BTH, RETH, padding and ICRC.
stream() {
	capture_fields "$1" "infiniband.bth.opcode > 5 && frame.packet_flags_direction == $2" \
		infiniband.bth.opcode infiniband.bth.padcnt udp.payload |
		awk '{
			begin = $1 == 6 || $1 == 10 ? 57 : 25
			printf "%s", substr($3, begin, length($3) - begin - 7 - 2 * $2)
		}'
}

@test "with --data every byte of programs is in a capture, in both directions" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	echoes --bytes 1 # a first contact before the capture, which tries the path with WRITEs of its own
	until_true "$FAILOVER_PATIENCE" symmetric
	tap_start a own --data
	tap_start b peer --data group "$(json b linkgroup '.linkgroup[0].id')"
	echoes --bytes 300000 --repeat 2
	tap_stop own
	tap_stop peer
	for direction in 1 2; do
		[ "$(written own "$direction")" = 600000 ]
		[ "$(written peer "$direction")" = 600000 ]
	done
	for file in own peer; do
		[ -z "$(capture_fields "$file" '_ws.expert.severity == error && infiniband.bth.opcode == 4' frame.number)" ]
	done
	# What one host sends is what the other one receives, in whatever pieces.
	for direction in 1 2; do
		stream own "$direction" >"$HOSTS_DIR/own.stream"
		[ "$(wc -c <"$HOSTS_DIR/own.stream")" = 1200000 ] # hex digits
		stream peer "$((3 - direction))" | cmp - "$HOSTS_DIR/own.stream"
	done
}

@test "filters leave links out" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	tap_start a other peer 192.0.2.1
	tap_start a this peer "$CLIENT"
	echoes --bytes 1000
	tap_stop other
	tap_stop this
	[ -z "$(capture_fields other frame frame.number)" ]
	[ -n "$(capture_fields this smc.llc_msg frame.number)" ]
	grep -q '^smcrctl: 0 messages captured, 0 lost$' "$HOSTS_DIR/other.err"
}

@test "administrators see messages without keys and data; others see nothing; two captures at a time" {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	echo "admin_group = games" >"$HOSTS_DIR/a.conf"
	smcrd_start a
	smcrd_start b
	games=$(getent group games | awk -F: '{ print $3 }')
	as() {
		local groups=$1
		shift
		setpriv --reuid 65534 --regid 65534 --groups "$groups" \
			"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" "$@"
	}
	run -1 as 65534 -j capture
	[[ "$output" == *'"code":"not-permitted"'* ]]
	run -1 as "65534,$games" -j capture --data
	[[ "$output" == *'"code":"not-permitted"'* && "$output" == *root* ]]
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	start_on a setpriv --reuid 65534 --regid 65534 --groups "65534,$games" \
		"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" capture >"$HOSTS_DIR/member.pcap" 2>"$HOSTS_DIR/member.err"
	TAP_PID[member]=$!
	until_true 10 grep -q capturing "$HOSTS_DIR/member.err"
	tap_start a root
	run -1 --separate-stderr smcrctl_on a -j capture -w "$HOSTS_DIR/third.pcap"
	[ "$(jq -r .error.code <<<"$output")" = busy ]
	[ ! -e "$HOSTS_DIR/third.pcap" ]
	# shellcheck disable=SC2154
	for tap in member root; do # the refusal names both captures, with user and start
		grep -Eq "smcrctl \(pid ${TAP_PID[$tap]}, uid $([ "$tap" = root ] && echo 0 || echo 65534)\) since 20" <<<"$stderr"
	done
	echoes --bytes 1000 --connections 3 --way threads
	until_true "$FAILOVER_PATIENCE" symmetric
	tap_stop root
	tap_stop member
	# In the member's capture keys are zero; everything else is as in root's.
	add_links() {
		capture_fields "$1" 'smc.llc_msg == 0x02' "${@:2}"
	}
	[ "$(add_links member smc.add.link.initial.psn | sort -u)" = 0x000000 ]
	[ "$(add_links root smc.add.link.initial.psn | sort -u | wc -l)" -ge 2 ]
	seen=(frame.packet_flags_direction smc.add.link.{flags,sender.mac,sender.gid,sender.qp.number,link.number,qp.mtu.value})
	add_links root "${seen[@]}" >"$HOSTS_DIR/root.adds"
	diff <(add_links member "${seen[@]}") "$HOSTS_DIR/root.adds"
	grep -q . "$HOSTS_DIR/root.adds"
	capture_fields root smc.llc_msg smc.llc_msg >"$HOSTS_DIR/root.types" # root's capture has ended first
	diff <(capture_fields member smc.llc_msg smc.llc_msg | head -n "$(wc -l <"$HOSTS_DIR/root.types")") "$HOSTS_DIR/root.types"
	[ -z "$(capture_fields member '_ws.malformed || _ws.expert.severity == error' frame.number)" ]
	diff <(sends member | grep ' fe2c') <(sends root | grep ' fe2c') # CDC messages are whole
	[ -n "$(capture_fields member 'frame.comment contains "keys are zero"' frame.number)" ]
}

captures_nothing() {
	smcrctl_on a -j capture --seconds 0.2 -w "$HOSTS_DIR/timed.pcap" >"$HOSTS_DIR/timed.json" 2>/dev/null &&
		[ "$(jq -c .capture "$HOSTS_DIR/timed.json")" = \
			"{\"file\":\"$HOSTS_DIR/timed.pcap\",\"messages\":0,\"lost\":0,\"end\":\"time\"}" ]
}

@test "a capture ends after a number, a time, or with smcrd, and its file is complete" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	tap_start a some --count 7
	echoes --bytes 1000
	wait "${TAP_PID[some]}"
	[ "$(capture_fields some frame frame.number | wc -l)" = 7 ]
	until_true "$FAILOVER_PATIENCE" symmetric
	until_true 10 captures_nothing # the last message about the second link may be under way
	[ "$(stat -c %a "$HOSTS_DIR/timed.pcap")" = 600 ]
	diff <(jq -r '.capture | keys[]' "$HOSTS_DIR/timed.json" | sort) \
		<(sed -n 's/^\.It Va \(file\|messages\|lost\|end\)$/\1/p' "$HOSTS_ROOT/man/smcrctl-capture.8" | sort)
	run -1 smcrctl_on a capture --seconds 0.2 -w "$HOSTS_DIR/none/x"
	[[ "$output" == *"No such file"* ]]
	# through a pipe whose reader ends first
	smcrctl_on a capture -w - 2>"$HOSTS_DIR/pipe.err" | tshark -r - -c 1 >"$HOSTS_DIR/one" 2>/dev/null &
	piped=$!
	until_true 10 grep -q capturing "$HOSTS_DIR/pipe.err"
	echoes --bytes 1000
	until_true 10 test -s "$HOSTS_DIR/one"
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	wait "$piped" || true
	tap_start a last
	echoes --bytes 1000
	# shellcheck disable=SC2154
	kill "$SMCRD_PID_a"
	status=0
	wait "${TAP_PID[last]}" || status=$?
	[ "$status" = 3 ]
	[ -n "$(capture_fields last smc.llc_msg frame.number)" ]
}

@test "a capture of a link group that does not exist is refused, and a capture ends with its group" {
	two_daemons
	run -4 --separate-stderr smcrctl_on a -j capture group 99 -w "$HOSTS_DIR/none.pcap"
	[ "$(jq -r .error.code <<<"$output")" = not-found ]
	# shellcheck disable=SC2154
	[ "$stderr" = "smcrctl: there is no link group 99; 'smcrctl linkgroup' lists them" ]
	[ ! -e "$HOSTS_DIR/none.pcap" ]
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	echoes --bytes 1000
	until_true "$FAILOVER_PATIENCE" symmetric
	group=$(json a linkgroup '.linkgroup[0].id')
	tap_start a group group "$group"
	ctl a linkgroup delete "$group"
	wait "${TAP_PID[group]}"
	grep -qx "smcrctl: link group $group has ended, and the capture with it" "$HOSTS_DIR/group.err"
	until_true 5 grep -q "capture.run .*: link group $group has ended$" "$HOSTS_DIR/a.log"
	# The file is complete, and contains the group's last message.
	[ -n "$(capture_fields group 'smc.delete.link.all == 1' frame.number)" ]
	"$BATS_TEST_DIRNAME/pcapng_statistics.py" "$HOSTS_DIR/group.pcap" | grep -Eqx 'soft:eth[01] [1-9][0-9]* 0'
}

@test "options of a capture are refused with other commands, and so are wrong options" {
	for words in "link --data" "link --count 3" "info --seconds 1" "capture --count 0" "capture --count x" \
		"capture --seconds 0" "capture port 3" "capture peer" "capture nonsense" "link -w x" "monitor --write x"; do
		# shellcheck disable=SC2086
		run -2 "$HOSTS_BUILD/bin/smcrctl" -s "$BATS_TEST_TMPDIR/none" $words
	done
	run -3 "$HOSTS_BUILD/bin/smcrctl" -s "$BATS_TEST_TMPDIR/none" capture -w "$BATS_TEST_TMPDIR/x"
	[ ! -e "$BATS_TEST_TMPDIR/x" ]
}
