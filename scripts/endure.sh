#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two hosts for hours: connections, failovers, kills, reloads and attackers, one after the other in random order, beside
# traffic whose every byte is checked. Meanwhile the memory, the descriptors and the latency of both daemons are sampled,
# and must be at the end what they were at the beginning. Needs root. Cleans up, also when killed.
#
# Hosts a and b (scripts/hosts.bash) and their daemons live through the whole run, and no connection between them may be
# reset. The daemon of host c is killed or ended now and then; connections with c may be reset then, and only then, and
# have no end of file and no wrong byte either. Host d belongs to attackers.
#
# Of the connections between a and b some, and of those with c all, pass through memory that their programs have mapped
# (docs/data-path.md).
#
#   HOURS (8)         how long, such as 0.5, but at least until each disturbance has happened once
#   SEED              decides the order (the time of day); it is printed
#   BULK (2), PINGPONG (3), RATE (400)   connections between a and b, and kB/s each way on each of BULK
#   SHARED (always)   SMCRD_SHARED of these connections; no: all bytes pass through the kernel
#   ONLY              only these disturbances
#   PAUSE (2)         seconds without a disturbance after each
#   SAMPLE (5)        seconds between two samples
#   GROWN_MIB (8), SLOWER (2)   most that memory may grow, in MiB, and latency, as a factor (scripts/endure-report.py)
#   HOSTS_PATIENCE (10)  how many times as long as on an idle machine to wait
#   PLOT              directory for the plot, endure.svg
#   endure.sh --heading   print the names of the columns of samples.csv
#
#   OUT (build/endure)  samples.csv, rounds (what happened when), the report, and the output of programs and daemons
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/failover.bash
. scripts/failover.bash
# shellcheck source=scripts/soak.bash
. scripts/soak.bash

HOURS=${HOURS:-8}
SEED=${SEED:-$(date +%s)}
BULK=${BULK:-2}
PINGPONG=${PINGPONG:-3}
RATE=${RATE:-400}
TICK=50000 # microseconds between two parts of a stream, and between pings, so that traffic takes little processor time
SHARED=${SHARED:-always}
PAUSE=${PAUSE:-2}
SAMPLE=${SAMPLE:-5}
GROWN_MIB=${GROWN_MIB:-8}
SLOWER=${SLOWER:-2}
OUT=${OUT:-build/endure}
run=$HOSTS_BUILD/bin/smcr-run
SOAK_NAME=endure
SOAK_IDLE=linkgroups=0
SOAK_SOCKETS=users: # the kernel keeps those for a while whose attackers have gone and whose payload was dropped
PROGRAMS=$HOSTS_BUILD/tests/programs
A=10.77.0.1 B=10.77.0.2 C=10.77.0.3 D=10.77.0.4 STRANGER=10.77.0.99
# The group of a and b in which a is the server. There may be another one, and groups with c and d.
FAILOVER_GROUPS=".role == \"server\" and (.peer | IN(\"$B\", \"10.77.0.12\")) or
	.role == \"client\" and (.peer | IN(\"$A\", \"10.77.0.11\"))"
HOSTS_PATIENCE=${HOSTS_PATIENCE:-10}
ATTACKER=65534 # the user who attacks
RANDOM=$((SEED % 32768))
# shellcheck disable=SC2206
DISTURBANCES=(${ONLY:-failover programs crowd reload local clc roce daemon})
OFTEN=(failover failover failover failover programs crowd) # happen so many times more
[ -z "${ONLY:-}" ] || OFTEN=()
declare -A happened=()
attacks=0 vain=0

# ---- the traffic

# settings: print settings for smcrd. Connections must not become TCP because they are short, or long after a failure.
settings() {
	printf '%s\n' 'rmb_idle_seconds = 1' 'linkgroup_idle_seconds = 2' 'short_connection_rate = 0' 'skip_seconds = 5' 'dbus = no'
}

# Version 1 of SMC-R between a and b, version 2 between a and the others.
start_daemons() {
	local host
	for host in "$@"; do
		settings >"$HOSTS_DIR/$host.conf"
		[ "$host" = b ] || echo 'ueid = ENDURE' >>"$HOSTS_DIR/$host.conf"
		smcrd_start "$host" || exit 1
	done
}

start_servers() {
	local host port
	steady_start server a "$run" -- serve "$A" 7100 --gap 500 --tick "$TICK" || fail "the server does not start"
	SMCRD_SHARED=$SHARED steady_start mortal-server a "$run" -- serve "$A" 7300 --gap 500 --tick "$TICK" --mortal ||
		fail "the server does not start"
	SMCRD_SHARED=$SHARED steady_start shared-server a "$run" -- serve "$A" 7101 --gap 500 --tick "$TICK" || fail "the server does not start"
	start_on a "$run" "$PROGRAMS/crowd" serve "$A" 7001 >"$HOSTS_DIR/crowd-a.out" 2>&1
	start_on b "$run" "$PROGRAMS/crowd" serve "$B" 7001 >"$HOSTS_DIR/crowd-b.out" 2>&1
	start_on a "$run" "$PROGRAMS/echo_server" "$A" 7002 >/dev/null 2>&1
	start_on b "$run" "$PROGRAMS/echo_server" "$B" 7002 >/dev/null 2>&1
	for host in a b; do
		for port in 7001 7002; do
			until_true "$FAILOVER_PATIENCE" tcp_listens "$host" "$port" || fail "a server does not start"
		done
	done
}

start_clients() {
	steady_start client b "$run" --require -- connect "$A" 7100 --bulk "$BULK" --pingpong "$PINGPONG" \
		--rate "$RATE" --pace "$TICK" --gap 500 --tick "$TICK" || fail "cannot connect: $(cat "$HOSTS_DIR/client.out")"
	steady_start visitor b "$run" -- visit "$A" 7100 --count 5 --pace 20000 --gap 500 --tick 20000 || fail "cannot connect"
	SMCRD_SHARED=$SHARED steady_start shared b "$run" --require -- connect "$A" 7101 --bulk 1 --pingpong 1 --rate "$RATE" \
		--pace "$TICK" --gap 500 --tick "$TICK" || fail "cannot connect: $(cat "$HOSTS_DIR/shared.out")"
	SMCRD_SHARED=$SHARED steady_start mortal c "$run" --require -- connect "$A" 7300 --bulk 1 --pingpong 2 --rate "$RATE" \
		--pace "$TICK" --gap 500 --tick "$TICK" --mortal || fail "cannot connect: $(cat "$HOSTS_DIR/mortal.out")"
	until_true "$FAILOVER_PATIENCE" all_symmetric || fail "no symmetric link groups at the start"
	until_true "$FAILOVER_PATIENCE" memory_as_wanted || fail "SMCRD_SHARED=$SHARED, but the memory is used otherwise"
}

# memory_as_wanted: do the connections that may pass through memory do so?
memory_as_wanted() {
	[ "$SHARED" != no ] || return 0
	uses_memory a 7101 && uses_memory b 7101 && uses_memory a 7300 && uses_memory c 7300
}

# all_symmetric: have a and b two links, c and a as well, and do all connections of host c use SMC-R?
all_symmetric() {
	symmetric || return 1
	json c linkgroup -e '[.linkgroup[] | select(.peer == "10.77.0.1" and .role == "client")] | length == 1 and
		.[0].type == "symmetric" and .[0].links == 2' >/dev/null &&
		json c connection -e '[.connection[] | select(.mode == "smcr")] | length >= 3' >/dev/null
}

# resets LABEL: print how many connections with host c have been reset so far.
resets() {
	local name
	for name in mortal mortal-server; do
		steady_mark "$name" "$1" >/dev/null || fail "$name does not answer"
		awk -v label="$1" '$1 == "mark" && $2 == label { print $NF }' "$HOSTS_DIR/$name.out"
	done | awk '{ n += $1 } END { print n }'
}

# ---- disturbances

random_wait() {
	sleep "$(printf '%d.%03d' $(($1 / 1000)) $((RANDOM % $1 % 1000)))"
}

disturb_failover() {
	local cause=${FAILOVER_CAUSES[RANDOM % ${#FAILOVER_CAUSES[@]}]} nic=$((RANDOM % 2))
	echo "$cause $nic"
	fail_over "$cause" "$nic" || fail "failover by $cause on NIC $nic"
}

# A server on one host and clients on the other, of which one side is killed, and then the other.
disturb_programs() {
	local server=a client=b to=$A first
	[ $((RANDOM % 2)) = 0 ] || server=b client=a to=$B
	start_on "$server" "$run" "$PROGRAMS/steady" serve "$to" 7200 </dev/null >"$HOSTS_DIR/killed-server.out" 2>&1
	local pids=($!)
	until_true "$FAILOVER_PATIENCE" tcp_listens "$server" 7200 || fail "a server does not start"
	start_on "$client" "$run" "$PROGRAMS/steady" connect "$to" 7200 --bulk $((1 + RANDOM % 3)) \
		--pingpong $((1 + RANDOM % 5)) --rate 2000 </dev/null >"$HOSTS_DIR/killed-client.out" 2>&1
	pids+=($!)
	first=$((RANDOM % 2))
	{ # without the shell's messages about them
		random_wait 900
		kill -KILL "${pids[first]}"
		random_wait 300
		kill -KILL "${pids[1 - first]}"
		wait "${pids[@]}"
	} 2>/dev/null
	! grep -E '^error.*(for byte|is wrong)' "$HOSTS_DIR"/killed-*.out || fail "wrong bytes beside a kill"
}

# Many connections at a time in both directions.
disturb_crowd() {
	crowd b "$A" $((20 + RANDOM % 100)) &
	crowd a "$B" $((20 + RANDOM % 100)) || fail "$(tail -n 1 "$HOSTS_DIR/crowd-of-a.out")"
	wait $! || fail "$(tail -n 1 "$HOSTS_DIR/crowd-of-b.out")"
}

crowd() {
	on "$1" "$run" "$PROGRAMS/crowd" connect "$2" 7001 "$3" <<<again >"$HOSTS_DIR/crowd-of-$1.out" 2>&1
}

# Settings that change nothing that is measured.
disturb_reload() {
	local host=a pid key value
	[ $((RANDOM % 2)) = 0 ] || host=b
	pid=SMCRD_PID_$host
	key=max_connections_per_user
	value=$((5000 + RANDOM))
	{
		grep -v "^$key\|^add_link\|^deny" "$HOSTS_DIR/$host.conf"
		echo "$key = $value"
		echo "add_link_retry_seconds = $((1 + RANDOM % 3))"
		echo "deny = port $((10000 + RANDOM % 1000))"
	} >"$HOSTS_DIR/$host.conf.new"
	mv "$HOSTS_DIR/$host.conf.new" "$HOSTS_DIR/$host.conf"
	kill -HUP "${!pid}"
	until_true "$FAILOVER_PATIENCE" has_setting "$host" "$key" "$value" || fail "host $host does not reload"
}

has_setting() {
	json "$1" config -e --arg key "$2" --arg value "$3" '.config | any(.key == $key and .value == $value)' >/dev/null
}

# attack COMMAND..: run attackers of tests/hostile. They give up where the machine is too slow for them.
attack() {
	local said
	attacks=$((attacks + 1))
	said=$("$@" 2>&1) && return
	vain=$((vain + 1))
	echo "in vain: $said"
}

disturb_local() {
	local host=a to=$B
	[ $((RANDOM % 2)) = 0 ] || host=b to=$A
	attack on "$host" nice -n 10 python3 tests/hostile/local_user.py "$HOSTS_DIR/$host.sock" "$ATTACKER" \
		"$to" 7002 "$RANDOM" 100
}

# A host that changes CLC messages, as client or server. Else smcrd would leave it on TCP when it has failed.
disturb_clc() {
	local version=$((1 + RANDOM % 2)) pids=()
	local peer=("$HOSTS_BUILD/tests/tools/clc_peer")
	start_on a tests/hostile/forget_failures.py "$HOSTS_DIR/a.sock" "$D" >/dev/null 2>&1
	pids+=($!)
	start_on d tests/hostile/forget_failures.py "$HOSTS_DIR/d.sock" "$A" >/dev/null 2>&1
	pids+=($!)
	if [ $((RANDOM % 2)) = 0 ]; then
		attack on d "${peer[@]}" connect "$A" 7002 "$version" 30 "$RANDOM" "$D" "$MAC_D" ENDURE
	else
		start_on a bash -c 'until (: </dev/tcp/$0/7201) 2>/dev/null; do sleep 0.1; done; exec "$@"' "$D" \
			"$run" "$PROGRAMS/visitor" "$D" 7201
		pids+=($!)
		attack on d "${peer[@]}" serve "$D" 7201 "$version" 30 "$RANDOM" "$D" "$MAC_D" ENDURE
	fi
	{
		kill "${pids[@]}"
		wait "${pids[@]}"
	} 2>/dev/null
}

disturb_roce() {
	local stranger=tests/hostile/roce_stranger.py qpns
	qpns=$(json a link '[.link[].local_qpn] | join(",")')
	attack on b nice -n 10 python3 "$stranger" raw "$RANDOM" 1000
	attack on sw nice -n 10 python3 "$stranger" user "$ATTACKER" "$STRANGER" "$A" "$qpns" "$RANDOM" 1000
	on b python3 "$stranger" refused "$ATTACKER" "$A" || fail "RoCE of a user of host b"
}

disturb_daemon() {
	local signal=KILL
	[ $((RANDOM % 2)) = 0 ] || signal=TERM
	echo "$signal"
	{
		kill "-$signal" "$SMCRD_PID_c"
		wait "$SMCRD_PID_c"
	} 2>/dev/null
	random_wait 900
	smcrd_start c || fail "no smcrd on host c"
}

# ---- rounds

# calm WHAT: after a disturbance everything must be as before.
calm() {
	local host errors
	for host in a b c d; do
		local pid=SMCRD_PID_$host
		kill -0 "${!pid}" 2>/dev/null || fail "$1: smcrd on host $host has ended"
	done
	errors=$(steady_errors client server visitor shared shared-server mortal mortal-server) && fail "$1: $errors"
	until_true "$FAILOVER_PATIENCE" all_symmetric || fail "$1: the link groups do not become symmetric again"
	until_true "$FAILOVER_PATIENCE" memory_as_wanted || fail "$1: the memory is not used any more"
}

# shuffle WORD..: set ORDER to the words in random order.
shuffle() {
	local i
	ORDER=()
	while [ $# -gt 0 ]; do
		i=$((1 + RANDOM % $#))
		ORDER+=("${!i}")
		set -- "${@:1:i-1}" "${@:i+1}"
	done
}

rounds() {
	local end=$1 round=0 what details resets=0 now
	shuffle "${DISTURBANCES[@]}"
	while [ "$SECONDS" -lt "$end" ] || [ "$round" -lt ${#DISTURBANCES[@]} ]; do
		[ ${#ORDER[@]} -gt 0 ] || shuffle "${DISTURBANCES[@]}" "${OFTEN[@]}"
		what=${ORDER[0]}
		ORDER=("${ORDER[@]:1}")
		round=$((round + 1))
		echo "$what" >"$HOSTS_DIR/doing"
		"disturb_$what" >"$HOSTS_DIR/details.txt"
		details=$(tr '\n' ' ' <"$HOSTS_DIR/details.txt")
		calm "round $round, $what $details"
		now=$(resets "round-$round") || exit
		[ "$what" = daemon ] || [ "$now" = "$resets" ] ||
			fail "round $round, $what $details: connections with host c were reset"
		resets=$now
		happened[$what]=$((${happened[$what]:-0} + 1))
		echo "$SECONDS $round $what $details" >>"$OUT/rounds"
		[ $((round % 100)) -ne 0 ] || echo "$round rounds, $SECONDS s"
		echo - >"$HOSTS_DIR/doing"
		sleep "$PAUSE" # a time without a disturbance
	done
	echo "$round rounds: $(for what in "${!happened[@]}"; do echo "$what ${happened[$what]}"; done | sort |
		paste -sd, | sed 's/,/, /g'); $vain attacks in vain"
	[ $((vain * 5)) -le "$attacks" ] || fail "attackers could do too little"
}

# ---- samples

# sample_of HOST: print what its daemon has, separated by commas.
sample_of() {
	local pid=SMCRD_PID_$1 info
	info=$(json "$1" info '.info | [.connections.smcr, .connections.established_total, .engine.linkgroups,
		.engine.links, .engine.rmbs, .engine.queue_pairs, .engine.memory_regions, .engine.timers,
		.engine.memory_used_bytes] | @csv') || return 1
	echo "$(rss_kb "$1"),$(find "/proc/${!pid}/fd" -mindepth 1 | wc -l),$(ticks "${!pid}" 14 15),$info"
}

# ticks PID FIELD..: print the sum of these fields of its stat in hundredths of seconds.
ticks() {
	local pid=$1
	shift
	awk -v fields="$*" '{ n = split(fields, f, " "); for (i = 1; i <= n; i++) sum += $f[i]; print sum }' "/proc/$pid/stat"
}

# latency NAME LABEL WORD: print the three values behind WORD in a program's answer.
latency() {
	awk -v label="$2" -v word="$3" '$1 == "mark" && $2 == label {
		for (i = 3; i < NF; i++) if ($i == word) print $(i + 1) "," $(i + 2) "," $(i + 3) }' "$HOSTS_DIR/$1.out"
}

# heading: the names of the columns of samples.csv
heading() {
	local host name
	printf 'seconds,doing'
	for host in a b; do
		for name in resident_kib descriptors ticks connections established linkgroups links rmbs queue_pairs \
			memory_regions timers buffers_bytes; do
			printf ',%s_%s' "$host" "$name"
		done
	done
	printf ',%s' {ping,setup}_{median,99,worst}_us late_us load
	echo
}

# take_samples: until the run ends. A sample is left out if a daemon does not answer in time, because it is stopped.
take_samples() {
	local label n=0 host_a host_b late load doing
	heading
	while sleep "$SAMPLE" && [ -e "$HOSTS_DIR/doing" ]; do
		label=sample-$((n++))
		if host_a=$(sample_of a) && host_b=$(sample_of b) && late=$(steady_mark client "$label") &&
			steady_mark visitor "$label" >/dev/null; then
			read -r load _ </proc/loadavg
			read -r doing <"$HOSTS_DIR/doing"
			echo "$SECONDS,${doing:--},$host_a,$host_b,$(latency client "$label" ping),$(
				latency visitor "$label" setup),${late##* },$load"
		fi
	done
}

# ---- the run

if [ "${1:-}" = --heading ]; then
	heading
	exit
fi
soak_begin
echo "endure: $HOURS hours, seed $SEED"
hosts_up
hosts_join c 3
hosts_join d 4
chmod 711 "$HOSTS_DIR" # for ATTACKER
MAC_D=$(ip -n "$HOSTS_ID-d" -j link show eth0 | jq -r '.[0].address')
start_daemons a b
ip -n "$HOSTS_ID-sw" addr add "$STRANGER/24" dev br0
ip -n "$HOSTS_ID-sw" neigh replace "$A" lladdr "$(ip -n "$HOSTS_ID-a" -j link show eth0 | jq -r '.[0].address')" dev br0
start_servers
warm_up --bulk "$BULK" --pingpong "$PINGPONG" --rate "$RATE"
start_daemons c d
start_clients

echo - >"$HOSTS_DIR/doing"
take_samples >"$OUT/samples.csv" 2>"$OUT/samples.err" {HOSTS_GUARD}>&- &
sampler=$!
begin=$SECONDS
rounds $((begin + $(awk "BEGIN { print int($HOURS * 3600) }")))
rm "$HOSTS_DIR/doing"
wait "$sampler"

for name in visitor client shared shared-server mortal mortal-server; do
	steady_stop "$name" || fail "$name: $(grep -E '^(error|total)' "$HOSTS_DIR/$name.out")"
	echo "$name: $(grep ^total "$HOSTS_DIR/$name.out")"
done
daemons_end c d
nothing_is_left 64
steady_stop server || fail "server: $(grep -E '^(error|total)' "$HOSTS_DIR/server.out")"
daemons_end b a
keep_evidence
spent=$(ticks $$ 14 15 16 17)
echo "processor time of everything: $((spent / SECONDS)) % of one processor"
scripts/endure-report.py --grown-mib "$GROWN_MIB" --slower "$SLOWER" ${PLOT:+--plot "$PLOT"} "$OUT/samples.csv" >"$OUT/report"
status=$?
cat "$OUT/report"
[ "$status" = 0 ] || fail "memory, descriptors or latency have grown"
echo "endure: $((SECONDS / 60)) minutes, seed $SEED: no byte lost, no connection reset but by a kill, nothing left over"
