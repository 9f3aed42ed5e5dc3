#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One smcrd serves a network namespace. A second one refuses to start, names the first, and harms none of its
# connections.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

NO_BPF=(setpriv "--bounding-set=-bpf,-sys_admin")
NO_RAW=(setpriv --bounding-set=-net_raw)
ANOTHER=3 # exit status of smcrd

# second HOST [COMMAND..]: start another smcrd on the host, under a command that gets its command line. It takes
# $HOSTS_DIR/second.conf.
second() {
	local host=$1
	shift
	[ -e "$HOSTS_DIR/second.conf" ] || : >"$HOSTS_DIR/second.conf"
	on "$host" timeout -s KILL $((10 * HOSTS_PATIENCE)) "$@" "$HOSTS_BUILD/bin/smcrd" --foreground \
		--config "$HOSTS_DIR/second.conf" --socket "$HOSTS_DIR/second.sock"
}

# is_refused HOST WORDS [COMMAND..]: a second smcrd refuses to start. Its log is one line with these words.
is_refused() {
	local host=$1 words=$2 pid=SMCRD_PID_$1
	shift 2
	run second "$host" "$@"
	echo "$output"
	[ "$status" = "$ANOTHER" ] && [ "${#lines[@]}" = 1 ] && [ ! -e "$HOSTS_DIR/second.sock" ] &&
		[[ "$output" == *"another smcrd serves this network namespace: process ${!pid}$words; "* ]]
}

# first_start HOST COMMAND..: smcrd_start, with smcrd under a command
first_start() {
	local host=$1
	shift
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$*" "$HOSTS_BUILD/bin/smcrd" >"$HOSTS_DIR/first"
	chmod +x "$HOSTS_DIR/first"
	SMCRD=$HOSTS_DIR/first smcrd_start "$host"
}

@test "a second smcrd is refused, whatever its options, and the first one's connections do not notice" {
	local host
	busy_pair
	chmod 711 "$HOSTS_DIR"
	for host in a b; do
		is_refused "$host" ", socket $HOSTS_DIR/$host.sock"
		# as an ordinary user, and as a container's first process
		is_refused "$host" ", socket $HOSTS_DIR/$host.sock" setpriv --reuid 65534 --regid 65534 --clear-groups
		is_refused "$host" " of another PID namespace, socket $HOSTS_DIR/$host.sock" unshare --pid --fork --mount-proc
		is_refused "$host" ", socket $HOSTS_DIR/$host.sock" "${NO_BPF[@]}"
	done
	printf '%s\n' 'rnic = soft:eth1' 'deny = port 7100' 'egress_guard = no' >"$HOSTS_DIR/second.conf"
	for host in a b; do is_refused "$host" ", socket $HOSTS_DIR/$host.sock"; done
	[[ "$output" == *"; a namespace has one: use its socket (SMCRD_SOCKET), or stop it; for the network of a container start \
smcrd in the network namespace of the container (ip netns exec, nsenter --net)" ]]
	# by the socket of the first one too
	run -3 on a "$HOSTS_BUILD/bin/smcrd" --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock"
	[[ "$output" == *"process $SMCRD_PID_a, socket $HOSTS_DIR/a.sock; "* ]]
	# connections that are made now use SMC-R as well
	echo_server_on_a "$RUN"
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000 --connections 20
	busy_end
}

@test "a second smcrd is refused while the first one is stopped, and starts when that was killed" {
	local stopped
	hosts_up 1500
	smcrd_start a
	kill -STOP "$SMCRD_PID_a"
	stopped=", socket $HOSTS_DIR/a.sock, stopped or hanging"
	until_true 5 is_refused a "$stopped"
	kill -CONT "$SMCRD_PID_a"
	until_true 5 is_refused a ", socket $HOSTS_DIR/a.sock"
	for _ in {1..3}; do
		kill -KILL "$SMCRD_PID_a"
		wait "$SMCRD_PID_a" || true
		smcrd_start a
	done
}

@test "a second smcrd waits for a first one that was told to end" {
	local before
	busy_pair # the first one takes its time
	before=$SMCRD_PID_a
	kill "$before"
	smcrd_start a
	[ "$SMCRD_PID_a" != "$before" ]
	run ! kill -0 "$before"
	shows a info '.tcp_option.available'
	shows a device 'map(select(.state == "active")) | length == 2'
	wait "$before"
	steady_stop client || true # its connections have ended
	steady_stop server || true
}

@test "where BPF is not permitted one smcrd serves a namespace too" {
	hosts_up 1500
	first_start a "${NO_BPF[@]}"
	shows a info '.tcp_option.available == false'
	run -1 on a env SMCRD_SOCKET="$HOSTS_DIR/none.sock" "$HOSTS_BUILD/bin/smcrctl" doctor
	[[ "$output" == *"; but one listens on $HOSTS_DIR/a.sock; "* ]]
	is_refused a ", socket $HOSTS_DIR/a.sock" "${NO_BPF[@]}"
	is_refused a ", socket $HOSTS_DIR/a.sock"
	kill -STOP "$SMCRD_PID_a"
	is_refused a ", socket $HOSTS_DIR/a.sock"
	kill -KILL "$SMCRD_PID_a"
	wait "$SMCRD_PID_a" || true
	smcrd_start a
	shows a info .tcp_option.available
	is_refused a ", socket $HOSTS_DIR/a.sock" "${NO_BPF[@]}"
}

# ended PID..: how many of these processes have ended?
ended() {
	local pid n=0
	for pid; do kill -0 "$pid" 2>/dev/null || n=$((n + 1)); done
	echo "$n"
}

all_but_one_ended() {
	[ "$(ended "$@")" = $(($# - 1)) ]
}

# start_at_once HOST NUMBER COMMAND..: start as many smcrd at the same time, under a command. Exactly one stays.
start_at_once() {
	local host=$1 number=$2 i pid status
	local -a pids=()
	shift 2
	: >"$HOSTS_DIR/$host.conf"
	rm -f "$HOSTS_DIR"/once.*
	mkfifo "$HOSTS_DIR/once.start"
	for ((i = 0; i < number; i++)); do
		start_on "$host" "$@" sh -c 'read _ <"$1"; shift; exec "$@"' - "$HOSTS_DIR/once.start" \
			"$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/$host.conf" \
			--socket "$HOSTS_DIR/once.$i" >"$HOSTS_DIR/once.$i.log" 2>&1
		pids+=($!)
	done
	exec {start}<>"$HOSTS_DIR/once.start"
	for ((i = 0; i < number; i++)); do echo >&"$start"; done
	until_true 20 all_but_one_ended "${pids[@]}"
	for ((i = 0; i < number; i++)); do
		pid=${pids[i]}
		if kill -0 "$pid" 2>/dev/null; then
			until_true 10 on "$host" "$HOSTS_BUILD/bin/smcrctl" --socket "$HOSTS_DIR/once.$i" info >/dev/null 2>&1
			grep -q 'serves on' "$HOSTS_DIR/once.$i.log"
			kill "$pid"
			wait "$pid"
			continue
		fi
		status=0
		wait "$pid" || status=$?
		[ "$status" = "$ANOTHER" ] || {
			cat "$HOSTS_DIR/once.$i.log"
			return 1
		}
	done
	exec {start}>&-
}

@test "of several that start at once exactly one stays" {
	hosts_up 1500
	for _ in {1..5}; do
		start_at_once a 4 env
		start_at_once a 3 "${NO_RAW[@]}" # by the order of BPF programs alone
	done
	start_at_once a 3 "${NO_BPF[@]}" # by the lock alone
}

@test "no ordinary user can keep smcrd from starting" {
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	hosts_up 1500
	chmod 777 "$HOSTS_DIR"
	: >"$HOSTS_DIR/user.conf"
	talk_start user a "${user[@]}" /usr/bin/python3 -c '
import fcntl, socket, sys
held = [open("/proc/self/ns/net")]
fcntl.flock(held[0], fcntl.LOCK_EX)
for name in "\0smcrd:" + sys.argv[1], "\0smcrd:/run/smcrd/smcrd.sock":
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind(name)
    held[-1].listen()
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
except PermissionError:
    print("ok", flush=True)
sys.stdin.read()' "$HOSTS_DIR/a.sock"
	[ "$(talk_hear user)" = ok ]
	start_on a "${user[@]}" "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/user.conf" \
		--socket "$HOSTS_DIR/user.sock" --rnic soft:eth1 >"$HOSTS_DIR/user.log" 2>&1
	until_true 10 on a "$HOSTS_BUILD/bin/smcrctl" --socket "$HOSTS_DIR/user.sock" info >/dev/null 2>&1
	smcrd_start a
	shows a info .tcp_option.available
	shows a device 'any(.state == "active" and .name == "soft:eth0")'
	# and it is named, not who took its name
	is_refused a ", socket $HOSTS_DIR/a.sock"
	is_refused a " of another PID namespace, socket $HOSTS_DIR/a.sock" unshare --pid --fork --mount-proc
}

@test "smcrctl doctor names the smcrd of the namespace where another socket is asked for" {
	two_daemons
	chmod 755 "$HOSTS_DIR"
	run -1 on a env SMCRD_SOCKET="$HOSTS_DIR/none.sock" "$HOSTS_BUILD/bin/smcrctl" doctor
	[[ "$output" == *"process $SMCRD_PID_a"*"$HOSTS_DIR/a.sock"* ]]
	# the socket of another namespace, as of a container with the host's socket
	run -1 on a env SMCRD_SOCKET="$HOSTS_DIR/b.sock" "$HOSTS_BUILD/bin/smcrctl" doctor
	[[ "$output" == *"runs in another network namespace"*"$HOSTS_DIR/a.sock"* ]]
}
