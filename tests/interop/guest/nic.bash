# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The NICs of a host of the matrix, net0 and net1, both in one subnet, and IPv6 on the first; HOST is its number.

nic_address() {
	echo "10.88.0.$(($1 * 10 + HOST))"
}

# nic_addresses N: set the addresses of net N. Whatever goes down and comes back, packets to the LAN prefer net0.
nic_addresses() {
	ip addr add "$(nic_address "$1")/24" metric $((100 + $1)) dev "net$1" || return
	[ "$1" != 0 ] || ip addr add "fd88::$HOST/64" nodad dev net0
}

# Each NIC answers ARP for its own address only. An IPv6 address stays when its interface goes down.
nic_sysctl() {
	sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1 net.ipv6.conf.default.keep_addr_on_down=1
	sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
		net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
}

# nic_up N: set net N up, and its routes again, which disappear when an interface goes down: packets from its address
# leave by it.
nic_up() {
	local table=$((100 + $1))
	ip link set "net$1" up &&
		ip route replace 10.88.0.0/24 dev "net$1" src "$(nic_address "$1")" table "$table" ||
		return
	ip rule show | grep -q "lookup $table" ||
		ip rule add from "$(nic_address "$1")" table "$table"
}
