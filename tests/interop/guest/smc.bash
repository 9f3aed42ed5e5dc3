# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The kernel's SMC-R on a host of the matrix, sourced after common.bash: the stock one, or in SMC_MODULES one that speaks
# version 1 (version1.bash), which gets no UEID.

smc_tool() {
	"$TOP/$BUILD/tests/interop/smcnl" "$@"
}

# smc_insert: the modules; what they need of others is there with rdma_rxe.
smc_insert() {
	if [ -n "$SMC_MODULES" ]; then
		insmod "$SMC_MODULES/smc.ko" && insmod "$SMC_MODULES/smc_diag.ko"
	else
		modprobe -d "$KERNEL_DIR" smc && modprobe -d "$KERNEL_DIR" smc_diag
	fi
}

# smc_up [NIC..]: the modules, and what they have to know; the NICs are 0 and 1 if none is named.
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
