#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run one program in one mode, between two new hosts. usage: mode.bash PROGRAM MODE DIRECTORY
#
#   plain       no smcrd, no smcr-run
#   one-sided   everything under smcr-run; smcrd on the client's host only
#   declined    everything under smcr-run, smcrd on both; they have no subnet in common, so that each
#               rendezvous begins and falls back
#   smcr        everything under smcr-run, smcrd on both
#
# A program's file sets ABOUT, PACKAGES (the version of the first is shown), LIMIT (seconds for a mode), QUICK,
# NO_SMCR (a sentence why none of its connections can be SMC-R; without it there has to be one), SOURCE with build()
# if it needs a package's source (source.bash), and defines run(). This can use hosts a and b, their addresses SERVER and CLIENT, a temporary directory DIR that any user
# may enter, and the functions of lib.bash and scripts/hosts.bash.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=tests/compat/lib.bash
. tests/compat/lib.bash

PROGRAM=$1 MODE=$2 OUT=$3
: >"$OUT/results"
: >"$OUT/faults"
trap hosts_down EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time
# shellcheck source=/dev/null
. "tests/compat/programs/$PROGRAM.bash"
hosts_up 1500
DIR=$HOSTS_DIR/work
mkdir "$DIR"
chmod 711 "$HOSTS_DIR"
chmod 777 "$DIR"

case $MODE in
plain) RUN=() ;;
one-sided)
	RUN=("$HOSTS_BUILD/bin/smcr-run")
	daemon_start b
	;;
declined)
	RUN=("$HOSTS_BUILD/bin/smcr-run")
	ip -n "$HOSTS_ID-b" addr del 10.77.0.2/24 dev eth0
	ip -n "$HOSTS_ID-b" addr add 10.77.0.2/28 dev eth0
	ip -n "$HOSTS_ID-b" link set eth1 down
	daemon_start a
	daemon_start b --rnic soft:eth0
	;;
smcr)
	RUN=("$HOSTS_BUILD/bin/smcr-run")
	daemon_start a
	daemon_start b
	;;
esac

cd "$DIR" || exit 1
run
cd "$HOSTS_ROOT" || exit 1
keep_logs
note_counters
daemons_end
