#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Find tests whose result a busy machine decides, run by `make stress`: test programs of both builds in random order,
# more at once than there are processors, beside loops that only compute, until the time is over. Needs root, and
# `make all tests` and `make SAN=1 tests` before.
#
#   STRESS_SECONDS (1200)   no round begins later
#   AT_ONCE (10)            tests that run at once
#   BUSY (4)                loops that only compute
#   BATS (no)               yes: the two-host tests instead; four at once are enough for two processors
#   ONLY                    only tests whose name matches this extended regular expression
#
# Prints each failure when it happens. The output of failed tests stays in build/stress/. The exit status tells whether
# a test failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

seconds=${STRESS_SECONDS:-1200}
export OUT=$PWD/build/stress HOSTS_PATIENCE=10 CMOCKA_MESSAGE_OUTPUT=TAP SMCR_PROOFS=
export UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0

[ "$(id -u)" = 0 ] || { echo "stress: needs root" >&2; exit 1; }

# one BUILD SOURCE ROUND: run a test; keep its output if it fails.
one() {
	local status=0 source=${2##*/}
	local command=("$1/${2%.c}") log=$OUT/${1//\//_}_$source.$3
	[ "${2%.bats}" = "$2" ] || command=(bats --tap --print-output-on-failure "$2")
	HOSTS_BUILD=$PWD/$1 timeout -k 10 1200 "${command[@]}" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" = 0 ]; then
		rm -f "$log"
		return
	fi
	echo "$(date +%T) round $3: $1 $2 fails with status $status: $log"
	grep -A 4 '^not ok' "$log" | head -n 12 | cut -c 1-200
	touch "$OUT/failed"
}
export -f one

# Each test of each build, a line each, in random order.
all() {
	local source build
	local sources=(tests/unit/test_*.c tests/preload/test_*.c tests/libsmcr/test_*.c)
	[ "${BATS:-no}" = no ] || sources=(tests/bats/*.bats)
	for source in "${sources[@]}"; do
		[[ $source =~ ${ONLY:-.} ]] || continue
		for build in build build/san; do
			echo "$build $source"
		done
	done | shuf
}

rm -rf "$OUT"
mkdir -p "$OUT"
for ((i = 0; i < ${BUSY:-4}; i++)); do
	timeout "$seconds" bash -c 'while :; do :; done' &
done
# shellcheck disable=SC2046
trap 'kill $(jobs -rp) 2>/dev/null' EXIT
trap 'exit 130' INT TERM HUP

for ((round = 1; SECONDS < seconds; round++)); do
	all | sed "s/\$/ $round/" | xargs -P "${AT_ONCE:-10}" -L 1 bash -c 'one "$0" "$1" "$2"'
	echo "round $round is over after $SECONDS s"
done
[ ! -e "$OUT/failed" ]
