# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The kernel's SMC-R on a host of the matrix, sourced after common.bash: the stock module, or the one in SMC_MODULES that
# speaks version 1 (version1.bash) and gets no UEID.

smc_tool() {
	"$TOP/$BUILD/tests/interop/smcnl" "$@"
}

# smc_insert: load the modules. The other modules that they need are loaded with rdma_rxe.
smc_insert() {
	if [ -n "$SMC_MODULES" ]; then
		insmod "$SMC_MODULES/smc.ko" && insmod "$SMC_MODULES/smc_diag.ko"
	else
		modprobe -d "$KERNEL_DIR" smc && modprobe -d "$KERNEL_DIR" smc_diag
	fi
}

# smc_up [NIC..]: load the modules and configure them; the NICs are 0 and 1 if none is named.
smc_up() {
	local n
	[ $# -gt 0 ] || set -- 0 1
	smc_insert && sysctl -qw "net.smc.smcr_testlink_time=$TEST_LINK_SECONDS" || return
	[ -n "$SMC_MODULES" ] || smc_tool ueid "$UEID" || return
	for n; do
		smc_tool pnet NETA eth "net$n" && smc_tool pnet NETA ib "rxe$n" 1 || return
	done
}

smc_down() {
	[ ! -e /sys/module/smc_diag ] || rmmod smc_diag
	rmmod smc
}
