#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build Debian packages from the archive of scripts/dist.sh, in build/deb; called by `make deb`. Needs neither root nor
# network.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/build/deb
version=$(sed -n 's/^VERSION := //p' Makefile)
packaged=$(dpkg-parsechangelog -S Version)
if [ "$packaged" != "$version" ]; then
	echo "deb: debian/changelog has version $packaged, the Makefile $version: add an entry to the changelog" >&2
	exit 1
fi

# dpkg-buildpackage puts packages beside the directory in which it builds.
tree=$out/smcrd-$version
rm -rf "$out"
mkdir -p "$out"
scripts/dist.sh "$tree.tar.gz"
tar -xz --no-same-owner -C "$out" -f "$tree.tar.gz"
rm "$tree.tar.gz"

# The flags and goals of the make that called must not reach this build; debhelper sets its own.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CFLAGS CPPFLAGS LDFLAGS
log=$out/build.log
if ! (cd "$tree" && dpkg-buildpackage --build=binary --no-sign) >"$log" 2>&1; then
	tail -n 40 "$log" >&2
	echo "deb: dpkg-buildpackage has failed; all that it said is in ${log#"$PWD"/}" >&2
	exit 1
fi
rm -r "$tree"
echo "packages of smcrd $version, in build/deb:"
cd "$out" && ls -- *.deb
