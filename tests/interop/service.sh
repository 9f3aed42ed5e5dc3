#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The service of the packages in build/deb, in a virtual machine whose first process is systemd; guest/service has the
# checks. `make check-deb-vm`. Prints TAP.
set -uo pipefail
# shellcheck source=tests/interop/vm.bash
. "$(dirname "${BASH_SOURCE[0]}")/vm.bash"
# shellcheck source=tests/packages/debs.bash
. "$VM_TOP/tests/packages/debs.bash"

# packages DIR: put the packages as they were built, and their next version, into DIR
packages() {
	local name
	mkdir -p "$1" "$VM_WORK/next"
	for name in smcrd smcr-run; do
		cp "$(deb "$name")" "$1/$name.deb" && cp "$(newer "$name" "$VM_WORK/next")" "$1/$name-next.deb" || return
	done
}

# Has systemd switched the machine off, after stopping the service?
stopped_in_order() {
	grep -q 'Stopped .*smcrd\.service' "$VM_WORK/service.console" && grep -q 'reboot: Power down' "$VM_WORK/service.console"
}

vm_prepare || exit 1
packages "$VM_WORK/service/debs" || {
	echo "interop: no packages in build/deb: make deb" >&2
	exit 1
}
cp "$VM_HERE/guest/service" "$VM_WORK/service/"
# shellcheck disable=SC2034 # vm_boot
VM_ENV=(MOVE_ROOT yes NO_RXE yes)
vm_boot service service-boot 1
vm_wait "${SERVICE_SECONDS:-900}"
cat "$VM_WORK/service/tap" 2>/dev/null
status=$(vm_status service)
if [ "$status" = 0 ] && ! stopped_in_order; then
	echo "interop: the machine was not switched off in order" >&2
	status=1
fi
if [ "$status" != 0 ]; then
	{
		echo "guest: status $status"
		tail -n 100 "$VM_WORK/service/log"
		tail -n 60 "$VM_WORK/service/journal"
		tail -n 60 "$VM_WORK/service.console"
	} >&2
	exit 1
fi
