#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run each fuzz target for a limited time, and print the results as TAP.
#
# usage: fuzz.sh TARGET...            (programs below build/fuzz, see `make fuzz`)
#   FUZZ_SECONDS   seconds for each target (60)
#
# Corpora live in build/fuzz-corpus and grow from run to run; they start from the messages in
# tests/captures and from tests/fuzz/seeds/TARGET, where inputs that once failed are kept.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
work=build/fuzz-work
seeds=build/fuzz-seeds
[ $# -gt 0 ] || { echo "usage: $0 TARGET..." >&2; exit 2; }
[ "$seconds" -gt 0 ] || { echo "$0: FUZZ_SECONDS must be at least 1" >&2; exit 2; }

rm -rf "$work" "$seeds"
mkdir -p "$work" "$seeds"
scripts/fuzz-seeds.py "$seeds"

# Run a target, and write its exit status to the work directory.
run_target() {
	local program=$1 name corpus
	name=$(basename "$program")
	corpus=build/fuzz-corpus/$name
	mkdir -p "$corpus" "$seeds/$name"
	local dirs=("$corpus" "$seeds/$name")
	[ -d "tests/fuzz/seeds/$name" ] && dirs+=("tests/fuzz/seeds/$name")
	local status=0
	"$program" -max_total_time="$seconds" -timeout=10 -max_len=8192 -print_final_stats=1 \
		-artifact_prefix="$work/$name-" "${dirs[@]}" >"$work/$name.log" 2>&1 || status=$?
	echo "$status" >"$work/$name.status"
}

# As many at a time as there are processors.
jobs_max=$(nproc)
for program in "$@"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs_max" ]; do
		wait -n
	done
	run_target "$program" &
done
wait

# coverage LOG: what the corpus covers, from the last line of the log that tells it
coverage() {
	sed -nE 's/.* cov: ([0-9]+) ft: ([0-9]+) corp: ([0-9]+).*/\1 edges, \2 features, \3 inputs kept/p' "$1" | tail -n 1
}

number=0
failed=0
echo "1..$#"
for program in "$@"; do
	name=$(basename "$program")
	number=$((number + 1))
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
	if [ "$(cat "$work/$name.status")" = 0 ] && [ "${runs:-0}" -gt 0 ]; then
		echo "ok $number - $name: $runs runs, no crash, $(coverage "$work/$name.log")"
	else
		failed=1
		echo "not ok $number - $name: input kept as $(echo "$work/$name"-*)"
		tail -n 40 "$work/$name.log" | sed 's/^/# /'
	fi
done
exit "$failed"
