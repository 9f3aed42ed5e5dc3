#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compare smcrd with the kernel's SMC-R, rsockets and TCP on the same two virtual machines, in the same boot;
# `make bench-vm`. Only ratios are meaningful, because the machines are emulated. Prints a table: medians over the
# boots, and medians of the boots' ratios to the kernel's SMC-R. docs/performance.md has the results.
#
#   BOOTS (3), ROUNDS of all measurements in each boot (2), WAYS ("tcp kernel rsockets verbs soft"),
#   BULK_SECONDS (3), RTT_COUNT (2000), ASK_COUNT (300)
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/interop/vm.bash
. "$here/vm.bash"
# shellcheck source=tests/interop/lab.bash
. "$here/lab.bash"

BOOTS=${BOOTS:-3}
ROUNDS=${ROUNDS:-2}
WAYS=${WAYS:-tcp kernel rsockets verbs soft}
BULK_SECONDS=${BULK_SECONDS:-3}
RTT_COUNT=${RTT_COUNT:-2000}
ASK_COUNT=${ASK_COUNT:-300}
read -r -a ways <<<"$WAYS"
bench=$VM_TOP/$LAB_BUILD/bench/tcpbench
VM_NICE=${VM_NICE:-0}
LAB_CAPTURE= # a capture would take more time than some of the measurements

# smcrd_start HOST NAME RNIC [COMMAND..]: start one of a machine's two smcrd; its socket is /run/NAME.sock
smcrd_start() {
	local n=$1 name=$2 rnic=$3
	shift 3
	job_start "$n" "$name" "$@" "$VM_TOP/$LAB_BUILD/bin/smcrd" --foreground --config /mnt/smcrd.conf \
		--socket "/run/$name.sock" --rnic "$rnic"
	until_true 60 smcrd_answers "$n" "$name"
}

smcrd_answers() {
	on "$1" "$VM_TOP/$LAB_BUILD/bin/smcrctl" --socket "/run/$2.sock" info >/dev/null 2>&1
}

start() {
	local n at name
	for n in 1 2; do
		# The machines are slow. Short connections are measured, so smcrd must not leave them on TCP.
		printf '%s\n' 'link_timeout_milliseconds = 1500' 'short_connection_rate = 0' \
			>"${LAB_DIR[$n]}/smcrd.conf"
		smcrd_start $n smcrd verbs:rxe0 &&
			smcrd_start $n soft soft:net1 nsenter --net=/run/netns/soft ||
			lab_fail "no smcrd on host $n" || return
	done
	for at in "${!ways[@]}"; do
		job_start 1 "serve-$at" env BUILD="$LAB_BUILD" "$here/guest/way" "${ways[at]}" "$bench" serve 0.0.0.0 $((5000 + at))
		job_start 1 "answer-$at" env BUILD="$LAB_BUILD" "$here/guest/way" "${ways[at]}" "$bench" answer 0.0.0.0 $((5100 + at))
	done
	for at in "${!ways[@]}"; do
		for name in "serve-$at" "answer-$at"; do
			until_true 60 job_says 1 "$name" '^listening' ||
				lab_fail "$name (${ways[at]}) does not listen: $(tail -n 1 "$(job_out 1 "$name")")" || return
		done
	done
}

no_fallback() {
	on "$1" "$VM_TOP/$LAB_BUILD/tests/interop/smcnl" show | jq -e '.fallback == []' >/dev/null
}

# boot NUMBER: boot and measure; values go to VM_WORK/values as "BOOT WAY MEASUREMENT VALUE".
boot() {
	local round n
	lab_up B B && start || return
	for ((round = 0; round < ROUNDS; round++)); do
		job_start 2 round env BUILD="$LAB_BUILD" "$here/guest/round" "$WAYS" "$BULK_SECONDS" "$RTT_COUNT" "$ASK_COUNT"
		job_wait 2 round 900
		grep '^failed' "$(job_out 2 round)" && tail -n 20 "$(job_out 2 round)" >&2
		sed -n "s/^\([a-z]* [a-z]* [0-9.]*\)$/$1 \1/p" "$(job_out 2 round)" >>"$VM_WORK/values"
	done
	for n in 1 2; do
		no_fallback $n || echo "the kernel of host $n fell back to TCP: its figures are none of SMC-R" >&2
	done
	lab_down
}

# table: print VM_WORK/values as a table
table() {
	awk -v order="$WAYS" '
	function median(list,   v, n, i, j, t) {
		n = split(list, v, " ")
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
	}
	{ all[$1, $2, $3] = all[$1, $2, $3] " " $4; boots[$1] = 1 }
	END {
		split("bulk rtt ask setup", what, " ")
		split("bulk MB/s|round trip us|requests/s|setups/s", title, "|")
		printf "%-10s", ""
		for (w = 1; w <= 4; w++) printf " | %14s %6s", title[w], "ratio"
		printf "\n"
		n = split(order, ways, " ")
		for (i = 1; i <= n; i++) {
			printf "%-10s", ways[i]
			for (w = 1; w <= 4; w++) {
				values = ratios = ""
				for (b in boots) {
					if (!((b, ways[i], what[w]) in all)) continue
					value = median(all[b, ways[i], what[w]])
					values = values " " value
					if ((b, "kernel", what[w]) in all)
						ratios = ratios " " value / median(all[b, "kernel", what[w]])
				}
				if (values == "") printf " | %14s %6s", "-", "-"
				else printf " | %14.1f %6s", median(values), ratios == "" ? "-" : sprintf("%.2f", median(ratios))
			}
			printf "\n"
		}
	}' "$VM_WORK/values"
}

vm_packages+=(librdmacm1)
vm_prepare || exit 1
lab_check || exit 1
for ((n = 1; n <= BOOTS; n++)); do
	boot "$n" || exit 1
	echo "# after boot $n of $BOOTS, $SECONDS s" >&2
	table >&2
done
table
