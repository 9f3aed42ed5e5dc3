#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Connections whose memory their programs have mapped (docs/data-path.md) are reset in the middle of their streams, in
# every way in which that memory goes: again and again, until each kind has made so many resets. There are two hosts
# with two NICs and an smcrd each, and ordinary programs under smcr-run, which write and read as fast as they can. What
# they read before ECONNRESET must be the stream, whatever is given away meanwhile. Needs root. Cleans up, also when
# killed.
#
#   RESETS (50)       how many of each kind; both ends of a connection count
#   KINDS             only these kinds (all of them)
#   FLOWS (8)         connections that are reset at once
#   SHARED (always)   SMCRD_SHARED of both programs
#   OUT (build/resets)  results: a line for each round, and the output of programs and daemons
#
# A kind is what happens to one of the hosts, in turn:
#
#   term     its smcrd is ended in good order (SIGTERM)
#   kill     its smcrd is killed
#   delete   an operator deletes the link group
#   down     both NICs are set down: all links go
#   remove   both NICs disappear: their RNICs do too
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/failover.bash
. scripts/failover.bash
# shellcheck source=scripts/soak.bash
. scripts/soak.bash

RESETS=${RESETS:-50}
FLOWS=${FLOWS:-8}
SHARED=${SHARED:-always}
OUT=${OUT:-build/resets}
# shellcheck disable=SC2206
kinds=(${KINDS:-term kill delete down remove})
run=${RUN:-$HOSTS_BUILD/bin/smcr-run}
SOAK_NAME=resets
A=10.77.0.1

# ---- the traffic

traffic_begins() {
	local host
	rm -f "$HOSTS_DIR"/{server,client}.{in,out}
	SMCRD_SHARED=$SHARED steady_start server a "$run" -- serve "$A" 7100 || fail "the server does not start"
	SMCRD_SHARED=$SHARED steady_start client b "$run" --require -- connect "$A" 7100 --bulk "$FLOWS" --rate 0 ||
		fail "cannot connect: $(cat "$HOSTS_DIR/client.out")"
	[ "$SHARED" = no ] || for host in a b; do
		until_true "$FAILOVER_PATIENCE" uses_memory "$host" 7100 "$FLOWS" || fail "the memory is not used on host $host"
	done
}

# traffic_ends WHAT: wait until all connections were reset at both ends, and count the ends that were in the middle of
# their streams; fail for anything else.
traffic_ends() {
	local name other
	for name in client server; do
		until_true "$FAILOVER_PATIENCE" all_ended "$name" || fail "$1: $name: not all connections have ended"
		other=$(grep '^error' "$HOSTS_DIR/$name.out" |
			grep -Ev ' sent [1-9][0-9]* received [1-9][0-9]*: [a-z]+: Connection reset by peer$')
		[ -z "$other" ] || fail "$1: $name: $other"
		RESET=$((RESET + $(grep -c '^error' "$HOSTS_DIR/$name.out")))
		steady_stop "$name" # its status tells of the resets
	done
}

all_ended() {
	[ "$(grep -c '^error' "$HOSTS_DIR/$1.out")" -eq "$FLOWS" ]
}

# ---- what happens

# daemon_ends HOST SIGNAL
daemon_ends() {
	local pid=SMCRD_PID_$1
	{
		kill "-$2" "${!pid}"
		wait "${!pid}"
	} 2>/dev/null
}

# happen KIND HOST
happen() {
	local nic group
	case $1 in
	term) daemon_ends "$2" TERM ;;
	kill) daemon_ends "$2" KILL ;;
	delete)
		for group in $(json "$2" linkgroup '.linkgroup[].id'); do
			ctl "$2" linkgroup delete "$group" >/dev/null || fail "link group $group cannot be deleted"
		done
		;;
	down) for nic in 0 1; do ip -n "$HOSTS_ID-$2" link set "eth$nic" down; done ;;
	remove) for nic in 0 1; do remove_nic "$2" "$nic"; NIC_OF[nic]="$CUT_MAC $CUT_MTU $CUT_ADDR"; done ;;
	esac
}

# mend_host KIND HOST
mend_host() {
	local nic host
	case $1 in
	term | kill) smcrd_start "$2" || fail "no smcrd on host $2" ;;
	down) for nic in 0 1; do ip -n "$HOSTS_ID-$2" link set "eth$nic" up; done ;;
	remove)
		for nic in 0 1; do
			read -r CUT_MAC CUT_MTU CUT_ADDR <<<"${NIC_OF[nic]}"
			return_nic "$2" "$nic"
		done
		;;
	esac
	for host in a b; do ctl "$host" policy forget >/dev/null 2>&1; done
}

# is_ready HOST: has that host both NICs, and nothing left of the connections before?
is_ready() {
	json "$1" device -e '[.device[] | select(.state == "active")] | length == 2' >/dev/null &&
		json "$1" linkgroup -e '.linkgroup == []' >/dev/null
}

# ---- the run

soak_begin
hosts_up
declare -a NIC_OF=()
for host in a b; do
	printf '%s\n' 'linkgroup_idle_seconds = 1' 'skip_seconds = 1' 'short_connection_rate = 0' 'dbus = no' >"$HOSTS_DIR/$host.conf"
	smcrd_start "$host" || exit 1
done
for kind in "${kinds[@]}"; do
	RESET=0
	for ((round = 0; RESET < RESETS; round++)); do
		host=a
		[ $((round % 2)) = 0 ] || host=b
		for each in a b; do until_true "$FAILOVER_PATIENCE" is_ready "$each" || fail "host $each is not ready"; done
		traffic_begins
		happen "$kind" "$host"
		traffic_ends "$kind on host $host"
		mend_host "$kind" "$host"
		echo "$SECONDS $kind $host $RESET" >>"$OUT/rounds"
	done
	echo "$kind: $RESET resets in the middle of a stream, no wrong byte"
done
keep_evidence
