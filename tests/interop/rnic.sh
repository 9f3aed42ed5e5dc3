#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The RNIC tests on the kernel's rdma_rxe, through libibverbs, in a virtual machine. Prints TAP.
set -uo pipefail
# shellcheck source=tests/interop/vm.bash
. "$(dirname "${BASH_SOURCE[0]}")/vm.bash"
vm_prepare || exit 1
vm_boot rnic rnic 1
vm_wait 300
cat "$VM_WORK/rnic/tap" 2>/dev/null
status=$(vm_status rnic)
if [ "$status" != 0 ]; then
	{
		echo "guest: status $status"
		cat "$VM_WORK/rnic/err"
		tail -n 40 "$VM_WORK/rnic.console"
	} >&2
	exit 1
fi
