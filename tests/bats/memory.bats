#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory of connections: as many as the budget has room for, and back when they end.
bats_require_minimum_version 1.5.0
load common

# memory_of HOST: KiB of memory that is the daemon's alone.
memory_of() {
	local name=SMCRD_PID_$1
	awk '/^Private_Dirty:/ { print $2 }' "/proc/${!name}/smaps_rollup"
}

# crowd_says WORD: the last line of the clients.
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
		shows "$host" connection '[.[] | select(.mode == "smcr")] | length == 1250'
		shows "$host" connection '[.[].rmbe_size] | unique == [16384, 32768, 65536, 131072, 262144, 524288]'
		shows "$host" linkgroup 'length == 1'
		open[$host]=$(memory_of "$host")
		# two buffers, a page of each in use, and what there is to know of the connection
		[ $(((${open[$host]} - ${before[$host]}) / 1250)) -lt 40 ]
	done
	echo again >&"$lines"
	until_true 20 crowd_says answered
	exec {lines}>&-
	until_true 20 crowd_says closed
	until_true 40 memory_is_back
}
