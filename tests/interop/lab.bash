# shellcheck shell=bash disable=SC2016,SC2034 # scripts for other shells; VM_* are vm.bash's
# SPDX-License-Identifier: MIT
# Two hosts on one LAN, for the matrix; sourced after vm.bash. A host is of one of three kinds:
#
#   S   smcrd with software RNICs, in a network namespace of this machine
#   V   smcrd with verbs over rdma_rxe, in a virtual machine
#   K   the kernel's AF_SMC over rdma_rxe, in a virtual machine
#   R   rdma_rxe with the kernel's connection manager for user programs (rdma_ucm), in a virtual machine
#   B   for measurements (speed.sh): all of these in one virtual machine. rdma_rxe is on net0, net1 is
#       for a software RNIC, in the network namespace "soft"
#
# Hosts have the numbers 1 and 2; host N has 10.88.0.N on net0 and 10.88.0.1N on net1. They speak version LAB_VERSION of
# SMC-R. Each program on a host runs as a job with a name: a script in a directory that both sides see (guest/runner).
#
# Everything is in namespaces with random names, virtual machines too. lab_down removes all of it. If the caller is
# killed, a guard does so (scripts/guard.bash).

LAB_UEID=SMCRD.INTEROP
LAB_VERSION=2
LAB_CAPTURE=yes # empty: packets are not captured
LAB_MTU=1500
LAB_TEST_LINK_SECONDS=3
declare -gA LAB_KIND LAB_DIR LAB_PID # PID: of a virtual machine

lab_fail() {
	echo "interop: $*" >&2
	return 1
}

# lab_check: can this machine run the matrix at all?
lab_check() {
	[ "$(id -u)" = 0 ] || lab_fail "needs root: network namespaces, BPF" || return
	if [ ! -c /dev/net/tun ]; then
		mkdir -p /dev/net
		mknod -m 600 /dev/net/tun c 10 200 2>/dev/null
	fi
	ip netns add "$LAB" || lab_fail "cannot make network namespaces" || return
	ip -n "$LAB" tuntap add try mode tap ||
		lab_fail "no tap interfaces: /dev/net/tun is missing or not permitted here" || return
	ip netns del "$LAB"
	command -v qemu-system-x86_64 >/dev/null || lab_fail "qemu-system-x86_64 is not there"
}

# lab_sweep ID: end what runs on the hosts, and remove their namespaces.
lab_sweep() {
	guard_namespaces_gone "$1" "$1-host1" "$1-host2"
}

# ---- hosts

# lab_up KIND1 KIND2: make the LAN and the two hosts, and start a capture. Returns when both hosts are ready.
lab_up() {
	local n
	ip netns add "$LAB"
	ip -n "$LAB" link add br0 type bridge
	ip -n "$LAB" link set br0 mtu "$LAB_MTU" up
	for n in 1 2; do
		LAB_KIND[$n]=${!n}
		LAB_DIR[$n]=$VM_WORK/host$n
		rm -rf "${LAB_DIR[$n]}"
		mkdir -p "${LAB_DIR[$n]}"
		if [ "${!n}" = S ]; then lab_namespace $n; else lab_machine $n; fi
	done
	[ -z "$LAB_CAPTURE" ] || lab_capture
	for n in 1 2; do
		until_true 200 lab_is_ready $n || lab_fail "host $n (${LAB_KIND[$n]}) does not boot" || return
	done
	[ -z "$LAB_CAPTURE" ] || until_true 10 grep -qs 'listening on' "$VM_WORK/tcpdump"
}

lab_capture() {
	rm -f "$VM_WORK/lan.pcap"
	lab_in "$LAB" tcpdump -n -U -B 65536 -s 0 -i br0 -w "$VM_WORK/lan.pcap" \
		'tcp or udp port 4791' >/dev/null 2>"$VM_WORK/tcpdump" &
	LAB_TCPDUMP=$!
}

# lab_in NAMESPACE COMMAND..: in a subshell, become COMMAND in a namespace, without the guard's pipe.
lab_in() {
	exec ip netns exec "$@" {LAB_GUARD}>&-
}

lab_is_ready() {
	[ -e "${LAB_DIR[$1]}/ready" ]
}

# lab_namespace N: make host N in a namespace.
lab_namespace() {
	local n=$1 name=$LAB-host$1 nic HOST=$1
	# shellcheck source=tests/interop/guest/nic.bash
	. "$VM_HERE/guest/nic.bash"
	ip netns add "$name"
	ip -n "$name" link set lo up
	ip netns exec "$name" bash -c '. "$1"; nic_sysctl' - "$VM_HERE/guest/nic.bash"
	for nic in 0 1; do
		ip -n "$name" link add "net$nic" mtu "$LAB_MTU" type veth peer name "host$n$nic" mtu "$LAB_MTU" netns "$LAB"
		ip -n "$LAB" link set "host$n$nic" master br0 up
		# Without segmentation offload, so that the capture has packets as on a wire.
		ip netns exec "$name" ethtool -K "net$nic" tx-udp-segmentation off gso off tso off
		HOST=$n ip netns exec "$name" bash -c '. "$1"; nic_addresses "$2" && nic_up "$2"' - \
			"$VM_HERE/guest/nic.bash" "$nic"
	done
	mkdir "${LAB_DIR[$n]}/job"
	touch "${LAB_DIR[$n]}/ready"
}

# lab_machine N: make host N in a virtual machine.
lab_machine() {
	local n=$1 nic dir=${LAB_DIR[$1]} options=()
	for nic in 0 1; do
		ip -n "$LAB" tuntap add "host$n$nic" mode tap
		ip -n "$LAB" link set "host$n$nic" mtu "$LAB_MTU" master br0 up
		options+=(-netdev "tap,id=n$nic,ifname=host$n$nic,script=no,downscript=no"
			-device "virtio-net-pci,netdev=n$nic,mac=52:54:00:00:0$nic:0$n,romfile=,host_mtu=$LAB_MTU")
	done
	mkfifo "$dir.orders.in" "$dir.orders.out"
	cp "$VM_HERE/guest/runner" "$VM_HERE/guest/nic.bash" "$VM_HERE/guest/smc.bash" "$dir/"
	# shellcheck disable=SC2034
	VM_RUN=(lab_in "$LAB")
	VM_ENV=(KIND "${LAB_KIND[$n]}" UEID "$LAB_UEID" TEST_LINK_SECONDS "$LAB_TEST_LINK_SECONDS"
		SMC_MODULES "$([ "$LAB_VERSION" = 2 ] || echo "$VM_VERSION1/$(vm_release)")")
	vm_boot "host$n" station "$n" -serial mon:stdio -serial "pipe:$dir.orders" "${options[@]}"
	LAB_PID[$n]=${VM_PIDS[-1]}
	VM_RUN=() VM_ENV=()
}

# lab_down: end the hosts. The capture stays until the next lab_up.
lab_down() {
	local n
	for n in 1 2; do
		[ "${LAB_KIND[$n]:-S}" = S ] || ! lab_is_ready $n ||
			lab_order $n end
	done
	vm_wait 15
	# It gets packets up to a second late, and machines take longer to end.
	kill "${LAB_TCPDUMP:-}" 2>/dev/null && wait "$LAB_TCPDUMP"
	LAB_TCPDUMP=
	lab_sweep "$LAB"
	rm -f "$VM_WORK"/*.orders.*
	LAB_KIND=()
}

# lab_order HOST ORDER: give guest/station an order. The pipe is opened for reading and writing, so that this does not
# block if the machine has crashed.
lab_order() {
	echo "$2" 1<>"${LAB_DIR[$1]}.orders.in"
}

# lab_crashed HOST: was the host a virtual machine that does not run any more?
lab_crashed() {
	[ "${LAB_KIND[$1]:-}" != S ] && ! kill -0 "${LAB_PID[$1]:-}" 2>/dev/null
}

# ---- jobs

# job_start HOST NAME COMMAND..: run the command in the background as a job.
job_start() {
	local n=$1 name=$2 dir=${LAB_DIR[$1]}/job socket=/run/smcrd.sock
	shift 2
	[ "${LAB_KIND[$n]}" != S ] || socket=${LAB_DIR[$n]}/smcrd.sock
	rm -f "$dir/$name".*
	{
		printf 'export PATH=/usr/sbin:/usr/bin:/sbin:/bin SMCRD_SOCKET=%q HOST=%s\nexec' "$socket" "$n"
		printf ' %q' "$@"
		echo
	} >"$dir/$name"
	if [ "${LAB_KIND[$n]}" = S ]; then
		(lab_in "$LAB-host$n" "$VM_HERE/guest/runner" "$dir" "$name") &
	else
		lab_order "$n" "run $name"
	fi
}

job_has_ended() {
	[ -e "${LAB_DIR[$1]}/job/$2.status" ]
}

# job_wait HOST NAME SECONDS: wait for the job; returns its exit status. When the time is over, kill it and return 124.
job_wait() {
	until_true "$3" job_has_ended "$1" "$2" || {
		job_kill "$1" "$2" KILL
		echo "$2 on host $1 does not end" >>"$(job_out "$1" "$2")"
		return 124
	}
	return "$(cat "${LAB_DIR[$1]}/job/$2.status")"
}

# job_kill HOST NAME SIGNAL
job_kill() {
	[ -e "${LAB_DIR[$1]}/job/$2.pid" ] || return
	if [ "${LAB_KIND[$1]}" = S ]; then
		kill "-$3" "$(cat "${LAB_DIR[$1]}/job/$2.pid")" 2>/dev/null
	else
		lab_order "$1" "kill $2 $3"
	fi
}

job_out() {
	echo "${LAB_DIR[$1]}/job/$2.out"
}

# job_says HOST NAME REGEX: has the job printed a line that matches?
job_says() {
	grep -qs "$3" "$(job_out "$1" "$2")"
}

# job_says_or_ends HOST NAME REGEX
job_says_or_ends() {
	job_says "$@" || job_has_ended "$1" "$2"
}

# on HOST COMMAND..: run a command to its end, at most 60 s, and print its output.
on() {
	local n=$1 name status=0
	shift
	LAB_COUNT=$((${LAB_COUNT:-0} + 1))
	name=on$LAB_COUNT.$BASHPID
	job_start "$n" "$name" "$@"
	job_wait "$n" "$name" 60 || status=$?
	cat "$(job_out "$n" "$name")"
	rm -f "${LAB_DIR[$n]}/job/$name" "${LAB_DIR[$n]}/job/$name".*
	return "$status"
}

# until_true SECONDS COMMAND..: repeat the command until it succeeds; fails when the time is over.
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# ---- smcrd and views

has_smcrd() {
	[ "${LAB_KIND[$1]}" != K ]
}

# daemon_start HOST [LINE..]: start smcrd, on a host that has one, with these additional lines in its configuration;
# returns when it answers.
daemon_start() {
	local n=$1 dir=${LAB_DIR[$1]} conf socket=/run/smcrd.sock options=()
	has_smcrd "$n" || return 0
	shift
	conf=/mnt/smcrd.conf
	if [ "${LAB_KIND[$n]}" = S ]; then
		conf=$dir/smcrd.conf socket=$dir/smcrd.sock
		options=(--rnic soft:net0 --rnic soft:net1)
	fi
	{
		[[ $LAB_VERSION = 1 || $* = *ueid* ]] || echo "ueid = $LAB_UEID"
		[ $# = 0 ] || printf '%s\n' "$@"
		# The side that tests a link first shows the other side that the link works. That side should be the kernel.
		[ "${LAB_KIND[$((3 - n))]}" = K ] ||
			echo "test_link_interval_seconds = $LAB_TEST_LINK_SECONDS"
		# An emulated machine may not serve one of its devices for more than 300 ms, on a busy host for seconds.
		echo "link_timeout_milliseconds = 4000"
		# A failed handshake should not make the next cell fail too.
		echo "skip_seconds = 1"
		# Cells with many short connections need them on SMC-R.
		echo "short_connection_rate = 0"
	} >"$dir/smcrd.conf"
	job_start "$n" smcrd "$VM_TOP/$LAB_BUILD/bin/smcrd" --foreground --config "$conf" \
		--socket "$socket" "${options[@]}"
	until_true 30 daemon_answers_or_ended "$n"
	daemon_answers "$n"
}

daemon_answers_or_ended() {
	daemon_answers "$1" || job_has_ended "$1" smcrd
}

daemon_answers() {
	on "$1" "$VM_TOP/$LAB_BUILD/bin/smcrctl" info >/dev/null 2>&1
}

# daemon_stop HOST [SIGNAL]: stop smcrd; returns its exit status.
daemon_stop() {
	has_smcrd "$1" || return 0
	job_kill "$1" smcrd "${2:-TERM}"
	job_wait "$1" smcrd 30
}

smcrctl_on() {
	local n=$1
	shift
	on "$n" "$VM_TOP/$LAB_BUILD/bin/smcrctl" "$@"
}

# view HOST: print {"linkgroup": [..], "link": [..]}, from smcrctl or the kernel's netlink.
view() {
	local ctl=$VM_TOP/$LAB_BUILD/bin/smcrctl
	if has_smcrd "$1"; then
		on "$1" bash -c "$ctl -j linkgroup && $ctl -j link" | jq -s add
	else
		on "$1" "$VM_TOP/$LAB_BUILD/tests/interop/smcnl" show
	fi
}

# views HOST JQ-OPTIONS..: is the jq filter true for the host's view?
views() {
	local n=$1
	shift
	view "$n" 2>/dev/null | jq -e "$@" >/dev/null 2>&1
}

LAB=iop$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
LAB_BUILD=${VM_BUILD:-build}
guard_start LAB_GUARD lab_sweep lab_sweep "$LAB"
trap 'lab_down >/dev/null 2>&1; vm_cleanup' EXIT
