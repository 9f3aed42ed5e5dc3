#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The RNICs and the connection manager of smcrd (cm_peer) with the Linux kernel's rdma_cm and its tools: rping, ucmatose
# and perftest with -R. Each tool is the client once, and the server once. Prints TAP.
#
#   cm.sh [--quick] [WHO..]     WHO is the kernel's peer; all if none is named (quick: S)
#
#   S   cm_peer with a software RNIC, in a network namespace of this machine
#   V   cm_peer with verbs over rdma_rxe, in a virtual machine
#   K   the same tools in another virtual machine: shows that the rest is right
#
#   CM_CELLS   only these cells, in this order
#   CM_KEEP    a directory for the captures, cm-WHO.pcap
#   CM_COUNT, CM_SIZE, CM_CONNS   other amounts: pings or messages, bytes of each, connections of ucmatose
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

peers=() quick=
for arg; do
	case $arg in
	--quick) quick=1 ;;
	S | V | K) peers+=("$arg") ;;
	*)
		echo "usage: cm.sh [--quick] [S|V|K ..]" >&2
		exit 2
		;;
	esac
done
if [ ${#peers[@]} = 0 ]; then
	peers=(S)
	[ -n "$quick" ] || peers=(S V K)
fi

# shellcheck source=tests/interop/vm.bash
. "$here/vm.bash"
# shellcheck source=tests/interop/lab.bash
. "$here/lab.bash"

# "to": the kernel's tool is the server, "from": it is the client.
cells=(rping-to rping-from large-to large-from ucmatose-to ucmatose-from send-to send-from read-to read-from write-to
	write-from nobody-to refused-to refused-from killed-to killed-from ipv6-to ipv6-from drops-to drops-from deaf-to deaf-from mute-to mute-from)
[ -z "$quick" ] || cells=("${cells[@]:0:17}")
read -r -a wanted <<<"${CM_CELLS:-${cells[*]}}"
number=0 failed=0
OURS=2 KERNEL=1 # numbers of the hosts

# result ok|FAIL|- CELL TITLE: print a line of TAP.
result() {
	number=$((number + 1))
	case $1 in
	ok) echo "ok $number - $WHO $2: $3" ;;
	-) echo "ok $number - $WHO $2 # SKIP $3" ;;
	*)
		failed=$((failed + 1))
		echo "not ok $number - $WHO $2: $3"
		;;
	esac
}

# ---- programs

# is_ours HOST: does cm_peer run there, in place of the kernel's tools?
is_ours() {
	[ "$1" = $OURS ] && [ "$WHO" != K ]
}

# address HOST
address() {
	if [ -n "${IPV6:-}" ]; then echo "fd88::$1"; else echo "10.88.0.$1"; fi
}

# ours_of HOST: set OURS_CMD to cm_peer with its RNIC there
ours_of() {
	local rnic=verbs:rxe0
	[ "${LAB_KIND[$1]}" != S ] || rnic=soft:net0
	OURS_CMD=("$VM_TOP/$LAB_BUILD/tests/interop/cm_peer" --rnic "$rnic" --seconds 40)
}

# command_of HOST TOOL server|client SERVER: set COMMAND
command_of() {
	local role=$3 to OURS_CMD
	to=$(address "$4")
	ours_of "$1"
	if is_ours "$1"; then
		COMMAND=("${OURS_CMD[@]}" --count "$COUNT" --size "$SIZE")
		case $2 in
		rping) COMMAND+=("rping-$role" "$to") ;;
		ucmatose) COMMAND+=(--conns "$CONNS" "ucmatose-$role" "$to") ;;
		*) COMMAND+=(--kind "$2" "bw-$role" "$to") ;;
		esac
		return
	fi
	case $2-$role in
	rping-server) COMMAND=(rping -s -a "$to" -v -C "$COUNT" -S "$SIZE") ;;
	rping-client) COMMAND=(rping -c -a "$to" -v -V -C "$COUNT" -S "$SIZE") ;;
	ucmatose-server) COMMAND=(ucmatose -b "$to" -c "$CONNS" -C "$COUNT" -S "$SIZE") ;;
	ucmatose-client) COMMAND=(ucmatose -s "$to" -c "$CONNS" -C "$COUNT" -S "$SIZE") ;;
	*-server) COMMAND=("ib_$2_bw" -R -F -d rxe0 -n "$COUNT" -s "$SIZE") ;;
	*) COMMAND=("ib_$2_bw" -R -F -d rxe0 -n "$COUNT" -s "$SIZE" "$to") ;;
	esac
}

port_of() {
	case $1 in
	rping) echo 7174 ;;
	ucmatose) echo 7471 ;;
	*) echo 18515 ;;
	esac
}

# listens HOST PORT: does a program there that uses the kernel's connection manager listen?
listens() {
	on "$1" rdma resource show cm_id 2>/dev/null | grep -q ":$2 .*LISTEN\|LISTEN.*:$2 "
}

# await_server HOST TOOL: wait until the server listens; fails if it has ended
await_server() {
	if is_ours "$1"; then
		until_true 30 job_says_or_ends "$1" server '^listening'
	else
		until_true 30 listens_or_ended "$1" "$(port_of "$2")"
	fi
	! job_has_ended "$1" server
}

listens_or_ended() {
	job_has_ended "$1" server || listens "$1" "$2"
}

# tool TOOL SERVER CLIENT: run the tool from one host to the other; both sides have to end well.
tool() {
	local COMMAND status=0
	command_of "$2" "$1" server "$2"
	job_start "$2" server "${COMMAND[@]}"
	await_server "$2" "$1" || return
	command_of "$3" "$1" client "$2"
	job_start "$3" client "${COMMAND[@]}"
	# A client of the kernel waits for long for a server that has failed.
	until_true 40 over "$2" "$3" || status=1
	job_has_ended "$3" client || job_kill "$3" client KILL
	job_wait "$3" client 5 || status=1
	[ $status = 0 ] || job_kill "$2" server TERM
	job_wait "$2" server 20 || status=1
	return $status
}

# over SERVER CLIENT: has the client ended, or the server failed?
over() {
	job_has_ended "$2" client || { job_has_ended "$1" server && ! job_wait "$1" server 1; }
}

# says HOST JOB COUNT REGEX: has the job printed so many lines that match?
says() {
	local n
	n=$(grep -c "$4" "$(job_out "$1" "$2")")
	[ "$n" = "$3" ] || {
		echo "$2 has printed $n lines with '$4', not $3"
		return 1
	}
}

# ---- cells

cell_rping-to() {
	tool rping $KERNEL $OURS && says $KERNEL server "$COUNT" 'server ping data: rdma-ping-'
}

cell_rping-from() {
	tool rping $OURS $KERNEL && says $KERNEL client "$COUNT" '^ping data: rdma-ping-'
}

cell_large-to() {
	tool rping $KERNEL $OURS
}

cell_large-from() {
	tool rping $OURS $KERNEL
}

cell_ucmatose-to() {
	tool ucmatose $KERNEL $OURS && says $KERNEL server 1 '^return status 0'
}

cell_ucmatose-from() {
	tool ucmatose $OURS $KERNEL && says $KERNEL client 1 '^return status 0'
}

# bandwidth KIND SERVER CLIENT
bandwidth() {
	local name=client
	[ "$2" != $KERNEL ] || name=server
	tool "$@" && says $KERNEL $name 1 "^ $SIZE  *$COUNT "
}

cell_send-to() {
	bandwidth send $KERNEL $OURS
}

cell_send-from() {
	bandwidth send $OURS $KERNEL
}

cell_read-to() {
	bandwidth read $KERNEL $OURS
}

cell_read-from() {
	bandwidth read $OURS $KERNEL
}

cell_write-to() {
	bandwidth write $KERNEL $OURS
}

cell_write-from() {
	bandwidth write $OURS $KERNEL
}

cell_nobody-to() {
	local OURS_CMD
	ours_of $OURS
	on $OURS "${OURS_CMD[@]}" nobody "$(address $KERNEL)"
}

# The kernel's side is cm_peer too, since no tool refuses: with verbs, so that the kernel carries the refusal.
cell_refused-to() {
	local OURS_CMD status=0
	ours_of $KERNEL
	job_start $KERNEL server "${OURS_CMD[@]}" refuse "$(address $KERNEL)"
	until_true 30 job_says_or_ends $KERNEL server '^listening'
	ours_of $OURS
	on $OURS "${OURS_CMD[@]}" refused "$(address $KERNEL)" || status=1
	job_wait $KERNEL server 20 && return $status
}

# A client that asks for another port learns that nobody listens there, and then the listener refuses the next one.
cell_refused-from() {
	local OURS_CMD
	ours_of $OURS
	job_start $OURS server "${OURS_CMD[@]}" refuse "$(address $OURS)"
	until_true 30 job_says_or_ends $OURS server '^listening'
	job_start $KERNEL client rping -c -a "$(address $OURS)" -p 9999 -C 1
	! job_wait $KERNEL client 20 && says $KERNEL client 1 'RDMA_CM_EVENT_REJECTED, error 8' || return
	job_start $KERNEL client rping -c -a "$(address $OURS)" -C 1
	! job_wait $KERNEL client 20 && says $KERNEL client 1 'RDMA_CM_EVENT_REJECTED, error 28' || return
	job_wait $OURS server 20
}

# killed SERVER CLIENT KERNEL'S-JOB OUR-JOB: the kernel's program is killed under way. Our side learns of it: mostly by a
# DREQ, but the program's memory may be gone a moment before.
killed() {
	local COMMAND
	command_of "$1" rping server "$1"
	job_start "$1" server "${COMMAND[@]}"
	await_server "$1" rping || return
	command_of "$2" rping client "$1"
	job_start "$2" client "${COMMAND[@]}"
	until_true 20 job_says_or_ends $KERNEL "$3" 'ping data'
	job_kill $KERNEL "$3" KILL
	until_true 20 job_has_ended $OURS "$4" && 
		says $OURS "$4" 1 '^FAILED .*\(has ended: peer-disconnected\|lets nobody write there\)$'
}

cell_killed-to() {
	killed $KERNEL $OURS server client
}

cell_killed-from() {
	killed $OURS $KERNEL client server
}

cell_ipv6-to() {
	IPV6=1 tool rping $KERNEL $OURS
}

cell_ipv6-from() {
	IPV6=1 tool rping $OURS $KERNEL
}

# lossy RULE COMMAND..: run the command while the switch loses RoCE packets that the rule of nft selects.
lossy() {
	local status=0 rule=$1
	shift
	ip netns exec "$LAB" nft "
		table bridge lossy {
			chain forward {
				type filter hook forward priority -10
				udp dport 4791 $rule drop
			}
		}"
	"$@" || status=1
	ip netns exec "$LAB" nft delete table bridge lossy
	return $status
}

# Messages of the connection manager are the UDP datagrams of 288 bytes.
cell_drops-to() {
	lossy 'udp length != 288 numgen inc mod 23 == 7' tool rping $KERNEL $OURS
}

cell_drops-from() {
	lossy 'udp length != 288 numgen inc mod 23 == 7' tool rping $OURS $KERNEL
}

# Lost are the first REQ, RTU and DREQ.
cell_deaf-to() {
	lossy 'udp length 288 numgen inc mod 3 == 0' tool rping $KERNEL $OURS
}

cell_deaf-from() {
	lossy 'udp length 288 numgen inc mod 3 == 0' tool rping $OURS $KERNEL
}

# Lost are the first REP and DREP.
cell_mute-to() {
	lossy 'udp length 288 numgen inc mod 4 == 1' tool rping $KERNEL $OURS
}

cell_mute-from() {
	lossy 'udp length 288 numgen inc mod 4 == 1' tool rping $OURS $KERNEL
}

declare -A TITLE=(
	[rping]="pings, each by RDMA READ and RDMA WRITE"
	[large]="pings of many packets"
	[ucmatose]="connections at a time, messages both ways"
	[send]="ib_send_bw -R"
	[read]="ib_read_bw -R"
	[write]="ib_write_bw -R"
	[nobody]="nobody listens on the port"
	[refused]="the program refuses"
	[killed]="the kernel's program is killed under way, and the other side learns of it"
	[ipv6]="pings over IPv6"
	[drops]="pings while the LAN loses packets, but none of the CM"
	[deaf]="pings while the LAN loses requests of the CM"
	[mute]="pings while the LAN loses answers of the CM"
)

# reason CELL: print why the cell cannot exist, if it cannot
reason() {
	case $WHO-$1 in
	S-ipv6-*) echo "software RNICs have IPv4 only" ;;
	K-nobody-* | K-refused-* | K-killed-*) echo "is about smcrd" ;;
	K-deaf-*) echo "the kernel does not repeat the DREQ of a program that has ended" ;;
	# The server listens for the second connection a moment after it has told the client to come.
	K-send-* | K-read-* | K-write-*) echo "perftest's client may be faster than its server" ;;
	esac
}

# amounts CELL: set COUNT, SIZE and CONNS for the cell
amounts() {
	CONNS=5
	case $1 in
	large-* | drops-*) COUNT=10 SIZE=20000 ;;
	killed-*) COUNT=1000000 SIZE=64 ;;
	ucmatose-*) COUNT=20 SIZE=3000 ;;
	send-* | read-* | write-*) COUNT=100 SIZE=8192 ;;
	*) COUNT=100 SIZE=64 ;;
	esac
	COUNT=${CM_COUNT:-$COUNT} SIZE=${CM_SIZE:-$SIZE} CONNS=${CM_CONNS:-$CONNS}
}

show() {
	local n name
	sed 's/^/# /' "$VM_WORK/cell.out"
	for n in $KERNEL $OURS; do
		for name in server client; do
			[ ! -e "$(job_out "$n" "$name")" ] ||
				tail -n 12 "$(job_out "$n" "$name")" | cut -c 1-200 | sed "s/^/# $name on host $n: /"
		done
		[ "${LAB_KIND[$n]}" = S ] || on "$n" dmesg | tail -n 5 | sed "s/^/# host $n: /"
	done
}

cell() {
	local started=$SECONDS why
	amounts "$1"
	why=$(reason "$1")
	if [ -n "$why" ]; then
		result - "$1" "$why"
	elif "cell_$1" >"$VM_WORK/cell.out" 2>&1; then
		result ok "$1" "${TITLE[${1%-*}]} ($((SECONDS - started)) s)"
	else
		result FAIL "$1" "${TITLE[${1%-*}]} ($((SECONDS - started)) s)"
		show
	fi
	rm -f "${LAB_DIR[1]}"/job/{server,client}.out "${LAB_DIR[2]}"/job/{server,client}.out
}

# ---- packets

# value NAME: of wirecheck's output
value() {
	awk -v name="$1" '$1 == name { print $2 }' "$VM_WORK/wire.out"
}

# wire: check the capture of all packets.
wire() {
	local status=0 rxe=(--rxe 10.88.0.1) protocol
	local shark=(tshark -n -r "$VM_WORK/lan.pcap")
	[ "$WHO" = S ] || rxe+=(--rxe 10.88.0.2)
	"$VM_TOP/$LAB_BUILD/tests/interop/wirecheck" --plain "${rxe[@]}" "$VM_WORK/lan.pcap" >"$VM_WORK/wire.out" || status=1
	grep -q '^0 packets dropped by kernel' "$VM_WORK/tcpdump" || {
		status=1
		echo "the capture is not complete" >>"$VM_WORK/wire.out"
	}
	# Protocols that tshark looks for in any SEND, and that these tools do not speak. rdma_rxe sends no UDP checksum
	# with IPv6.
	for protocol in smc smb_direct rpcordma nvme-rdma lnet iser infiniband_sdp; do
		shark+=(--disable-protocol "$protocol")
	done
	"${shark[@]}" -Y '(_ws.malformed or _ws.expert.severity >= "Error") and not (ipv6 and udp.checksum == 0)' \
		>"$VM_WORK/bad" 2>"$VM_WORK/tshark" || status=1
	[ ! -s "$VM_WORK/bad" ] || status=1
	if [ $status = 0 ]; then
		result ok wire "every packet is sound: $(value roce), of these $(value cm) of the CM and $(value reads) RDMA READs; again: $(
			value repetitions) requests, $(value cm_again) messages of the CM"
	else
		result FAIL wire "every packet is sound"
		{
			tail -n 40 "$VM_WORK/wire.out"
			head -n 20 "$VM_WORK/bad"
			tail -n 3 "$VM_WORK/tshark"
		} | sed 's/^/# /'
	fi
	[ -z "${CM_KEEP:-}" ] || cp "$VM_WORK/lan.pcap" "$CM_KEEP/cm-$WHO.pcap"
}

vm_packages+=(rdmacm-utils perftest)
vm_prepare || exit 1
lab_check || exit 1
for WHO in "${peers[@]}"; do
	echo "# $WHO"
	if lab_up R "$([ "$WHO" = S ] && echo S || echo R)"; then
		for name in "${wanted[@]}"; do cell "$name"; done
		lab_down
		wire
	else
		result FAIL boot "the two hosts are there"
		tail -n 20 "$VM_WORK"/*.console | sed 's/^/# /'
		lab_down
	fi
done
echo "1..$number"
echo "# $((number - failed)) of $number, $SECONDS s"
[ "$failed" = 0 ]
