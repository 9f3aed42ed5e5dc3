# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced in a guest first. The work directory is /mnt; /mnt/env sets KERNEL_DIR, TOP (the project)
# and HOST (1 or 2).
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
# shellcheck source=/dev/null
. /mnt/env

# guest_end STATUS: leave the status for the host and switch off.
guest_end() {
	echo "$1" >/mnt/status
	sync
	echo o >/proc/sysrq-trigger
	sleep 30
}

need() {
	"$@" && return
	echo "guest: $* failed" >&2
	guest_end 99
}

# load MODULE..: kernel modules of the guest's own kernel.
load() {
	local module
	for module in "$@"; do need modprobe -d "$KERNEL_DIR" "$module"; done
}

# rxe does not say which module computes its CRC.
load crc32_generic rdma_rxe ib_uverbs
ip link set lo up
