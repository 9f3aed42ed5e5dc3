#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every test, run by `make check`. Needs root (network namespaces, BPF).
#
#   check.sh --quick    run by `make quickcheck`: tests that need neither root nor a second host, in a minute or two
#
# Standard output has a line for each program when it ends, with the seconds it took; details of failures; and at
# the end the failures once more in brief. build/check.log has all output. The last line is "N passed, N failed";
# the exit status tells whether anything failed. A program that crashes, stops in the middle or prints no TAP
# counts as one more failure.
#
# Tests wait more than they compute, so twice as many as there are processors run at once. Jobs that only compute
# (the build with sanitizers, the simulator) run beside them and get the processor time that tests leave. So no
# test may rely on how fast the machine is.
#
#   SIM_SEEDS      seeds of the simulator (200), five times as many of the software RNIC's, and fifty times as many of the connection
#                  manager's; also a quarter of them with sanitizers, and as many new ones, from SIM_START on (the time of day in milliseconds)
#   FUZZ_SECONDS   seconds for each fuzz target (2)
#   MUTATE_SECONDS, MUTATE_SEED  how long mutants of the code are tried (30); the seed that chooses them (a new one)
#   TESTS_MAX      tests that run at once (twice the number of processors)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

sim_seeds=${SIM_SEEDS:-200}
sim_start=${SIM_START:-$(date +%s%3N)}
smbd_seeds=$((10 * sim_seeds)) # of smbd-sim, whose runs are short
fuzz_seconds=${FUZZ_SECONDS:-2}
mutate_seconds=${MUTATE_SECONDS:-30}
mutate_seed=${MUTATE_SEED:-$(date +%s)}
quick=
[ "${1:-}" != --quick ] || quick=yes
jobs_max=$(nproc)
tests_max=${TESTS_MAX:-$((2 * jobs_max))}
program_timeout=1200
beside=(nice -n 10) # for jobs that get only the processor time that tests leave
work=$PWD/build/check
log=$PWD/build/check.log
export SMCR_PROOFS=$PWD/build/proofs.txt
export HOSTS_PATIENCE=10 # scripts/hosts.bash
export CMOCKA_MESSAGE_OUTPUT=TAP
export UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
unset MAKEFLAGS MFLAGS MAKELEVEL # set by the make that called; this script starts its own

# finish: print the sums of all programs and exit.
finish() {
	local passed failed skipped
	read -r passed failed skipped < <(cat "$work"/*.count 2>/dev/null |
		awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }')
	[ "$skipped" -eq 0 ] || echo "$skipped skipped"
	cat "$work"/*.brief 2>/dev/null # so that the end of the output shows all failures
	echo "everything is in build/check.log; $SECONDS seconds"
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}

# When interrupted, end the programs that still run; timeout(1) ends its whole process group.
# shellcheck disable=SC2317
stop_programs() {
	local file
	# shellcheck disable=SC2046
	kill $(jobs -rp) 2>/dev/null
	for file in "$work"/*.pid; do
		[ ! -e "$file" ] || kill "$(cat "$file")" 2>/dev/null
	done
}
trap stop_programs EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time

# ---- running and judging

# run NAME COMMAND...: run it, and write output, exit status and seconds to the work directory.
run() {
	local base=$work/${1//\//_} begin=$SECONDS
	shift
	timeout -k 10 "$program_timeout" "$@" >"$base.out" 2>"$base.err" </dev/null {slots}>&- &
	echo $! >"$base.pid"
	{ wait $!; } 2>/dev/null # the shell would report a crash here; judge reports it
	echo $? >"$base.status"
	echo $((SECONDS - begin)) >"$base.seconds"
	rm -f "$base.pid"
}

# Each test takes a byte out of this pipe before it runs, and puts it back afterwards.
make_slots() {
	local i
	mkfifo "$work/slots"
	exec {slots}<>"$work/slots"
	for ((i = 0; i < tests_max; i++)); do
		printf . >&"$slots"
	done
}

# start NAME COMMAND...: run and judge in the background, as soon as fewer than TESTS_MAX tests run.
start() {
	local slot
	read -r -n 1 -u "$slots" slot
	{
		run "$@"
		printf %s "$slot" >&"$slots"
		judge "$1"
	} &
}

# Count lines of the output that match.
count() {
	grep -Ec "$2" "$1" || true
}

# Print in one line what is wrong with a run beyond its "not ok" lines, or nothing.
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
	echo "$ok $bad $skip" >"$base.count"
	{
		flock 9
		print_result "$1" "$ok" "$bad" "$skip" "$fault"
	} 9>"$work/print"
}

# Print the cases at which tests have failed (tests/lib/tries.h).
failed_cases() {
	grep -hE '^# tests/.* failed at ' "$1.out" "$1.err" | cut -c 1-200 | sed 's/^/    /'
}

# brief NAME FAULT: print a failed run in a few lines.
brief() {
	local base=$work/${1//\//_}
	echo "FAILED $1${2:+: $2}"
	grep -E -A 5 '^not ok\b' "$base.out" | grep -vE '^(ok\b|--$)' | head -n 12 | cut -c 1-200 | sed 's/^/    /'
	failed_cases "$base"
	[ -z "$2" ] || tail -n 4 "$base.err" | cut -c 1-200 | sed 's/^/    /'
}

# print_result NAME OK BAD SKIP FAULT
print_result() {
	local base=$work/${1//\//_}
	printf '%-40s %5d s %5d ok' "$1" "$(cat "$base.seconds")" "$2"
	[ "$4" -eq 0 ] || printf ', %d skipped' "$4"
	[ "$3" -eq 0 ] || printf ', %d FAILED' "$3"
	printf '\n'
	if [ "$3" -gt 0 ]; then
		[ -z "$5" ] || echo "    $5"
		grep -E -A 12 '^not ok\b' "$base.out" | grep -vE '^ok\b' | head -n 60 | sed 's/^/    /'
		failed_cases "$base"
		tail -n 30 "$base.err" | sed 's/^/    /'
		brief "$1" "$5" >"$base.brief"
	fi
	{
		echo "==== $1"
		cat "$base.out" "$base.err"
	} >>"$log"
}

# build NAME COMMAND...: run the command as one test, which passes if it succeeds.
build() {
	local name=$1 base=$work/${1//\//_} program_timeout=3600
	shift
	run "$name" "$@"
	if [ "$(cat "$base.status")" = 0 ]; then
		echo "ok 1 - $*" >>"$base.out"
	else
		tail -n 40 "$base.out" "$base.err"
		echo "not ok 1 - $*" >>"$base.out"
	fi
	judge "$name"
	[ "$(cat "$base.status")" = 0 ]
}

# ---- the suites

# programs DIRECTORY PREFIX: the unit, preload and libsmcr test programs built below DIRECTORY.
programs() {
	local top=$1 prefix=$2 source name
	for source in tests/unit/test_*.c tests/preload/test_*.c tests/libsmcr/test_*.c; do
		[ -e "$source" ] || continue
		[ -z "$quick" ] || ! grep -qE 'Needs root|testnet\.h' "$source" || continue
		name=${source#tests/}
		name=${name%.c}
		start "$prefix$name" "$top/tests/$name"
	done
}

# simulator PROGRAM NAME SEEDS [START]
simulator() {
	run "$2" "${beside[@]}" "$1" --seeds "$3" --start "${4:-1}" --jobs "$jobs_max"
	judge "$2"
}

# The two-host tests. Those tagged "long" come first, so that the end of the run does not wait for them.
bats_in_order() {
	grep -l '^# bats file_tags=.*\blong\b' tests/bats/*.bats
	grep -L '^# bats file_tags=.*\blong\b' tests/bats/*.bats
}

# bats_files BUILD PREFIX: the two-host tests, with the programs of one build, side by side: each has its own
# namespaces. Tests stop the daemons in order and check their exit status, by which sanitizers also report leaks.
bats_files() {
	local file
	while read -r file; do
		HOSTS_BUILD=$PWD/$1 start "$2bats/$(basename "$file" .bats)" \
			bats --tap --print-output-on-failure "$file"
	done < <(bats_in_order)
}

fuzz() {
	local source targets=()
	for source in tests/fuzz/fuzz_*.c; do
		targets+=("build/fuzz/$(basename "$source" .c)")
	done
	FUZZ_SECONDS=$fuzz_seconds start fuzz scripts/fuzz.sh "${targets[@]}"
}

# The quick ones of the real programs, and a few restarts of smcrd. `make compat` runs all of them.
compat() {
	local file name
	while read -r file; do
		name=$(basename "$file" .bash)
		start "compat/$name" tests/compat/run --quick "$name"
	done < <(grep -l '^QUICK=yes' tests/compat/programs/*.bash)
	# MOMENT: a busy machine may be late to let a program notice a restart.
	MOMENT=3 RESTARTS=5 start restarts tests/compat/restarts.sh
}

# hostile BUILD PREFIX: attacks beside verified traffic, in their quick form
hostile() {
	HOSTS_BUILD=$PWD/$1 OUT=$PWD/$1/hostile start "$2hostile" tests/hostile/run --quick
}

# Does code name the requirements that it is for?
citations() {
	run citations scripts/citations.py
	judge citations
}

# Is there everything that comments and documents refer to?
references() {
	run references scripts/references.py
	judge references
}

# Do directories include each other one way?
includes() {
	run includes scripts/includes.py
	judge includes
}

# conformance [OPTION..]: run conformance.py --check
conformance() {
	run conformance scripts/conformance.py --check "$@"
	local base=$work/conformance
	sed 's/^/# /' "$base.out" >"$base.tap"
	if [ "$(cat "$base.status")" = 0 ]; then
		echo "ok 1 - the pages of conformance are right" >>"$base.tap"
	else
		echo "not ok 1 - the pages of conformance are right" >>"$base.tap"
		sed 's/^/    /' "$base.out"
	fi
	mv "$base.tap" "$base.out"
	judge conformance
}

if [ "$(id -u)" -ne 0 ] && [ -z "$quick" ]; then
	echo "make check needs root: it makes network namespaces and loads BPF programs"
	exit 1
fi
rm -rf "$work"
mkdir -p "$work"
: >"$log"
: >"$SMCR_PROOFS"
make_slots

build build make -j"$jobs_max" all tests || finish # nothing below works without the build
build shell make -s shell-check
if [ -n "$quick" ]; then
	build format make -s format-check
	programs build ""
	simulator build/bin/smcr-sim sim 20
	simulator build/bin/cm-sim cm-sim 2000
	simulator build/bin/rnic-sim rnic-sim 100
	simulator build/bin/smbd-sim smbd-sim "$smbd_seeds"
	wait
	citations
	references
	includes
	conformance --text
	finish
fi
build build-san "${beside[@]}" make -j"$jobs_max" SAN=1 tests fuzz-build &
build_san=$!
bats_files build ""
hostile build ""
compat
programs build ""
if wait "$build_san"; then
	echo "seeds of this run alone; to repeat them: SIM_START=$sim_start"
	{
		simulator build/bin/smcr-sim sim "$sim_seeds"
		# Seeds of this run alone prove nothing that docs/conformance.md could state of the next run.
		simulator build/bin/rnic-sim rnic-sim "$((5 * sim_seeds))"
		SMCR_PROOFS='' simulator build/bin/smcr-sim sim/fresh $(((sim_seeds + 3) / 4)) "$sim_start"
		simulator build/bin/rnic-sim rnic-sim/fresh $(((5 * sim_seeds + 3) / 4)) "$sim_start"
		simulator build/san/bin/smcr-sim san/sim $(((sim_seeds + 3) / 4))
		simulator build/bin/cm-sim cm-sim $((50 * sim_seeds))
		SMCR_PROOFS='' simulator build/bin/cm-sim cm-sim/fresh $((10 * sim_seeds)) "$sim_start"
		simulator build/san/bin/cm-sim san/cm-sim $((10 * sim_seeds))
		simulator build/san/bin/rnic-sim san/rnic-sim $(((5 * sim_seeds + 3) / 4))
		simulator build/bin/smbd-sim smbd-sim "$smbd_seeds"
		SMCR_PROOFS='' simulator build/bin/smbd-sim smbd-sim/fresh "$smbd_seeds" "$sim_start"
		simulator build/san/bin/smbd-sim san/smbd-sim "$smbd_seeds"
	} &
	bats_files build/san san/
	hostile build/san san/
	start mutate tests/mutate/run --sample "$mutate_seconds" --seed "$mutate_seed" --jobs 1 --build build build/san
	fuzz
	programs build/san san/
fi
wait
citations
references
includes
conformance
finish
