#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every test, run by `make check`. Needs root (network namespaces, BPF).
#
# One line a program on standard output, details of what failed, everything in build/check.log. The
# last line is "N passed, N failed"; the exit status tells whether anything failed. A program that
# crashes, stops in the middle or prints no TAP counts as a failure of its own.
#
#   SIM_SEEDS      seeds of the simulator (200), a quarter of them with sanitizers, and again a quarter
#                  that nobody has tried yet, from SIM_START on (the time of day, in milliseconds)
#   FUZZ_SECONDS   seconds a fuzz target (2)
#   MUTATE_SECONDS, MUTATE_SEED  how long mutants of the code are tried (30), and which: new ones each time
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

sim_seeds=${SIM_SEEDS:-200}
sim_start=${SIM_START:-$(date +%s%3N)}
fuzz_seconds=${FUZZ_SECONDS:-2}
mutate_seconds=${MUTATE_SECONDS:-30}
mutate_seed=${MUTATE_SEED:-$(date +%s)}
jobs_max=$(nproc)
program_timeout=600
work=$PWD/build/check
log=$PWD/build/check.log
export SMCR_PROOFS=$PWD/build/proofs.txt
export CMOCKA_MESSAGE_OUTPUT=TAP
export UBSAN_OPTIONS=print_stacktrace=1
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that called: we start our own

passed=0
failed=0
skipped=0

finish() {
	[ "$skipped" -eq 0 ] || echo "$skipped skipped"
	echo "everything is in build/check.log; $SECONDS seconds"
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}

# What still runs when we are interrupted must not stay behind; timeout(1) ends its whole group.
# shellcheck disable=SC2317
stop_programs() {
	local file
	for file in "$work"/*.pid; do
		[ ! -e "$file" ] || kill "$(cat "$file")" 2>/dev/null
	done
}
trap stop_programs EXIT
trap 'exit 130' INT TERM HUP

# ---- running and judging

# run NAME COMMAND...: leave output and exit status in the work directory.
run() {
	local base=$work/${1//\//_}
	shift
	timeout -k 10 "$program_timeout" "$@" >"$base.out" 2>"$base.err" </dev/null &
	echo $! >"$base.pid"
	{ wait $!; } 2>/dev/null # the shell would tell of a crash here, judge does
	echo $? >"$base.status"
	rm -f "$base.pid"
}

# start NAME COMMAND...: the same in the background, as many at a time as there are processors.
start() {
	while [ "$(jobs -rp | wc -l)" -ge "$jobs_max" ]; do
		wait -n
	done
	run "$@" &
}

# Count lines of the output that match.
count() {
	grep -Ec "$2" "$1" || true
}

# What is wrong with a run beyond its "not ok" lines, as one line; empty if nothing is.
run_fault() {
	local base=$1 results=$2 status plan
	status=$(cat "$base.status" 2>/dev/null || echo none)
	plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$base.out" | head -n 1)
	if [ "$status" = 124 ] || [ "$status" = 137 ]; then
		echo "stopped after $program_timeout seconds or killed"
	elif [ "$status" = none ] || [ "$status" -gt 128 ]; then
		echo "crashed: status $status"
	elif [ "$results" -eq 0 ]; then
		echo "printed no TAP, status $status"
	elif [ -n "$plan" ] && [ "$plan" -ne "$results" ]; then
		echo "planned $plan tests, $results reported, status $status"
	elif [ "$status" -ne 0 ] && [ "$(count "$base.out" '^not ok')" -eq 0 ]; then
		echo "no test failed, yet status $status"
	fi
}

# judge NAME: count a finished run and print its line.
judge() {
	local base=$work/${1//\//_} ok bad skip fault
	# cmocka writes "not ok N # SKIP" for a test that asks to be skipped.
	skip=$(count "$base.out" '^(not )?ok\b.*# *[Ss][Kk][Ii][Pp]')
	bad=$(grep -E '^not ok\b' "$base.out" | grep -Evc '# *[Ss][Kk][Ii][Pp]')
	ok=$(grep -E '^ok\b' "$base.out" | grep -Evc '# *[Ss][Kk][Ii][Pp]')
	fault=$(run_fault "$base" $((ok + bad + skip)))
	[ -z "$fault" ] || bad=$((bad + 1))
	passed=$((passed + ok))
	failed=$((failed + bad))
	skipped=$((skipped + skip))
	printf '%-44s %5d ok' "$1" "$ok"
	[ "$skip" -eq 0 ] || printf ', %d skipped' "$skip"
	[ "$bad" -eq 0 ] || printf ', %d FAILED' "$bad"
	printf '\n'
	if [ "$bad" -gt 0 ]; then
		[ -z "$fault" ] || echo "    $fault"
		grep -E -A 12 '^not ok\b' "$base.out" | grep -vE '^ok\b' | head -n 60 | sed 's/^/    /'
		tail -n 30 "$base.err" | sed 's/^/    /'
	fi
	{
		echo "==== $1"
		cat "$base.out" "$base.err"
	} >>"$log"
}

# build NAME TARGET...: without it nothing below makes sense.
build() {
	local name=$1
	shift
	echo "==== $name" >>"$log"
	if ! make -j"$jobs_max" "$@" >"$work/build.out" 2>&1; then
		cat "$work/build.out" >>"$log"
		tail -n 40 "$work/build.out"
		echo "$name: make $* failed"
		failed=$((failed + 1))
		finish
	fi
	cat "$work/build.out" >>"$log"
}

# ---- the suites

# programs DIRECTORY PREFIX: unit, preload and libsmcr test programs built below it, in parallel.
programs() {
	local top=$1 prefix=$2 names=() source name
	for source in tests/unit/test_*.c tests/preload/test_*.c tests/libsmcr/test_*.c; do
		[ -e "$source" ] || continue
		name=${source#tests/}
		name=${name%.c}
		names+=("$prefix$name")
		start "$prefix$name" "$top/tests/$name"
	done
	wait
	for name in "${names[@]}"; do
		judge "$name"
	done
}

# simulator PROGRAM NAME SEEDS [START]
simulator() {
	[ -x "$1" ] || return 0
	run "$2" "$1" --seeds "$3" --start "${4:-1}" --jobs "$jobs_max"
	judge "$2"
}

# bats_files BUILD PREFIX: the two-host tests, with the programs of one build, side by side (each has its
# own namespaces). Tests end the daemons in order and look at their status: with sanitizers that includes
# leaks.
bats_files() {
	local file name names=()
	for file in tests/bats/*.bats; do
		[ -e "$file" ] || continue
		name=$2bats/$(basename "$file" .bats)
		names+=("$name")
		HOSTS_BUILD=$PWD/$1 start "$name" bats --tap "$file"
	done
	wait
	for name in "${names[@]}"; do
		judge "$name"
	done
}

fuzz() {
	local source targets=()
	for source in tests/fuzz/fuzz_*.c; do
		targets+=("build/fuzz/$(basename "$source" .c)")
	done
	FUZZ_SECONDS=$fuzz_seconds run fuzz scripts/fuzz.sh "${targets[@]}"
	judge fuzz
}

# Real programs, the quick ones, and a few restarts of smcrd; `make compat` has them all.
compat() {
	run compat tests/compat/run --quick
	judge compat
	RESTARTS=5 run restarts tests/compat/restarts.sh
	judge restarts
}

conformance() {
	run conformance scripts/conformance.py --check
	local base=$work/conformance
	sed 's/^/# /' "$base.out" >"$base.tap"
	if [ "$(cat "$base.status")" = 0 ]; then
		echo "ok 1 - docs/conformance.md claims what this run has shown" >>"$base.tap"
	else
		echo "not ok 1 - docs/conformance.md claims what this run has shown" >>"$base.tap"
		sed 's/^/    /' "$base.out"
	fi
	mv "$base.tap" "$base.out"
	judge conformance
}

if [ "$(id -u)" -ne 0 ]; then
	echo "make check needs root: it makes network namespaces and loads BPF programs"
	failed=1
	finish
fi
rm -rf "$work"
mkdir -p "$work"
: >"$log"
: >"$SMCR_PROOFS"

build build all tests fuzz-build
programs build ""
simulator build/bin/smcr-sim sim "$sim_seeds"
echo "seeds of this run alone; to repeat them: SIM_START=$sim_start"
simulator build/bin/smcr-sim sim/fresh $(((sim_seeds + 3) / 4)) "$sim_start"
fuzz
bats_files build ""
compat
build "build with sanitizers" SAN=1 tests
programs build/san "san/"
start mutate tests/mutate/run --sample "$mutate_seconds" --seed "$mutate_seed" --jobs 1 --build build build/san
bats_files build/san "san/"
judge mutate
simulator build/san/bin/smcr-sim san/sim $(((sim_seeds + 3) / 4))
conformance
finish
