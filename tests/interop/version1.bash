# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The kernel's SMC-R in version 1, that of RFC 7609; sourced after kbuild.bash. The stock kernel needs RoCEv1 GIDs for
# it, which rdma_rxe does not have. So net/smc is built once more, with one check relaxed: an IPv4 RoCEv2 GID is accepted
# too. Everything else is unchanged. Peers without a common UEID speak version 1.

VM_VERSION1=$VM_CACHE/version1 # RELEASE/smc.ko and smc_diag.ko

# version1_open FILE: wherever version 1 requires a RoCEv1 GID, accept a RoCEv2 GID with an IPv4 address too.
version1_open() {
	python3 - "$1" <<-'PYTHON'
	import re, sys
	path = sys.argv[1]
	text = open(path).read()
	opened = """(attr->gid_type == IB_GID_TYPE_ROCE ||
	    (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
	     ipv6_addr_v4mapped((const struct in6_addr *)&attr->gid)))"""
	text, places = re.subn(r"attr->gid_type == IB_GID_TYPE_ROCE\b", opened, text)
	if places != 2:
	    sys.exit(f"interop: {path} asks {places} times for a GID of RoCEv1, and not twice: look what this kernel does")
	open(path, "w").write("#include <net/ipv6.h>\n" + text)
	PYTHON
}

version1_build() {
	local dir=$1 to=$2
	echo "interop: building the kernel's SMC-R for version 1" >&2
	kbuild_unpack "$dir" net/smc && version1_open "$dir/source/net/smc/smc_ib.c" &&
		kbuild_make "$dir" net/smc KCFLAGS=-g0 CONFIG_SMC=m CONFIG_SMC_DIAG=m CONFIG_SMC_LO= CONFIG_SMC_HS_CTRL_BPF= &&
		cp "$dir"/source/net/smc/smc{,_diag}.ko "$to/"
}

# version1_prepare: build the modules, unless this was done before.
version1_prepare() {
	kbuild_prepare version1 || {
		echo "interop: no version 1 of the kernel's SMC-R" >&2
		return 1
	}
}
