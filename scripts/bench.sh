#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# SMC-R against plain TCP over the same veth pair, in one run: rounds of all four measurements, one
# after the other, medians, ratios. docs/performance.md tells how to read it. Needs root.
#
#   ROUNDS (5), BULK_SECONDS (2), RTT_COUNT (20000), MTUS ("1500 9000")
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash

ROUNDS=${ROUNDS:-5}
BULK_SECONDS=${BULK_SECONDS:-2}
RTT_COUNT=${RTT_COUNT:-20000}
MTUS=${MTUS:-1500 9000}
bench=$HOSTS_BUILD/bench/tcpbench
run="$HOSTS_BUILD/bin/smcr-run --require"

trap hosts_down EXIT
trap 'exit 130' INT TERM HUP

[ "$(id -u)" = 0 ] || { echo "bench: needs root" >&2; exit 1; }

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# measure MTU: one line "WHAT VALUE" a measurement into $HOSTS_DIR/results
measure() {
	local mtu=$1 round
	hosts_up "$mtu"
	smcrd_start a
	smcrd_start b
	start_on a "$bench" serve 10.77.0.1 5001
	# shellcheck disable=SC2086
	start_on a $run "$bench" serve 10.77.0.1 5002
	until_true 10 tcp_listens a 5001
	until_true 10 tcp_listens a 5002
	for ((round = 0; round < ROUNDS; round++)); do
		# shellcheck disable=SC2086
		{
			on b "$bench" bulk 10.77.0.1 5001 "$BULK_SECONDS" | sed 's/^/tcp_bulk /'
			on b $run "$bench" bulk 10.77.0.1 5002 "$BULK_SECONDS" | sed 's/^/smcr_bulk /'
			on b "$bench" rtt 10.77.0.1 5001 "$RTT_COUNT" | sed 's/^/tcp_rtt /'
			on b $run "$bench" rtt 10.77.0.1 5002 "$RTT_COUNT" | sed 's/^/smcr_rtt /'
		} >>"$HOSTS_DIR/results"
	done
}

# value WHAT: median of the rounds
value() {
	awk -v what="$1" '$1 == what { print $2 }' "$HOSTS_DIR/results" | median
}

report() {
	local mtu=$1 tcp_bulk smcr_bulk tcp_rtt smcr_rtt
	tcp_bulk=$(value tcp_bulk)
	smcr_bulk=$(value smcr_bulk)
	tcp_rtt=$(value tcp_rtt)
	smcr_rtt=$(value smcr_rtt)
	awk -v m="$mtu" -v a="$tcp_bulk" -v b="$smcr_bulk" -v c="$tcp_rtt" -v d="$smcr_rtt" 'BEGIN {
		printf "MTU %-5d bulk MB/s: TCP %8.1f  SMC-R %8.1f  ratio %.2f\n", m, a, b, b / a
		printf "MTU %-5d 64-byte round trip us: TCP %6.1f  SMC-R %6.1f  ratio %.2f\n", m, c, d, d / c
	}'
}

for mtu in $MTUS; do
	measure "$mtu"
	report "$mtu"
	hosts_down
done
