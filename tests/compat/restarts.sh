#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Restart smcrd while clients connect, send requests and verify answers without a pause. smcrd is restarted on host a
# and host b in turn, killed or stopped in order, at once or after a while. No program may ever read a CLC message, an
# end of file that the other program did not send, or wrong bytes, or wait for ever. A reset is allowed only around a
# restart, and only for a connection that was no TCP socket any more, or was in connect(), or of which the server had
# received no byte (a client connects again if the promise of SMC-R was broken). Prints what happened; the last line is
# TAP. Needs root. Cleans up, also when killed.
#
#   RESTARTS (100), CLIENTS (50), SIZE (100000), PAUSE (20)   see tests/programs/requests.c
#   CALM (200)   connections over SMC-R that must succeed between two restarts
#   OUT (build/restarts)   the programs' events, the daemons' logs, and the times of restarts
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash

RESTARTS=${RESTARTS:-100}
CLIENTS=${CLIENTS:-50}
SIZE=${SIZE:-100000}
PAUSE=${PAUSE:-20}
CALM=${CALM:-200}
OUT=${OUT:-build/restarts}
run=$HOSTS_BUILD/bin/smcr-run
requests=$HOSTS_BUILD/tests/programs/requests
server=10.77.0.1
# Programs may still notice the daemon's death for so long after it answers again: the other host's daemon and
# programs first have to run, on a machine that may be busy.
MOMENT=${MOMENT:-1}
# A client gives up after 40 s, a server after 80 s.
PATIENCE=90

fail() {
	echo "restarts: $*" >&2
	keep
	echo "not ok 1 - $RESTARTS restarts under $CLIENTS clients: $*"
	exit 1
}

keep() {
	cp "$HOSTS_DIR"/*.log "$HOSTS_DIR"/*.out "$OUT/" 2>/dev/null
}

trap hosts_down EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time
[ "$(id -u)" = 0 ] || { echo "restarts: needs root" >&2; exit 1; }
rm -rf "$OUT"
mkdir -p "$OUT"

monotonic() {
	local up
	read -r up _ </proc/uptime
	printf '%s' "$up"
}

# counted NAME: print this counter of the clients' connections so far
counted() {
	grep '^now ' "$HOSTS_DIR/client.out" | tail -n 1 |
		awk -v name="$1" '{ for (i = 2; i < NF; i += 2) if ($i == name) print $(i + 1) }'
}

pairs_reached() {
	local n
	n=$(counted pair)
	[ "${n:-0}" -ge "$1" ]
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

# Wait until CALM more connections have succeeded over SMC-R.
calm_down() {
	local before
	before=$(counted pair)
	until_true 30 pairs_reached $((${before:-0} + CALM)) ||
		fail "no $CALM connections over SMC-R in 30 s $1"
	ended "$client_pid" && fail "the clients ended"
	ended "$server_pid" && fail "the server ended"
}

# restart HOST SIGNAL PAUSE: end smcrd, and start it again after PAUSE seconds
restart() {
	local host=$1 signal=$2 name=SMCRD_PID_$1 begin status=0
	begin=$(monotonic)
	kill "-$signal" "${!name}"
	{ wait "${!name}" || status=$?; } 2>/dev/null
	if [ "$signal" = TERM ] && [ "$status" -ne 0 ]; then
		fail "smcrd on host $host ends with status $status"
	fi
	sleep "$3" # the time without a daemon is part of the test
	smcrd_start "$host" || fail "smcrd on host $host does not come back"
	# A tick of /proc/uptime is 10 ms, so windows must not be shorter.
	echo "$host $signal $begin $(monotonic)" >>"$OUT/windows"
}

restart_all() {
	local i hosts=(a b) signals=(KILL TERM) pauses=(0 0.3)
	for ((i = 0; i < RESTARTS; i++)); do
		restart "${hosts[i % 2]}" "${signals[i / 2 % 2]}" "${pauses[i / 4 % 2]}"
		# Wait, so that the next window does not overlap with effects of this one.
		sleep "$MOMENT"
		calm_down "after restart $((i + 1)) ($(tail -n 1 "$OUT/windows"))"
	done
}

no_connection_open() {
	[ "$(tail -n 1 "$HOSTS_DIR/server.out" | awk '{ print $NF }')" = 0 ]
}

# judge: print every event, one a line, after "allowed" or "NOT ALLOWED"
judge() {
	grep -h '^event ' "$OUT/client.out" "$OUT/server.out" | awk -v moment="$MOMENT" -v slack=0.02 '
		FILENAME != "-" {
			from[NR] = $3 - slack
			to[NR] = $4 + moment
			what[NR] = NR " " $1 " " $2
			windows = NR
			next
		}
		{
			during = ""
			for (i = 1; i <= windows; i++)
				if ($7 >= from[i] && $7 <= to[i])
					during = what[i]
			right = $3 == "reset" && during != "" && ($8 == "pair" || $9 == "connect" ||
				$2 == "server" && $11 == 0)
			print (right ? "allowed" : "NOT ALLOWED") "\t" (during == "" ? "-" : during) "\t" $0
		}' "$OUT/windows" -
}

hosts_up
echo 'short_connection_rate = 0' | tee "$HOSTS_DIR/a.conf" >"$HOSTS_DIR/b.conf"
smcrd_start a || exit 1
smcrd_start b || exit 1
start_on a "$run" "$requests" serve "$server" 7101 >"$HOSTS_DIR/server.out"
server_pid=$!
until_true 10 grep -q ready "$HOSTS_DIR/server.out" || fail "the server does not listen"
start_on b "$run" "$requests" ask "$server" 7101 --clients "$CLIENTS" --size "$SIZE" --pause "$PAUSE" \
	>"$HOSTS_DIR/client.out"
client_pid=$!
: >"$OUT/windows"
calm_down "at the start"
restart_all
kill -TERM "$client_pid"
until_true "$PATIENCE" ended "$client_pid" || fail "the clients do not end"
wait "$client_pid" || fail "the clients end with status $?"
until_true "$PATIENCE" no_connection_open || fail "the server has connections that no client has"
kill -TERM "$server_pid"
wait "$server_pid" || fail "the server ends with status $?"
keep
judge >"$OUT/events"

echo "restarts: $(grep -c . "$OUT/windows")"
for side in client server; do
	echo "$side: $(tail -n 1 "$OUT/$side.out")"
	awk -F'\t' -v side="$side" '{ split($3, word, " ") }
		word[2] == side { n[$1 "  " word[3] " in " word[9] ", " word[8]]++ }
		END { for (i in n) printf "  %6d %s\n", n[i], i }' "$OUT/events" | sort
done
bad=$(grep -c '^NOT ALLOWED' "$OUT/events")
if [ "$bad" -ne 0 ]; then
	grep '^NOT ALLOWED' "$OUT/events" | head -n 40
	echo "not ok 1 - $RESTARTS restarts under $CLIENTS clients: $bad connections see what they must not; see $OUT"
	exit 1
fi
echo "ok 1 - $RESTARTS restarts under $CLIENTS clients: $(awk '{ print $3 }' <(tail -n 1 "$OUT/client.out")) connections right"
