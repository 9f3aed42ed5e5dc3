#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# SMC-R and fallback against plain TCP over the same veth pair, in one run: rounds of all measurements,
# one after the other, medians, ratios. docs/performance.md tells how to read it. Needs root.
#
#   ROUNDS (5), BULK_SECONDS (2), RTT_COUNT (20000), ASK_COUNT (2000), MTUS ("1500 9000")
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash

ROUNDS=${ROUNDS:-5}
BULK_SECONDS=${BULK_SECONDS:-2}
RTT_COUNT=${RTT_COUNT:-20000}
ASK_COUNT=${ASK_COUNT:-2000}
MTUS=${MTUS:-1500 9000}
bench=$HOSTS_BUILD/bench/tcpbench
run=$HOSTS_BUILD/bin/smcr-run
server=10.77.0.1

trap hosts_down EXIT
trap 'exit 130' INT TERM HUP

[ "$(id -u)" = 0 ] || { echo "bench: needs root" >&2; exit 1; }

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# listen PORT COMMAND..: a server on host a
listen() {
	local port=$1
	shift
	start_on a "$@" "$server" "$port" >/dev/null
	until_true 10 tcp_listens a "$port"
}

# client NAME COMMAND..: a measurement from host b, one line "NAME VALUE.." of the results
client() {
	local name=$1
	shift
	on b "$@" | sed "s/^/$name /" >>"$HOSTS_DIR/results"
}

# The ways are: TCP on both sides; SMC-R; smcr-run at the client only, and at the server only, both of
# which fall back since the other side does not offer SMC-R.
measure() {
	local mtu=$1 round
	hosts_up "$mtu"
	# What a connection a request costs is to be seen, not avoided.
	echo 'short_connection_rate = 0' | tee "$HOSTS_DIR/a.conf" >"$HOSTS_DIR/b.conf"
	smcrd_start a
	smcrd_start b
	listen 5001 "$bench" serve
	listen 5002 "$run" "$bench" serve
	listen 5003 "$bench" answer
	listen 5004 "$run" "$bench" answer
	for ((round = 0; round < ROUNDS; round++)); do
		client tcp_bulk "$bench" bulk "$server" 5001 "$BULK_SECONDS"
		client smcr_bulk "$run" --require "$bench" bulk "$server" 5002 "$BULK_SECONDS"
		client fallback_bulk "$run" "$bench" bulk "$server" 5001 "$BULK_SECONDS"
		client tcp_rtt "$bench" rtt "$server" 5001 "$RTT_COUNT"
		client smcr_rtt "$run" --require "$bench" rtt "$server" 5002 "$RTT_COUNT"
		client fallback_rtt "$run" "$bench" rtt "$server" 5001 "$RTT_COUNT"
		client tcp_ask "$bench" ask "$server" 5003 "$ASK_COUNT"
		client smcr_ask "$run" --require "$bench" ask "$server" 5004 "$ASK_COUNT"
		client fallback_ask "$run" "$bench" ask "$server" 5003 "$ASK_COUNT"
		client fallback_server_ask "$bench" ask "$server" 5004 "$ASK_COUNT"
	done
}

# value WHAT: median of the rounds
value() {
	awk -v what="$1" '$1 == what { print $2 }' "$HOSTS_DIR/results" | median
}

# line MTU TEXT WAY MEASUREMENT: TCP's value, the way's, and the ratio
line() {
	awk -v m="$1" -v text="$2" -v tcp="$(value "tcp_$4")" -v way="$(value "$3_$4")" 'BEGIN {
		printf "MTU %-5d %-46s TCP %8.1f  this %8.1f  ratio %.2f\n", m, text, tcp, way, way / tcp
	}'
}

report() {
	line "$1" "SMC-R, bulk MB/s" smcr bulk
	line "$1" "SMC-R, 64-byte round trip us" smcr rtt
	line "$1" "SMC-R, a connection a request us" smcr ask
	line "$1" "fallback, bulk MB/s" fallback bulk
	line "$1" "fallback, 64-byte round trip us" fallback rtt
	line "$1" "fallback at the client, a connection us" fallback ask
	line "$1" "fallback at the server, a connection us" fallback_server ask
}

for mtu in $MTUS; do
	measure "$mtu"
	report "$mtu"
	hosts_down
done
