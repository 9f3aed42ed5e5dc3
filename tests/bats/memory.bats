#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory of connections: the budget suffices for as many as promised, and their memory is given back when they end.
bats_require_minimum_version 1.5.0
load common

setup() {
	case $HOSTS_BUILD in
	*/san) skip "sanitizers keep memory of their own" ;;
	esac
}

# memory_of HOST: KiB of memory that the daemon does not share.
memory_of() {
	local name=SMCRD_PID_$1
	awk '/^Private_Dirty:/ { print $2 }' "/proc/${!name}/smaps_rollup"
}

# crowd_says WORD: is this the last line of the clients?
crowd_says() {
	[ "$(tail -n 1 "$HOSTS_DIR/crowd.out")" = "$1" ]
}

memory_is_back() {
	local host
	for host in a b; do
		shows "$host" info '.engine | .connections == 0 and .memory_used_bytes <= 4194304' &&
			[ "$(memory_of "$host")" -lt $((${before[$host]} + (${open[$host]} - ${before[$host]}) / 2)) ] ||
			return 1
	done
}

@test "an eighth of the default budget has room for an eighth of 10,000 connections, and is free when they end" {
	local host
	declare -A before open
	hosts_up 1500
	for host in a b; do
		printf '%s\n' 'memory = 128M' 'rmb_idle_seconds = 1' 'short_connection_rate = 0' \
			>"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
		before[$host]=$(memory_of "$host")
	done
	mkfifo "$HOSTS_DIR/lines"
	exec {lines}<>"$HOSTS_DIR/lines"
	start_on a "$RUN" "$PROGRAMS/crowd" serve "$SERVER" 5001 >/dev/null {lines}>&-
	until_true 10 tcp_listens a 5001
	on b "$RUN" --require "$PROGRAMS/crowd" connect "$SERVER" 5001 1250 \
		<"$HOSTS_DIR/lines" >"$HOSTS_DIR/crowd.out" 2>&1 3>&- {lines}>&- &
	until_true 20 crowd_says open
	for host in a b; do
		until_true 10 shows "$host" connection '[.[] | select(.mode == "smcr")] | length == 1250'
		shows "$host" connection '[.[].rmbe_size] | unique == [16384, 32768, 65536, 131072, 262144, 524288]'
		shows "$host" linkgroup 'length == 1'
		open[$host]=$(memory_of "$host")
		# two buffers with one page of each in use, and the structures of the connection
		[ $(((${open[$host]} - ${before[$host]}) / 1250)) -lt 40 ]
	done
	echo again >&"$lines"
	until_true 20 crowd_says answered
	exec {lines}>&-
	until_true 20 crowd_says closed
	until_true 40 memory_is_back
}

# holds HOST FILTER: is the filter true for the connections of the program that holds some open?
holds() {
	shows "$1" connection "[.[] | select(.state == \"active\")] | $2"
}

# hold_some COUNT FILTER_A FILTER_B: open COUNT connections that carry little, apply the filters to the connections of
# a and b, and end them.
hold_some() {
	local status=0
	: >"$HOSTS_DIR/hold.out"
	exec {lines}<>"$HOSTS_DIR/lines"
	on b "$RUN" --require "$HOSTS_BUILD/bench/tcpbench" hold "$SERVER" 5002 "$1" \
		<"$HOSTS_DIR/lines" >"$HOSTS_DIR/hold.out" 3>&- {lines}>&- &
	until_true 10 grep -q held "$HOSTS_DIR/hold.out" && until_true 10 holds a "length == $1" &&
		until_true 10 holds b "length == $1" && holds a "$2" && holds b "$3" || status=1
	exec {lines}>&-
	wait $!
	return $status
}

only_one_rmb() {
	shows a info '.engine.memory_used_bytes <= 4194304' && shows b info '.engine.memory_used_bytes <= 4194304'
}

@test "connections that need little get little; where one has moved much the next get much" {
	local host little='all(.sndbuf_size == 131072)' full='all(.sndbuf_size == 524288)'
	hosts_up 1500
	for host in a b; do
		printf '%s\n' 'rmb_idle_seconds = 1' 'short_connection_rate = 0' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	mkfifo "$HOSTS_DIR/lines"
	start_on a "$RUN" "$HOSTS_BUILD/bench/tcpbench" serve "$SERVER" 5002 >/dev/null
	until_true 10 tcp_listens a 5002
	# nothing is known yet: each gets as much as bulk data need
	hold_some 20 "$full and all(.rmbe_size == 524288)" "$full and all(.rmbe_size == 524288)"
	until_true 20 only_one_rmb
	# elements that are left from before may be used too
	hold_some 10 "$little and any(.rmbe_size == 131072)" "$little and any(.rmbe_size == 131072)"
	on b "$RUN" --require "$HOSTS_BUILD/bench/tcpbench" bulk "$SERVER" 5002 0.5
	until_true 20 only_one_rmb
	hold_some 9 "$little and all(.rmbe_size >= 262144)" "$full"
}
