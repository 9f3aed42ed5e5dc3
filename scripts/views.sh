#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# How long looking at smcrd takes with many peers and connections: each view of smcrctl, and a scrape of the
# metrics. PEERS hosts (50) with an smcrd each have CONNECTIONS connections (1000) with one host altogether.
# Needs root; the figures of docs/performance.md.
set -euo pipefail

# shellcheck source=scripts/hosts.bash
. "$(dirname "${BASH_SOURCE[0]}")/hosts.bash"

PEERS=${PEERS:-50}
CONNECTIONS=${CONNECTIONS:-1000}
ROUNDS=${ROUNDS:-20}
HOSTS_PATIENCE=${HOSTS_PATIENCE:-10}
RUN=$HOSTS_BUILD/bin/smcr-run
CROWD=$HOSTS_BUILD/tests/programs/crowd

# peer_up NUMBER: a host with one NIC, an smcrd and its share of the connections.
peer_up() {
	local n=$1 host=p$1
	ip netns add "$HOSTS_ID-$host"
	ip -n "$HOSTS_ID-$host" link set lo up
	ip -n "$HOSTS_ID-$host" link add eth0 type veth peer name "$host" netns "$HOSTS_ID-sw"
	ip -n "$HOSTS_ID-sw" link set "$host" master br0 up
	ip -n "$HOSTS_ID-$host" addr add "10.77.0.$((100 + n))/24" dev eth0
	ip -n "$HOSTS_ID-$host" link set eth0 up
	echo 'short_connection_rate = 0' >"$HOSTS_DIR/$host.conf"
	smcrd_start "$host"
	on "$host" "$RUN" --require "$CROWD" connect 10.77.0.1 5001 $((CONNECTIONS / PEERS)) \
		<"$HOSTS_DIR/lines" >"$HOSTS_DIR/$host.out" 2>&1 &
	until_true 20 grep -qx open "$HOSTS_DIR/$host.out"
}

# milliseconds COMMAND..: median and longest of ROUNDS times.
milliseconds() {
	local i start
	for ((i = 0; i < ROUNDS; i++)); do
		start=$EPOCHREALTIME
		"$@" >/dev/null
		awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", (end - start) * 1000 }'
		sleep 0.3 # so that a scrape collects anew
	done | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)], t[NR] }'
}

look() {
	printf '| %s | %s |\n' "$1" "$(milliseconds "${@:2}" | sed 's/ / | /')"
}

hosts_up 1500
trap hosts_down EXIT
printf '%s\n' 'short_connection_rate = 0' "metrics_socket = $HOSTS_DIR/metrics.sock" >"$HOSTS_DIR/a.conf"
smcrd_start a
mkfifo "$HOSTS_DIR/lines"
exec 9<>"$HOSTS_DIR/lines" # without a word: they stay open
start_on a "$RUN" "$CROWD" serve 10.77.0.1 5001 >/dev/null
until_true 10 tcp_listens a 5001
for ((n = 1; n <= PEERS; n++)); do
	peer_up "$n"
done
ctl=("$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" -j)
echo "link groups $("${ctl[@]}" linkgroup | jq '.linkgroup | length'), connections $("${ctl[@]}" info |
	jq .info.connections.smcr), milliseconds of $ROUNDS rounds each:"
echo
echo '| | median | longest |'
echo '|---|--:|--:|'
for view in info peer device linkgroup link connection rmb stats metrics event policy; do
	look "\`smcrctl $view\`" "${ctl[@]}" "$view"
done
look "scrape by HTTP" curl -sS --unix-socket "$HOSTS_DIR/metrics.sock" -o /dev/null http://smcrd/metrics
echo
"${ctl[@]}" info | jq -c '.info.event_loop | map_values(objects)'
