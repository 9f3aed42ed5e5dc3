# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The kernel's SMB client and server (cifs, ksmbd) with SMB Direct; sourced after kbuild.bash. Debian builds both
# without it. So fs/smb is built once more, unchanged, with these two options on. ksmbd's program in user space is
# unpacked only, because its package cannot be installed beside Samba.

VM_SMBDIRECT=$VM_CACHE/smbdirect # RELEASE/cifs.ko, ksmbd.ko and ksmbd.tools

# smbdirect_tools DIRECTORY: fetch ksmbd-tools of this host's Debian, and unpack it there.
smbdirect_tools() {
	mkdir -p "$1" && (cd "$1" && apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 download ksmbd-tools >&2) &&
		dpkg-deb -x "$1"/ksmbd-tools_*.deb "$1"
}

smbdirect_build() {
	local dir=$1 to=$2
	echo "interop: building the kernel's SMB with SMB Direct" >&2
	kbuild_unpack "$dir" fs/smb fs/nls scripts/asn1_compiler.c && smbdirect_tools "$dir/tools" || return
	# A program of the build that Debian's linux-kbuild does not have.
	gcc-12 -O2 -w -I "$(echo "$dir"/usr/src/linux-headers-*-common)/include" \
		-o "$(echo "$dir"/usr/lib/linux-kbuild-*)/scripts/asn1_compiler" "$dir/source/scripts/asn1_compiler.c" || return
	kbuild_make "$dir" fs/smb CONFIG_CIFS_SMB_DIRECT=y CONFIG_SMB_SERVER_SMBDIRECT=y \
		KCFLAGS="-g0 -DCONFIG_CIFS_SMB_DIRECT=1 -DCONFIG_SMB_SERVER_SMBDIRECT=1" &&
		cp "$dir/source/fs/smb/client/cifs.ko" "$dir/source/fs/smb/server/ksmbd.ko" \
			"$dir/tools/usr/libexec/ksmbd.tools" "$to/"
}

# smbdirect_prepare: build the modules, unless this was done before.
smbdirect_prepare() {
	kbuild_prepare smbdirect || {
		echo "interop: no SMB Direct of the kernel" >&2
		return 1
	}
}
