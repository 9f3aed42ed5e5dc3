# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Modules of the guests' kernel built once more, from Debian's packages of the same kernel; sourced after vm.bash. The
# packages are large (170 MB), the modules small. Only the modules stay in the cache.

kbuild_packages=(gcc-12 make libelf1 python3 xz-utils)

# kbuild_fetch RELEASE: fetch headers and source of the kernel that the guests run.
kbuild_fetch() {
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

# kbuild_unpack DIRECTORY PATH..: unpack the headers below usr, and these paths of the source below source.
kbuild_unpack() {
	local dir=$1 deb
	shift
	mkdir -p "$dir/source"
	for deb in "$VM_CACHE"/apt/linux-{headers,kbuild}-*.deb; do dpkg-deb -x "$deb" "$dir" || return; done
	# The packages refer to each other by their installed paths.
	sed -i "s#/usr/src/#$dir/usr/src/#" "$dir"/usr/src/linux-headers-*-amd64/Makefile || return
	dpkg-deb --fsys-tarfile "$VM_CACHE"/apt/linux-source-*.deb | tar -xO --wildcards '*.tar.xz' | xz -dc -T0 |
		tar -x -C "$dir/source" --strip-components=1 --wildcards "${@/#/*/}"
}

# kbuild_make DIRECTORY PATH VARIABLE=VALUE..: build the modules below PATH of the source with Debian's configuration but
# for these variables, and without debugging information.
kbuild_make() {
	local dir=$1 path=$2
	shift 2
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL nice make -s -j"$(nproc)" -C "$dir/usr/src/linux-headers-$(vm_release)" \
		M="$dir/source/$path" CC=gcc-12 CONFIG_DEBUG_INFO_BTF_MODULES= "$@" modules >&2
}

# kbuild_prepare NAME: have the modules of that name in $VM_CACHE/NAME/RELEASE. Unless they are there, call NAME_build
# DIRECTORY TO, with everything fetched, to put them there.
kbuild_prepare() {
	local name=$1 dir=$VM_CACHE/$1.build release to
	release=$(vm_release)
	to=$VM_CACHE/$name/$release
	(
		flock 9
		[ ! -e "$to/complete" ] || exit 0
		rm -rf "$dir" "$to"
		mkdir -p "$to"
		vm_install "${kbuild_packages[@]}" && kbuild_fetch "$release" && "${name}_build" "$dir" "$to" &&
			rm -rf "$dir" "$VM_CACHE/apt" && touch "$to/complete"
	) 9>"$VM_CACHE/lock"
}
