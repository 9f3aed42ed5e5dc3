# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Two hosts, a and b, as network namespaces with two NICs each on one bridge (in a third namespace):
#
#   a: eth0 10.77.0.1/24, eth1 10.77.0.11/24      b: eth0 10.77.0.2/24, eth1 10.77.0.12/24
#
# A third one, c, with eth0 10.77.0.3/24 and eth1 10.77.0.13/24, joins them by `hosts_join c 3`.
#
# Sourced by the demo, the benchmark and the bats tests. Everything is in namespaces with random names and in one
# directory. hosts_down removes all of it. If the caller is killed, a guard does so (guard.bash).

HOSTS_ROOT=${HOSTS_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
HOSTS_BUILD=${HOSTS_BUILD:-$HOSTS_ROOT/build}

# shellcheck source=scripts/guard.bash
. "$(dirname "${BASH_SOURCE[0]}")/guard.bash"

# hosts_up [MTU]: make the hosts; sets HOSTS_DIR and HOSTS_ID.
hosts_up() {
	local mtu=${1:-1500}
	HOSTS_ID=smcr$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
	HOSTS_DIR=$(mktemp -d "/tmp/$HOSTS_ID-XXXXXX")
	guard_start HOSTS_GUARD "hosts_sweep hosts_disk_gone" hosts_sweep "$HOSTS_ID" "$HOSTS_DIR"
	ip netns add "$HOSTS_ID-sw"
	ip -n "$HOSTS_ID-sw" link add br0 type bridge
	ip -n "$HOSTS_ID-sw" link set br0 mtu "$mtu" up
	hosts_join a 1 "$mtu"
	hosts_join b 2 "$mtu"
}

# hosts_join HOST NUMBER [MTU]: add a host whose addresses end in NUMBER.
hosts_join() {
	local host=$1 n=$2 mtu=${3:-1500} nic
	ip netns add "$HOSTS_ID-$host"
	ip -n "$HOSTS_ID-$host" link set lo up
	for nic in 0 1; do
		ip -n "$HOSTS_ID-$host" link add "eth$nic" mtu "$mtu" type veth \
			peer name "$host$nic" mtu "$mtu" netns "$HOSTS_ID-sw"
		ip -n "$HOSTS_ID-sw" link set "$host$nic" master br0 up
		ip -n "$HOSTS_ID-$host" addr add "10.77.0.$((nic * 10 + n))/24" dev "eth$nic"
		ip -n "$HOSTS_ID-$host" link set "eth$nic" up
	done
}

# hosts_sweep ID DIR: end the processes in the namespaces of ID, remove the namespaces and DIR.
hosts_sweep() {
	local dir=$2 files=("/run/netns/$1"-*)
	guard_namespaces_gone "${files[@]##*/}"
	hosts_disk_gone "$dir"
	rm -rf "$dir"
}

# hosts_down: remove the hosts.
hosts_down() {
	[ -n "${HOSTS_ID:-}" ] || return 0
	# The shell's messages about jobs that are killed here are discarded.
	{
		hosts_sweep "$HOSTS_ID" "$HOSTS_DIR"
		exec {HOSTS_GUARD}>&-
		wait
	} 2>/dev/null
	HOSTS_ID=
}

# hosts_disk OPTIONS: make $HOSTS_DIR/disk, a small file system in memory with these options of mount(8).
hosts_disk() {
	mkdir -p "$HOSTS_DIR/disk"
	mount -t tmpfs -o "$1" tmpfs "$HOSTS_DIR/disk"
}

# hosts_disk_gone [DIR]: remove it, if it is there, even if a process uses it.
hosts_disk_gone() {
	local disk=${1:-$HOSTS_DIR}/disk
	! mountpoint -q "$disk" || umount --lazy "$disk"
	rm -rf "$disk"
}

# hosts_exec HOST COMMAND..: in a subshell, become COMMAND on a host. COMMAND must not inherit the guard's pipe: the
# guard waits for the end of the caller, not of programs that it started.
hosts_exec() {
	local host=$1
	shift
	exec ip netns exec "$HOSTS_ID-$host" env SMCRD_SOCKET="$HOSTS_DIR/$host.sock" "$@" \
		{HOSTS_GUARD}>&- 3>&-
}

# on HOST COMMAND..: run a command on host a, b or c (or sw, the bridge's namespace).
on() {
	(hosts_exec "$@")
}

# start_on HOST COMMAND..: the same in the background; $! is the process of the command.
start_on() {
	hosts_exec "$@" &
}

# until_true SECONDS COMMAND..: repeat the command until it succeeds; fails after HOSTS_PATIENCE times SECONDS.
# SECONDS are for a machine with nothing else to do.
until_true() {
	local end=$((SECONDS + $1 * ${HOSTS_PATIENCE:-1}))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

# arp_own_only HOST: each NIC answers ARP for its own address only. Both NICs are in one LAN and subnet, so by
# default either answers for both addresses.
arp_own_only() {
	on "$1" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
}

smcrctl_on() {
	local host=$1
	shift
	on "$host" "$HOSTS_BUILD/bin/smcrctl" "$@"
}

# answers HOST: does smcrd on that host answer?
answers() {
	smcrctl_on "$1" info >/dev/null 2>&1
}

answers_or_ended() {
	answers "$1" || ! kill -0 "$2" 2>/dev/null
}

# smcrd_start HOST [OPTIONS..]: start the daemon on a host and wait until it answers. Its process id
# goes to SMCRD_PID_HOST, its log to $HOSTS_DIR/HOST.log. The program is $SMCRD if set, else build/bin/smcrd.
smcrd_start() {
	local host=$1 pid
	shift
	# Use a configuration file for this host, so that the machine's file has no effect.
	[ -e "$HOSTS_DIR/$host.conf" ] || : >"$HOSTS_DIR/$host.conf"
	start_on "$host" "${SMCRD:-$HOSTS_BUILD/bin/smcrd}" --foreground --config "$HOSTS_DIR/$host.conf" \
		--socket "$HOSTS_DIR/$host.sock" "$@" >>"$HOSTS_DIR/$host.log" 2>&1
	pid=$!
	printf -v "SMCRD_PID_$host" %s "$pid"
	if ! until_true 10 answers_or_ended "$host" "$pid" || ! answers "$host"; then
		echo "smcrd on host $host does not answer:" >&2
		cat "$HOSTS_DIR/$host.log" >&2
		return 1
	fi
}

# tcp_listens HOST PORT: does a program listen on that port?
tcp_listens() {
	[ -n "$(on "$1" ss -Hltn "sport = :$2")" ]
}
