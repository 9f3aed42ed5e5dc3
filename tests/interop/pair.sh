#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# smcrd to smcrd over verbs on the kernel's rdma_rxe: two virtual machines on one LAN. Prints TAP.
set -uo pipefail
# shellcheck source=tests/interop/vm.bash
. "$(dirname "${BASH_SOURCE[0]}")/vm.bash"
vm_prepare || exit 1

# lan HOST: QEMU's options for two NICs and the wire to the other machine on one hub.
lan() {
	local host=$1 end=server=on,addr.type=unix,addr.path=$VM_WORK/wire
	[ "$host" = 1 ] || end=addr.type=unix,addr.path=$VM_WORK/wire
	options=(-netdev "stream,id=wire,$end" -netdev "hubport,id=port,hubid=0,netdev=wire")
	for nic in 0 1; do
		options+=(-netdev "hubport,id=n$nic,hubid=0"
			-device "virtio-net-pci,netdev=n$nic,mac=52:54:00:00:0$nic:0$host,romfile=")
	done
}

wire_is_there() {
	for _ in {1..50}; do
		[ ! -S "$VM_WORK/wire" ] || return 0
		sleep 0.1
	done
	return 1
}

options=()
lan 1
vm_boot server pair 1 "${options[@]}"
wire_is_there || exit 1
lan 2
vm_boot client pair 2 "${options[@]}"
vm_wait_for client 300
touch "$VM_WORK/server/stop"
vm_wait 60
cat "$VM_WORK/client/tap" 2>/dev/null
if [ "$(vm_status client)" != 0 ] || [ "$(vm_status server)" != 0 ]; then
	{
		echo "status: client $(vm_status client), server $(vm_status server)"
		for host in client server; do
			head -n 60 "$VM_WORK/$host"/*.log "$VM_WORK/$host.console"
		done
	} >&2
	exit 1
fi
