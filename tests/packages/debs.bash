# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The packages of build/deb, and packages of a next version made from them.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
VERSION=$(sed -n 's/^VERSION := //p' "$ROOT/Makefile")

# deb NAME: print the package's file
deb() {
	echo "$ROOT"/build/deb/"$1"_"$VERSION"_*.deb
}

# newer NAME [DIR]: make the package's next version, with another unit file and configuration
newer() {
	local dir=${2:-${BATS_TEST_TMPDIR:-}}
	local tree=$dir/$1
	dpkg-deb -R "$(deb "$1")" "$tree"
	sed -i "s/^Version: .*/&+next/; s/(= $VERSION)/(= $VERSION+next)/" "$tree/DEBIAN/control"
	if [ "$1" = smcrd ]; then
		echo '# next' >>"$tree/lib/systemd/system/smcrd.service"
		echo '# next' >>"$tree/etc/smcrd/smcrd.conf"
	fi
	dpkg-deb -b "$tree" "$dir/$1_next.deb" >/dev/null
	echo "$dir/$1_next.deb"
}
