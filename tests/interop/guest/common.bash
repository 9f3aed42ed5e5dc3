# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The first file that is sourced in a guest. The work directory is /mnt; /mnt/env sets KERNEL_DIR, TOP (the project)
# and HOST (1 or 2).
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
# shellcheck source=/dev/null
. /mnt/env

# guest_end STATUS: write the status for the host and switch off.
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

# until_true SECONDS COMMAND..: repeat the command until it succeeds; fails when the time is over.
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

test_number=0
# check TITLE COMMAND..: run the command as a test, and print its line of TAP.
check() {
	local title=$1
	shift
	test_number=$((test_number + 1))
	if "$@"; then
		echo "ok $test_number - $title"
	else
		echo "not ok $test_number - $title"
	fi >>/mnt/tap
}

# rxe does not name the module that computes its CRC, so load that too. rxe takes the UDP port that software RNICs need;
# guests that use these set NO_RXE.
[ -n "${NO_RXE:-}" ] || load crc32_generic rdma_rxe ib_uverbs
ip link set lo up
