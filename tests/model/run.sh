#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Explore with SPIN every order of steps of the protocol in docs/data-path.md, and check that SPIN finds an error
# when a rule of the protocol is left out. Prints TAP.
#
#   run.sh [--quick]   --quick: smaller models, seconds instead of a minute
set -euo pipefail
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time
number=0

# explore MODEL DEFINE..: print SPIN's verdict, "errors: N", and the number of states
explore() {
	local model=$PWD/$1
	shift
	(
		cd "$dir"
		spin -a "$@" "$model" >spin.out || { cat spin.out; exit 1; }
		"${CC:-cc}" -O2 -DSAFETY -DCOLLAPSE -DNOFAIR -w -o pan pan.c
		./pan -m1000000 | sed -n 's/.*\(errors: [0-9]*\).*/\1/p; s/ *\([0-9]*\) states, stored/\1 states/p; s/^error: //p'
	)
}

# expect ERRORS TEXT MODEL DEFINE..: explore the model, which must give this number of errors
expect() {
	local errors=$1 text=$2 found
	shift 2
	number=$((number + 1))
	found=$(explore "$@" | paste -sd ' ')
	if [[ $found == *"errors: $errors "* ]]; then
		echo "ok $number - $text ($found)"
	else
		echo "not ok $number - $text: expected errors: $errors, found ${found:-nothing}"
		failed=yes
	fi
}

failed=
if [ "${1:-}" = --quick ]; then
	expect 0 "receiving keeps the order" receive.pml -DLAST=2
	expect 0 "sending keeps the order: library and others" send.pml -DLIBRARY=1 -DOUTSIDE=1
else
	expect 0 "receiving keeps the order" receive.pml
	expect 0 "sending keeps the order: library and others" send.pml -DLIBRARY=1 -DOUTSIDE=2
	expect 0 "sending keeps the order: two of the library" send.pml -DLIBRARY=2 -DOUTSIDE=0
	expect 0 "sending keeps the order: a small buffer" send.pml -DLIBRARY=1 -DOUTSIDE=2 -DROOM=1
fi
for rule in COMPARE FLAG HEAD_FIRST CARE END_FIRST; do
	expect 1 "receiving without $rule fails" receive.pml "-DWITHOUT_$rule"
done
for rule in KERNEL BACKLOG REVOCATION SECOND_LOOK DOORBELL END_FIRST EARLY_READ; do
	expect 1 "sending without $rule fails" send.pml "-DWITHOUT_$rule"
done
echo "1..$number"
[ -z "$failed" ]
