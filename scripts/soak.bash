# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What soak.sh and endure.sh have in common: how a run ends, and what the daemons of the hosts a and b hold, so that
# nothing may be left over when connections have ended. Sourced after hosts.bash and failover.bash. Uses:
#
#   SOAK_NAME  begins messages
#   OUT        directory for results; $OUT/holdings.HOST is what a host held before
#   run        smcr-run
#   SOAK_IDLE  what an idle daemon holds
#   SOAK_SOCKETS  which TCP sockets count, as a pattern for lines of ss -p

# ---- the end

keep_evidence() {
	local host
	for host in a b; do
		ctl "$host" -j linkgroup
		ctl "$host" -j link
		ctl "$host" -j connection
		ctl "$host" -j info
	done >"$OUT/state.json" 2>/dev/null
	cp "$HOSTS_DIR"/*.log "$HOSTS_DIR"/*.out "$OUT/" 2>/dev/null
}

fail() {
	echo "$SOAK_NAME: FAILED: $*" >&2
	keep_evidence
	tail -n 5 "$HOSTS_DIR/a.log" "$HOSTS_DIR/b.log" >&2
	ctl a link >&2
	ctl b link >&2
	echo "$SOAK_NAME: results so far, logs and state are in $OUT" >&2
	exit 1
}

finish() {
	local status=$?
	trap - EXIT
	hosts_down
	exit "$status"
}

# soak_begin: let the run clean up whatever ends it, and make an empty directory for results.
soak_begin() {
	trap finish EXIT
	trap 'trap "" INT TERM HUP; echo "$SOAK_NAME: interrupted" >&2; exit 130' INT TERM HUP
	[ "$(id -u)" = 0 ] || { echo "$SOAK_NAME: needs root" >&2; exit 1; }
	rm -rf "$OUT"
	mkdir -p "$OUT"
}

# daemons_end HOST..: end the daemons in order.
daemons_end() {
	local host pid
	for host in "$@"; do
		pid=SMCRD_PID_$host
		kill "${!pid}"
		wait "${!pid}" || fail "smcrd on host $host ends with status $?"
	done
}

# ---- nothing may be left over

# holdings HOST: print what an idle daemon holds, as "name=value" words.
holdings() {
	local pid=SMCRD_PID_$1 fds
	# an idle daemon keeps buffers of a first contact, or later ones, which are four times as large
	json "$1" info '.info.engine | "memory=\(.memory_used_bytes / 4194304 | ceil)"'
	json "$1" info '.info.engine | to_entries[] | select(.key | IN("linkgroups", "links", "rmbs",
		"elements_used", "connections", "queue_pairs", "memory_regions", "timers")) | "\(.key)=\(.value)"'
	json "$1" info '.info.connections | "pending=\(.pending)", "smcr=\(.smcr)", "relayed=\(.relayed)"'
	# Without the socket for taskstats (generic netlink, 16), which smcrd opens when a program has ended before its name
	# was read, and keeps.
	fds=$(find "/proc/${!pid}/fd" -mindepth 1 | wc -l)
	echo "fds=$((fds - $(awk '$2 == 16' "/proc/${!pid}/net/netlink" | wc -l)))"
	echo "tcp=$(on "$1" ss -Htnp state connected exclude time-wait | grep -c "$SOAK_SOCKETS")"
	echo "neighbours=$(ip -n "$HOSTS_ID-$1" neigh show nud permanent | wc -l)"
}

holds_as_before() {
	holdings "$1" | cmp -s "$OUT/holdings.$1"
}

# unchanged HOST: do its holdings stay the same for two seconds? Unused buffers are given back after one second.
unchanged() {
	holdings "$1" >"$OUT/holdings.$1"
	sleep 2
	holds_as_before "$1" && grep -qx "$SOAK_IDLE" "$OUT/holdings.$1"
}

rss_kb() {
	local pid=SMCRD_PID_$1
	awk '/^VmRSS/ { print $2 }' "/proc/${!pid}/status"
}

# warm_up OPTIONS..: open connections of tests/programs/steady.c and end them in order before anything is measured.
warm_up() {
	local host
	steady_start warm b "$run" --require -- connect 10.77.0.1 7100 "$@" ||
		fail "cannot connect: $(cat "$HOSTS_DIR/warm.out")"
	until_true "$FAILOVER_PATIENCE" symmetric || fail "no symmetric link group at the start"
	steady_stop warm || fail "before anything is disturbed: $(cat "$HOSTS_DIR/warm.out")"
	for host in a b; do
		until_true "$FAILOVER_PATIENCE" unchanged "$host" || fail "host $host does not become idle"
		eval "rss_$host=$(rss_kb "$host")"
	done
}

# nothing_is_left MIB: the daemons must hold what they held after warm_up, and at most so much more memory.
nothing_is_left() {
	local host before after
	for host in a b; do
		until_true "$FAILOVER_PATIENCE" holds_as_before "$host" ||
			fail "host $host: left over: $(holdings "$host" | diff "$OUT/holdings.$host" - | tr '\n' ' ')"
		before=rss_$host
		after=$(rss_kb "$host")
		echo "smcrd on host $host: resident $((${!before} / 1024)) MiB before, $((after / 1024)) MiB after"
		[ "$after" -le $((${!before} + $1 * 1024)) ] || fail "host $host: memory has grown"
	done
}
