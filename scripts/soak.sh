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
#   SHARED (1)        so many of each kind more, which pass through memory that the programs have mapped (SMCRD_SHARED)
#   QUIET (20)        periods without a failover that are measured first, for comparison
#   OUT (build/soak)  results: a line for each failover, and the output of programs and daemons
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/failover.bash
. scripts/failover.bash
# shellcheck source=scripts/soak.bash
. scripts/soak.bash

FAILOVERS=${FAILOVERS:-100}
BULK=${BULK:-3}
PINGPONG=${PINGPONG:-5}
RATE=${RATE:-5000}
SHARED=${SHARED:-1}
QUIET=${QUIET:-20}
OUT=${OUT:-build/soak}
# shellcheck disable=SC2206
causes=(${CAUSES:-${FAILOVER_CAUSES[@]}})
run=$HOSTS_BUILD/bin/smcr-run
SOAK_NAME=soak
SOAK_IDLE=connections=0
SOAK_SOCKETS=

# ---- measuring

# measure LABEL: print "PINGPONG BULK LATE", the largest values of all programs since the last measurement.
measure() {
	local name values=
	for name in "${MEASURED[@]}"; do
		values+=$(steady_mark "$name" "$1")$'\n' ||
			fail "$1: a program does not answer: $(tail -n 3 "$HOSTS_DIR/$name.out")"
	done
	printf '%s' "$values" | awk '
		{ for (i = 1; i <= 3; i++) if ($i > max[i]) max[i] = $i }
		END { print max[1], max[2], max[3] }'
}

check_errors() {
	local errors
	errors=$(steady_errors "${MEASURED[@]}" visitor) && fail "$1: $errors"
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

soak_begin
hosts_up
for host in a b; do
	echo 'rmb_idle_seconds = 1' >"$HOSTS_DIR/$host.conf"
	smcrd_start "$host" || exit 1
done
steady_start server a "$run" -- serve 10.77.0.1 7100 --gap 50 || fail "the server does not start"
warm_up --bulk "$BULK" --pingpong "$PINGPONG" --rate "$RATE"

steady_start client b "$run" --require -- connect 10.77.0.1 7100 --bulk "$BULK" --pingpong "$PINGPONG" \
	--rate "$RATE" --gap 50 || fail "cannot connect: $(cat "$HOSTS_DIR/client.out")"
# Connections that come and go meanwhile. While a path is cut, they may become plain TCP.
steady_start visitor b "$run" -- visit 10.77.0.1 7100 || fail "cannot connect"
MEASURED=(client server)
if [ "$SHARED" -gt 0 ]; then
	SMCRD_SHARED=always steady_start shared-server a "$run" -- serve 10.77.0.1 7101 --gap 50 || fail "the server does not start"
	SMCRD_SHARED=always steady_start shared b "$run" --require -- connect 10.77.0.1 7101 --bulk "$SHARED" --pingpong "$SHARED" \
		--rate "$RATE" --gap 50 || fail "cannot connect: $(cat "$HOSTS_DIR/shared.out")"
	MEASURED+=(shared shared-server)
	for host in a b; do
		until_true "$FAILOVER_PATIENCE" uses_memory "$host" 7101 || fail "no traffic through memory on host $host"
	done
fi
until_true "$FAILOVER_PATIENCE" symmetric || fail "no symmetric link group"
quiet_periods
failovers

for name in visitor client $([ "$SHARED" -eq 0 ] || echo shared shared-server); do
	steady_stop "$name" || fail "$name: $(grep -v '^mark\|^gap' "$HOSTS_DIR/$name.out")"
	echo "$name: $(grep ^total "$HOSTS_DIR/$name.out")"
done
nothing_is_left 16
steady_stop server || fail "server: $(grep -v '^mark\|^gap' "$HOSTS_DIR/server.out")"
daemons_end b a
keep_evidence
report | tee "$OUT/report"
printf '\nsoak: %d failovers in %d s: no byte lost, no connection reset, nothing left over\n' \
	"$FAILOVERS" "$SECONDS"
