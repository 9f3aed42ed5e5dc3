# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The kernel's SMC-R in version 1, that of RFC 7609; sourced after vm.bash. The stock kernel needs RoCEv1 GIDs for it,
# which rdma_rxe does not have. So net/smc is built once more from Debian's packages of the same kernel, with one check
# relaxed: an IPv4 RoCEv2 GID is accepted too. Everything else is unchanged. Peers without a common UEID speak version 1.
#
# The packages are large (170 MB), the modules small (3 MB). Only the modules stay in the cache.

VM_VERSION1=$VM_CACHE/version1 # RELEASE/smc.ko and smc_diag.ko

version1_packages=(gcc-12 make libelf1 python3 xz-utils)

# version1_fetch: fetch headers and source of the kernel that the guests run.
version1_fetch() {
	local release=$1 kernel=${1%-amd64} version
	vm_apt_lists || return
	version=$(apt-cache "${VM_APT[@]}" show "linux-image-$release" | sed -n 's/^Version: //p' | head -n 1)
	if [ -z "$version" ]; then
		echo "interop: the archive has gone on from $release: remove $VM_KERNEL, and a newer one is fetched" >&2
		return 1
	fi
	vm_download "linux-source-${release%%.*}.$(cut -d . -f 2 <<<"$release")=$version" \
		"linux-headers-$release=$version" "linux-headers-$kernel-common=$version" \
		"linux-kbuild-$kernel=$version"
}

# version1_unpack DIRECTORY: unpack the headers below usr, and net/smc below source.
version1_unpack() {
	local deb
	mkdir -p "$1/source"
	for deb in "$VM_CACHE"/apt/linux-{headers,kbuild}-*.deb; do dpkg-deb -x "$deb" "$1" || return; done
	# The packages refer to each other by their installed paths.
	sed -i "s#/usr/src/#$1/usr/src/#" "$1"/usr/src/linux-headers-*-amd64/Makefile || return
	dpkg-deb --fsys-tarfile "$VM_CACHE"/apt/linux-source-*.deb | tar -xO --wildcards '*.tar.xz' | xz -dc -T0 |
		tar -x -C "$1/source" --strip-components=1 --wildcards '*/net/smc'
}

# version1_open FILE: wherever version 1 requires a RoCEv1 GID, accept a RoCEv2 GID with an IPv4 address too.
version1_open() {
	python3 - "$1" <<-'EOF'
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
	EOF
}

# version1_build: build the modules in $VM_VERSION1/RELEASE.
version1_build() {
	local release dir=$VM_CACHE/version1.build to
	release=$(vm_release)
	to=$VM_VERSION1/$release
	[ ! -e "$to/complete" ] || return 0
	echo "interop: building the kernel's SMC-R for version 1" >&2
	rm -rf "$dir" "$to"
	vm_install "${version1_packages[@]}" && version1_fetch "$release" && version1_unpack "$dir" &&
		version1_open "$dir/source/net/smc/smc_ib.c" || return
	# With Debian's configuration, but only SMC-R, and without debugging information.
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL nice make -s -j"$(nproc)" -C "$dir/usr/src/linux-headers-$release" \
		M="$dir/source/net/smc" CC=gcc-12 KCFLAGS=-g0 CONFIG_SMC=m CONFIG_SMC_DIAG=m CONFIG_SMC_LO= CONFIG_SMC_HS_CTRL_BPF= \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2 || return
	mkdir -p "$to" && cp "$dir"/source/net/smc/smc{,_diag}.ko "$to/" && touch "$to/complete"
	rm -rf "$dir" "$VM_CACHE/apt"
}

# version1_prepare: do all of this, unless it was done before.
version1_prepare() {
	(
		flock 9
		version1_build || {
			echo "interop: no version 1 of the kernel's SMC-R" >&2
			exit 1
		}
	) 9>"$VM_CACHE/lock"
}
