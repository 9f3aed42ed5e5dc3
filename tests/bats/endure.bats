#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# scripts/endure.sh, which runs for hours, in its shortest form.
bats_require_minimum_version 1.5.0
load net

@test "connections endure each disturbance once" {
	local out=$BATS_TEST_TMPDIR/endure what
	case $HOSTS_BUILD in
	*/san) skip "sanitizers keep freed memory; the parts of this run have tests of their own" ;;
	esac
	HOURS=0 PAUSE=0 SAMPLE=1 OUT=$out "$BATS_TEST_DIRNAME/../../scripts/endure.sh" 3>&- || {
		tail -n 20 "$out"/*.log "$out"/*.out
		false
	}
	for what in failover programs crowd reload local clc roce daemon; do
		grep -q "^[0-9]* [0-9]* $what\b" "$out/rounds"
	done
	[ "$(wc -l <"$out/samples.csv")" -gt 1 ]
	[ -s "$out/report" ]
}

@test "what grows in a long run fails it" {
	local what
	fake_samples >"$BATS_TEST_TMPDIR/flat.csv"
	"$BATS_TEST_DIRNAME/../../scripts/endure-report.py" "$BATS_TEST_TMPDIR/flat.csv"
	for what in a_resident_kib b_descriptors a_rmbs b_links ping_median_us setup_median_us; do
		fake_samples "$what" >"$BATS_TEST_TMPDIR/$what.csv"
		run -1 "$BATS_TEST_DIRNAME/../../scripts/endure-report.py" "$BATS_TEST_TMPDIR/$what.csv"
		[ "$(grep -c GROWN <<<"$output")" -eq 1 ]
	done
}

# fake_samples [COLUMN]: 300 samples in which only this column grows.
fake_samples() {
	"$BATS_TEST_DIRNAME/../../scripts/endure.sh" --heading | awk -F, -v OFS=, -v grows="${1:-}" '
		{ print
		  for (i = 0; i < 300; i++) {
			for (c = 1; c <= NF; c++) {
				value[c] = $c == grows ? 100 + i * 100 : $c == "seconds" ? i * 5 : 100
			}
			line = value[1]
			for (c = 2; c <= NF; c++) line = line OFS value[c]
			print line
		  }
		}'
}
