#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measure how long views of smcrd take with many peers and connections: each view of smcrctl as a table and as JSON,
# all objects on the system bus, and a scrape of the metrics. PEERS hosts (50) with an smcrd each have CONNECTIONS
# connections (1000) in total with one host. Fails if the median of ROUNDS times (20) is more than 200 ms for a
# view, or 100 ms for a scrape. docs/performance.md has the figures. Needs root.
set -euo pipefail

# shellcheck source=scripts/hosts.bash
. "$(dirname "${BASH_SOURCE[0]}")/hosts.bash"
# shellcheck source=scripts/bus.bash
. "$(dirname "${BASH_SOURCE[0]}")/bus.bash"

PEERS=${PEERS:-50}
CONNECTIONS=${CONNECTIONS:-1000}
ROUNDS=${ROUNDS:-20}
HOSTS_PATIENCE=${HOSTS_PATIENCE:-10}
RUN=$HOSTS_BUILD/bin/smcr-run
SMCRCTL=$HOSTS_BUILD/bin/smcrctl
CROWD=$HOSTS_BUILD/tests/programs/crowd
LIMIT_MS=200 # for a view
slow=()

# ---- the hosts

# peer_up NUMBER: add a host with one NIC, an smcrd and its share of the connections.
peer_up() {
	local n=$1 host=p$1 share
	share=$((CONNECTIONS * n / PEERS - CONNECTIONS * (n - 1) / PEERS))
	ip netns add "$HOSTS_ID-$host"
	ip -n "$HOSTS_ID-$host" link set lo up
	ip -n "$HOSTS_ID-$host" link add eth0 type veth peer name "$host" netns "$HOSTS_ID-sw"
	ip -n "$HOSTS_ID-sw" link set "$host" master br0 up
	ip -n "$HOSTS_ID-$host" addr add "10.77.0.$((100 + n))/24" dev eth0
	ip -n "$HOSTS_ID-$host" link set eth0 up
	printf '%s\n' 'short_connection_rate = 0' 'dbus = no' >"$HOSTS_DIR/$host.conf"
	smcrd_start "$host"
	: >"$HOSTS_DIR/$host.out"
	on "$host" "$RUN" --require "$CROWD" connect 10.77.0.1 5001 "$share" \
		<"$HOSTS_DIR/lines" >"$HOSTS_DIR/$host.out" 2>&1 &
	if ! until_true 20 grep -qx open "$HOSTS_DIR/$host.out"; then
		echo "$share connections of host $host are not open:" >&2
		tail -n 5 "$HOSTS_DIR/$host.out" "$HOSTS_DIR/$host.log" "$HOSTS_DIR/a.log" >&2
		return 1
	fi
}

# ---- times

# taken PAUSE COMMAND..: print the median and the longest of ROUNDS times in milliseconds, with PAUSE between runs.
taken() {
	local pause=$1 i start
	shift
	for ((i = 0; i < ROUNDS; i++)); do
		start=$EPOCHREALTIME
		"$@" >/dev/null || return
		awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", (end - start) * 1000 }'
		sleep "$pause"
	done | sort -n | awk '{ t[NR] = $1 } END { if (NR) print t[int((NR + 1) / 2)], t[NR]; exit !NR }'
}

# judge NAME LIMIT TIMES..: print a row of the table, with the two values of each TIMES. A median above LIMIT is
# reported at the end.
judge() {
	local name=$1 limit=$2 cells='' median longest
	shift 2
	while [ $# -gt 0 ]; do
		read -r median longest <<<"$1"
		shift
		cells+=" | $median | $longest"
		if awk -v limit="$limit" -v median="$median" 'BEGIN { exit !(median > limit) }'; then
			slow+=("$name: $median ms, $limit are allowed")
		fi
	done
	printf '| %s%s |\n' "$name" "$cells"
}

# view WORDS..: measure a view of smcrctl, as a table and as JSON
view() {
	local table json
	table=$(taken 0.02 "$SMCRCTL" -s "$HOSTS_DIR/a.sock" "$@")
	json=$(taken 0.02 "$SMCRCTL" -s "$HOSTS_DIR/a.sock" -j "$@")
	judge "\`smcrctl $*\`" "$LIMIT_MS" "$table" "$json"
}

# once NAME LIMIT PAUSE COMMAND..: measure a command that has only one form
once() {
	local span
	span=$(taken "$3" "${@:4}")
	judge "$1" "$2" "$span"
}

drained_and_back() {
	"$SMCRCTL" -s "$HOSTS_DIR/a.sock" drain && "$SMCRCTL" -s "$HOSTS_DIR/a.sock" drain --off
}

# doctor exits with 1 if something is wrong with this host, which does not matter here.
doctor() {
	local status=0
	on a "$SMCRCTL" -s "$HOSTS_DIR/a.sock" "$@" doctor || status=$?
	[ "$status" -le 1 ]
}

# shows: print the objects that smcrctl shows without further words
shows() {
	"$SMCRCTL" help | sed -n 's/^  \([a-z]*\) \[show.*/\1/p'
}

# ---- the measurements

hosts_up 1500
trap hosts_down EXIT
if command -v dbus-daemon >/dev/null; then
	bus_start
fi
printf '%s\n' 'short_connection_rate = 0' "metrics_socket = $HOSTS_DIR/metrics.sock" >"$HOSTS_DIR/a.conf"
smcrd_start a
mkfifo "$HOSTS_DIR/lines"
exec 9<>"$HOSTS_DIR/lines" # nothing is written there, so the connections stay open
start_on a "$RUN" "$CROWD" serve 10.77.0.1 5001 >/dev/null
until_true 10 tcp_listens a 5001
for ((n = 1; n <= PEERS; n++)); do
	peer_up "$n"
done
ctl=("$SMCRCTL" -s "$HOSTS_DIR/a.sock" -j)
group=$("${ctl[@]}" linkgroup | jq '.linkgroup[0].id')
echo "link groups $("${ctl[@]}" linkgroup | jq '.linkgroup | length'), connections $("${ctl[@]}" info |
	jq .info.connections.smcr), milliseconds of $ROUNDS rounds each:"
echo
echo '| | table: median | longest | JSON: median | longest |'
echo '|---|--:|--:|--:|--:|'
for object in $(shows); do
	view "$object"
done
view connection -d
view connection peer 10.77.0.101
view connection port 5001
view connection pid 1 # matches no connection, so smcrd looks at all of them
view link group "$group"
view rmb group "$group"
view event group "$group"
view config -d
judge "\`smcrctl doctor\`" "$LIMIT_MS" "$(taken 0.02 doctor)" "$(taken 0.02 doctor -j)"
echo
echo '| | median | longest |'
echo '|---|--:|--:|'
once "\`smcrctl drain\`, \`drain --off\`" $((2 * LIMIT_MS)) 0.02 drained_and_back
# top takes two samples, with 0.1 s between them
once "\`smcrctl -w 0.1 top --count 1\`" $((2 * LIMIT_MS + 100)) 0.02 "${ctl[@]}" -w 0.1 top --count 1
if [ -n "${DBUS_SYSTEM_BUS_ADDRESS:-}" ]; then
	until_true 10 bus_has_smcrd >/dev/null 2>&1
	# smcrd answers only a few of these calls a second, from all callers together
	once "GetManagedObjects on the bus, with busctl" "$LIMIT_MS" 1.1 busctl --system -j call org.smcrd /org/smcrd \
		org.freedesktop.DBus.ObjectManager GetManagedObjects
fi
# smcrd collects metrics at most four times a second. With this pause each scrape collects them anew.
once "scrape by HTTP, with curl" 100 0.3 \
	curl -sSf --unix-socket "$HOSTS_DIR/metrics.sock" -o /dev/null http://smcrd/metrics
echo
"${ctl[@]}" info | jq -c '.info.event_loop | map_values(objects)'
if [ "${#slow[@]}" -gt 0 ]; then
	printf '%s\n' "too slow:" "${slow[@]}" >&2
	exit 1
fi
