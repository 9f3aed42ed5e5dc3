# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The packages of build/deb, and what the next version of them would be.

ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
VERSION=$(sed -n 's/^VERSION := //p' "$ROOT/Makefile")

# deb NAME: its file
deb() {
	echo "$ROOT"/build/deb/"$1"_"$VERSION"_*.deb
}

# newer NAME: the package once more, as its next version, with another unit file and configuration
newer() {
	local tree=$BATS_TEST_TMPDIR/$1
	dpkg-deb -R "$(deb "$1")" "$tree"
	sed -i "s/^Version: .*/&+next/; s/(= $VERSION)/(= $VERSION+next)/" "$tree/DEBIAN/control"
	if [ "$1" = smcrd ]; then
		echo '# next' >>"$tree/lib/systemd/system/smcrd.service"
		echo '# next' >>"$tree/etc/smcrd/smcrd.conf"
	fi
	dpkg-deb -b "$tree" "$BATS_TEST_TMPDIR/$1_next.deb" >/dev/null
	echo "$BATS_TEST_TMPDIR/$1_next.deb"
}
