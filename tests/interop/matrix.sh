#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# smcrd and the Linux kernel's SMC-R as peers: every pairing of hosts (lab.bash) that has an smcrd, each host as client
# and as server, in all cells of cells.bash. Prints TAP, one line for each cell, and a table at the end.
#
#   matrix.sh [--quick] [PAIR..]     PAIR: two of S, V, K, as in "SK", which speak version 2, or as in "S1K1", version 1;
#                                    those of docs/interop.md if none is named
#
#   MATRIX_CELLS     only these cells
#   MATRIX_SECONDS   limit of the whole run: cells that have not begun by then count as failed
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

pairs=() quick=
for arg; do
	case $arg in
	--quick) quick=1 ;;
	[SVK][SVK] | [SVK]1[SVK]1) pairs+=("$arg") ;;
	*)
		echo "usage: matrix.sh [--quick] [SK|SV|VK|VV|SS|KK|S1K1|V1K1|K1K1 ..]" >&2
		exit 2
		;;
	esac
done
if [ -n "$quick" ]; then
	[ ${#pairs[@]} -gt 0 ] || pairs=(SK)
	MATRIX_CELLS=${MATRIX_CELLS:-echo links bulk stall half urgent abort views loss-client idle}
	MATRIX_SECONDS=${MATRIX_SECONDS:-420}
fi
[ ${#pairs[@]} -gt 0 ] || pairs=(SS SV SK VV VK S1K1 V1K1)
MATRIX_SECONDS=${MATRIX_SECONDS:-9000}

# shellcheck source=tests/interop/vm.bash
. "$here/vm.bash"
# shellcheck source=tests/interop/kbuild.bash
. "$here/kbuild.bash"
# shellcheck source=tests/interop/version1.bash
. "$here/version1.bash"
# shellcheck source=tests/interop/lab.bash
. "$here/lab.bash"
# shellcheck source=tests/interop/cells.bash
. "$here/cells.bash"
# shellcheck source=tests/interop/cells-end.bash
. "$here/cells-end.bash"
# shellcheck source=tests/interop/cells-begin.bash
. "$here/cells-begin.bash"

read -r -a wanted <<<"${MATRIX_CELLS:-${CELLS[*]}}"
number=0 failed=0 crashes=0 CUTS=()
declare -A RESULT
columns=()

# result COLUMN CELL ok|FAIL|- TITLE: print a line of TAP, and set a field of the table.
result() {
	number=$((number + 1))
	RESULT[$1 $2]=$3
	case $3 in
	FAIL*)
		failed=$((failed + 1))
		echo "not ok $number - $1 $2: $4"
		;;
	-) echo "ok $number - $1 $2 # SKIP $4" ;;
	*) echo "ok $number - $1 $2: $4" ;;
	esac
}

# what_happened: print logs and views, which may show the reason of a failure.
what_happened() {
	local n
	sed 's/^/# /' "$VM_WORK/cell.out"
	for n in 1 2; do
		if lab_crashed $n; then
			tail -n 60 "$VM_WORK/host$n.console" | sed "s/^/# host $n (${LAB_KIND[$n]}): /"
			return
		fi
		! has_smcrd $n || tail -n 15 "$(job_out $n smcrd)" | sed "s/^/# host $n (${LAB_KIND[$n]}): /"
		[ "${LAB_KIND[$n]}" != K ] || on $n dmesg | tail -n 8 | sed "s/^/# host $n (K): /"
	done
}

# jobs_end: end jobs that a failed cell has left behind.
jobs_end() {
	local n file name
	for n in 1 2; do
		for file in "${LAB_DIR[$n]}"/job/*.pid; do
			name=$(basename "$file" .pid)
			[ "$name" = smcrd ] || job_has_ended $n "$name" || job_kill $n "$name" KILL
		done
	done
	ip netns exec "$LAB" nft flush ruleset
}

crashed() {
	lab_crashed 1 || lab_crashed 2
}

# tried COLUMN NAME: run the cell. The kernels crash rarely, and in any cell. A cell with a crash is tried once more, on
# newly booted hosts, which later cells use too.
tried() {
	! "cell_$2" >"$VM_WORK/cell.out" 2>&1 || return 0
	crashed || return
	crashes=$((crashes + 1))
	echo "# $1 $2: a host's kernel has crashed; tried once more on other hosts"
	what_happened
	hosts_again "$1" && as_before >"$VM_WORK/cell.out" 2>&1 || return
	"cell_$2" >"$VM_WORK/cell.out" 2>&1
}

# cell COLUMN NAME: run the cell if it can exist, and print its result.
cell() {
	local reason='' started=$SECONDS
	! declare -F "reason_$2" >/dev/null || reason=$("reason_$2")
	if [ -n "$reason" ]; then
		result "$1" "$2" - "$reason"
	elif [ "$SECONDS" -gt "$MATRIX_SECONDS" ]; then
		result "$1" "$2" FAIL "not begun: the time is over"
	elif crashed; then
		result "$1" "$2" FAIL "not begun: a host has crashed"
	elif tried "$1" "$2"; then
		result "$1" "$2" ok "${CELL_TITLE[$2]} ($((SECONDS - started)) s)"
	else
		result "$1" "$2" FAIL "${CELL_TITLE[$2]} ($((SECONDS - started)) s)"
		what_happened
		jobs_end
		# So that the next cell does not fail because of what this one has left.
		groups_end >/dev/null 2>&1 && as_before >/dev/null 2>&1
	fi
}

# direction CLIENT SERVER: run all cells with these hosts as client and server.
direction() {
	local name
	CLIENT=$1 SERVER=$2 C=${LAB_KIND[$1]} S=${LAB_KIND[$2]}
	columns+=("$(column "$C" "$S")")
	# The first cell has to find a link group with two links, as later cells do.
	as_before >"$VM_WORK/cell.out" 2>&1 || sed 's/^/# /' "$VM_WORK/cell.out"
	for name in "${wanted[@]}"; do cell "$(column "$C" "$S")" "$name"; done
}

# column CLIENT SERVER: print the column's name, such as S-K, or S1-K1 in version 1.
column() {
	local version=${LAB_VERSION#2}
	echo "$1$version-$2$version"
}

# wire NAME KINDS: check the capture of all packets.
wire() {
	local out status=0 malformed n rxe=()
	for n in 1 2; do
		[ "${2:n-1:1}" = S ] || rxe+=(--rxe "10.88.0.$n" --rxe "10.88.0.1$n")
	done
	out=$("$VM_TOP/$LAB_BUILD/tests/interop/wirecheck" ${rxe[@]+"${rxe[@]}"} "$VM_WORK/lan.pcap" \
		${CUTS[@]+"${CUTS[@]}"}) || status=1
	grep -q '^0 packets dropped by kernel' "$VM_WORK/tcpdump" || {
		status=1
		out+=$'\n'"the capture is not complete: $(tail -n 3 "$VM_WORK/tcpdump" | tr '\n' ' ')"
	}
	# tshark also looks for messages in the data of RDMA WRITEs, and expects a part of SMC-D in a Proposal of version 1.
	malformed=$(tshark -n -r "$VM_WORK/lan.pcap" -Y 'smc and (_ws.malformed or _ws.expert.severity >= "Error")
		and (infiniband.bth.opcode == 4 or tcp) and not (tcp.payload[4:1] == 01 and tcp.payload[7:1] == 10)' 2>"$VM_WORK/tshark") || status=1
	[ -z "$malformed" ] || status=1
	if [ "$status" = 0 ]; then
		result "$1" wire ok "every packet is sound: $(awk '$1 == "roce" || $1 == "cdc" || $1 == "llc" {
			printf "%s %s, ", $2, $1 }' <<<"$out")again after NAK, silence, rxe's timer, in cuts: $(awk '
			$1 ~ /^(after_nak|after_silence|first_timer|rxe_timer|in_cut)$/ { printf "%s%s", sep, $2; sep = ", " }' <<<"$out");$(
			awk '$1 == "again" { printf " most of a link: %s %% (%s)", $6, $2; exit }' <<<"$out")"
	else
		result "$1" wire FAIL "every packet is sound"
		{
			grep -v "^again" <<<"$out" | tail -n 40
			grep -m 20 "^again" <<<"$out"
			head -n 20 <<<"$malformed"
			tail -n 3 "$VM_WORK/tshark"
		} | sed 's/^/# /'
	fi
	[ -z "${MATRIX_KEEP:-}" ] || cp "$VM_WORK/lan.pcap" "$MATRIX_KEEP/$1.pcap"
}

# hosts KIND1 KIND2: start the two hosts, and smcrd on those that have one.
hosts() {
	local n
	CUTS=()
	if lab_up "$1" "$2" && daemon_start 1 && daemon_start 2; then
		return 0
	fi
	result "$(column "$1" "$2")" boot FAIL "the two hosts are there"
	for n in 1 2; do
		tail -n 20 "$VM_WORK/host$n.console" "$(job_out $n smcrd)" 2>/dev/null
	done | sed 's/^/# /'
	lab_down
	return 1
}

# hosts_end COLUMN: end the hosts in order, and check the packets of the LAN.
hosts_end() {
	local n kinds=${LAB_KIND[1]}${LAB_KIND[2]}
	for n in 1 2; do
		! has_smcrd $n || lab_crashed $n || daemon_stop $n || result "$1" "stop-$n" FAIL "smcrd of host $n stops in order"
	done
	lab_down
	wire "$1" "$kinds"
}

# hosts_again COLUMN: start new hosts of the same kinds, after a crash.
hosts_again() {
	local kinds=("${LAB_KIND[1]}" "${LAB_KIND[2]}")
	hosts_end "$1"
	hosts "${kinds[@]}"
}

# pair KIND1 KIND2: run both directions. Hosts are booted anew for each direction, except where time is short, because
# the tests leave traces in the kernel.
pair() {
	echo "# $1 and $2, version $LAB_VERSION"
	hosts "$1" "$2" || return
	direction 1 2
	if [ -n "$quick" ]; then
		direction 2 1
		hosts_end "$1$2"
		return
	fi
	hosts_end "$(column "$1" "$2")"
	[ "$1" != "$2" ] && hosts "$2" "$1" || return
	direction 1 2
	hosts_end "$(column "$2" "$1")"
}

# table: print the table in the form of docs/interop.md.
table() {
	local column name
	printf '# | cell |'
	printf ' %s |' "${columns[@]}"
	printf '\n# |---|'
	printf '%s' "${columns[@]/*/---|}"
	echo
	for name in "${wanted[@]}" wire; do
		printf '# | %s |' "$name"
		for column in "${columns[@]}"; do printf ' %s |' "${RESULT[$column $name]:-}"; done
		echo
	done
}

vm_prepare || exit 1
lab_check || exit 1
for pair in "${pairs[@]}"; do
	LAB_VERSION=2
	[[ $pair != *1* ]] || LAB_VERSION=1
	[ "$LAB_VERSION" = 2 ] || version1_prepare || exit 1
	pair="${pair//1/}"
	pair "${pair:0:1}" "${pair:1:1}"
done
echo "1..$number"
table
echo "# $((number - failed)) of $number, $SECONDS s, $crashes crashes of a host's kernel"
[ "$failed" = 0 ]
