#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Many failovers, one after the other, under connections that must notice no more than a pause. There are two hosts
# with two NICs and an smcrd each, and ordinary programs under smcr-run. Each failover cuts one link in one of the
# ways of scripts/failover.bash, waits until the link has been given up, mends it, and waits until the link group is
# symmetric with two links again. In the end no byte may be lost, doubled or misplaced, no connection reset, and
# nothing left over. Needs root. Cleans up, also when killed.
#
#   FAILOVERS (100)   how many, round robin over the causes, on either NIC in turn
#   CAUSES            only these causes
#   BULK (3), PINGPONG (5), RATE (5000)   connections, and kB/s each way on each of BULK
#   QUIET (20)        periods without a failover that are measured first, for comparison
#   OUT (build/soak)  results: a line for each failover, and the output of programs and daemons
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/failover.bash
. scripts/failover.bash

FAILOVERS=${FAILOVERS:-100}
BULK=${BULK:-3}
PINGPONG=${PINGPONG:-5}
RATE=${RATE:-5000}
QUIET=${QUIET:-20}
OUT=${OUT:-build/soak}
# shellcheck disable=SC2206
causes=(${CAUSES:-${FAILOVER_CAUSES[@]}})
run=$HOSTS_BUILD/bin/smcr-run

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
	echo "soak: FAILED: $*" >&2
	keep_evidence
	tail -n 5 "$HOSTS_DIR/a.log" "$HOSTS_DIR/b.log" >&2
	ctl a link >&2
	ctl b link >&2
	echo "soak: results so far, logs and state are in $OUT" >&2
	exit 1
}

finish() {
	local status=$?
	trap - EXIT
	hosts_down
	exit "$status"
}
trap finish EXIT
trap 'echo "soak: interrupted" >&2; exit 130' INT TERM HUP

[ "$(id -u)" = 0 ] || { echo "soak: needs root" >&2; exit 1; }
rm -rf "$OUT"
mkdir -p "$OUT"

# ---- nothing may be left over

# holdings HOST: print what an idle daemon holds, as "name=value" words.
holdings() {
	local pid=SMCRD_PID_$1
	# an idle daemon keeps buffers of a first contact, or later ones, which are four times as large
	json "$1" info '.info.engine | "memory=\(.memory_used_bytes / 4194304 | ceil)"'
	json "$1" info '.info.engine | to_entries[] | select(.key | IN("linkgroups", "links", "rmbs",
		"elements_used", "connections", "queue_pairs", "memory_regions", "timers")) | "\(.key)=\(.value)"'
	json "$1" info '.info.connections | "pending=\(.pending)", "smcr=\(.smcr)", "relayed=\(.relayed)"'
	echo "fds=$(find "/proc/${!pid}/fd" -mindepth 1 | wc -l)"
	echo "tcp=$(on "$1" ss -Htn state connected exclude time-wait | wc -l)"
	echo "neighbours=$(ip -n "$HOSTS_ID-$1" neigh show nud permanent | wc -l)"
}

holds_as_before() {
	holdings "$1" | cmp -s "$OUT/holdings.$1"
}

# unchanged HOST: do its holdings stay the same for two seconds? Unused buffers are given back after one second.
unchanged() {
	holdings "$1" >"$OUT/holdings.$1"
	sleep 2
	holds_as_before "$1" && grep -qx connections=0 "$OUT/holdings.$1"
}

rss_kb() {
	local pid=SMCRD_PID_$1
	awk '/^VmRSS/ { print $2 }' "/proc/${!pid}/status"
}

# Open the same connections and end them in order before anything is measured.
warm_up() {
	steady_start warm b "$run" --require -- connect 10.77.0.1 7100 --bulk "$BULK" \
		--pingpong "$PINGPONG" --rate "$RATE" || fail "cannot connect: $(cat "$HOSTS_DIR/warm.out")"
	until_true "$FAILOVER_PATIENCE" symmetric || fail "no symmetric link group at the start"
	steady_stop warm || fail "before any failover: $(cat "$HOSTS_DIR/warm.out")"
	for host in a b; do
		until_true "$FAILOVER_PATIENCE" unchanged "$host" || fail "host $host does not become idle"
		eval "rss_$host=$(rss_kb "$host")"
	done
}

# ---- measuring

# measure LABEL: print "PINGPONG BULK LATE", the larger values of both programs since the last measurement.
measure() {
	local here there
	if ! there=$(steady_mark server "$1") || ! here=$(steady_mark client "$1"); then
		fail "$1: a program does not answer: $(tail -n 3 "$HOSTS_DIR"/{client,server}.out)"
	fi
	printf '%s\n%s\n' "$there" "$here" | awk '
		{ for (i = 1; i <= 3; i++) if ($i > max[i]) max[i] = $i }
		END { print max[1], max[2], max[3] }'
}

check_errors() {
	local errors
	errors=$(steady_errors client server visitor) && fail "$1: $errors"
}

quiet_periods() {
	local i
	measure "quiet-start" >/dev/null
	for ((i = 0; i < QUIET; i++)); do
		sleep 1 # a period lasts a second
		echo "quiet - $(measure "quiet-$i") 1.0" >>"$OUT/failovers"
	done
}

failovers() {
	local i cause nic start end values
	for ((i = 0; i < FAILOVERS; i++)); do
		cause=${causes[i % ${#causes[@]}]}
		nic=$((i / ${#causes[@]} % 2))
		start=$EPOCHREALTIME
		fail_over "$cause" "$nic" || fail "failover $i"
		end=$EPOCHREALTIME
		values=$(measure "$i")
		echo "$cause $nic $values $(awk "BEGIN { print $end - $start }") $start" >>"$OUT/failovers"
		check_errors "failover $i, $cause on NIC $nic"
		[ $(((i + 1) % 50)) -ne 0 ] || echo "$((i + 1)) failovers, $SECONDS s"
	done
}

# ---- the report

# class CAUSE: the groups of causes in docs/performance.md
classes='
function class(cause) {
	sub(/-.*/, "", cause)
	if (cause == "quiet") return "1 no failover"
	if (cause == "carrier" || cause == "down") return "2 carrier loss"
	if (cause == "remove") return "3 NIC removed"
	if (cause == "silent" || cause == "oneway") return "4 silent loss"
	if (cause == "stop") return "6 daemon stopped 1 s"
	return "5 operator command"
}'

# Print for each class the median, 99th percentile and maximum of the longest gap of any connection.
report() {
	printf '\n%-22s %5s %9s %9s %9s\n' "longest gap, ms" count median 99% worst
	awk "$classes"'{ print class($1) "\t" ($3 > $4 ? $3 : $4) }' "$OUT/failovers" |
		sort -t"$(printf '\t')" -k1,1 -k2,2n |
		awk -F'\t' '
		function out() {
			printf "%-22s %5d %9.1f %9.1f %9.1f\n", substr(name, 3), n,
				v[int((n + 1) / 2)] / 1000, v[int((n * 99 + 99) / 100)] / 1000, v[n] / 1000
		}
		$1 != name { if (n) out(); name = $1; n = 0 }
		{ v[++n] = $2 }
		END { if (n) out() }'
	printf '\nprograms woken late by the machine, ms: median, 99%%, worst %s\n' "$(
		awk '{ print $5 / 1000 }' "$OUT/failovers" | sort -n | awk '{ v[NR] = $1 }
			END { print v[int((NR + 1) / 2)], v[int((NR * 99 + 99) / 100)], v[NR] }')"
}

# ---- the run

hosts_up
for host in a b; do
	echo 'rmb_idle_seconds = 1' >"$HOSTS_DIR/$host.conf"
	smcrd_start "$host" || exit 1
done
steady_start server a "$run" -- serve 10.77.0.1 7100 --gap 50 || fail "the server does not start"
warm_up

steady_start client b "$run" --require -- connect 10.77.0.1 7100 --bulk "$BULK" --pingpong "$PINGPONG" \
	--rate "$RATE" --gap 50 || fail "cannot connect: $(cat "$HOSTS_DIR/client.out")"
# Connections that come and go meanwhile. While a path is cut, they may become plain TCP.
steady_start visitor b "$run" -- visit 10.77.0.1 7100 || fail "cannot connect"
until_true "$FAILOVER_PATIENCE" symmetric || fail "no symmetric link group"
quiet_periods
failovers

for name in visitor client; do
	steady_stop "$name" || fail "$name: $(grep -v '^mark\|^gap' "$HOSTS_DIR/$name.out")"
	echo "$name: $(grep ^total "$HOSTS_DIR/$name.out")"
done
for host in a b; do
	until_true "$FAILOVER_PATIENCE" holds_as_before "$host" ||
		fail "host $host: left over: $(holdings "$host" | diff "$OUT/holdings.$host" - | tr '\n' ' ')"
	before=rss_$host
	after=$(rss_kb "$host")
	echo "smcrd on host $host: resident $((${!before} / 1024)) MiB before, $((after / 1024)) MiB after"
	[ "$after" -le $((${!before} + 16384)) ] || fail "host $host: memory has grown"
done
steady_stop server || fail "server: $(grep -v '^mark\|^gap' "$HOSTS_DIR/server.out")"
for host in b a; do
	pid=SMCRD_PID_$host
	kill "${!pid}"
	wait "${!pid}" || fail "smcrd on host $host ends with status $?"
done
keep_evidence
report | tee "$OUT/report"
printf '\nsoak: %d failovers in %d s: no byte lost, no connection reset, nothing left over\n' \
	"$FAILOVERS" "$SECONDS"
