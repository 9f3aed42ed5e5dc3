#!/bin/sh
# SPDX-License-Identifier: MIT
# Pack the sources into FILE (build/smcrd-VERSION.tar.gz); called by `make dist` and scripts/deb.sh. The same sources
# give the same bytes.
#
# Files that git knows are packed, or in an unpacked archive those of its MANIFEST, and no others. All files get the
# time SOURCE_DATE_EPOCH, or that of the last entry of debian/changelog.
set -eu
cd "$(dirname "$0")/.."

version=$(sed -n 's/^VERSION := //p' Makefile)
file=${1:-build/smcrd-$version.tar.gz}

fail() {
	echo "dist: $*" >&2
	exit 1
}

# git_here: git, without its check of who owns the directory. The user has run make here and so trusts it.
git_here() {
	git -c safe.directory="$PWD" "$@"
}

# tell_others: warn about files that are not packed because nobody has added them to git
tell_others() {
	others=$(git_here -c core.quotePath=false ls-files --others --exclude-standard | grep -vx MANIFEST | paste -sd ' ')
	[ -z "$others" ] || echo "dist: not packed, because git does not know them: $others" | cut -c 1-300 >&2
}

# members: print the names of the files to pack, a line each
members() {
	if [ -e .git ]; then
		command -v git >/dev/null || fail "this is a clone, and git is not installed: install git"
		git_here -c core.quotePath=false ls-files >"$work/git" || fail "git does not tell which files are the sources"
		tell_others
		grep -vx MANIFEST "$work/git" || fail "git knows no file here"
	elif [ -e MANIFEST ]; then
		cat MANIFEST
	else
		fail "neither .git nor MANIFEST is here to tell which files are the sources: take a clone, or what make dist has packed"
	fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
members >"$work/names"
LC_ALL=C sort "$work/names" >"$work/MANIFEST"
time=${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' debian/changelog | head -n 1)" +%s)}

mkdir -p "$(dirname "$file")"
tar -c --format=gnu --mtime="@$time" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
	--transform="s|^|smcrd-$version/|SH" --no-recursion \
	-C "$work" MANIFEST -C "$PWD" --verbatim-files-from -T "$work/MANIFEST" >"$work/tar"
gzip -9n <"$work/tar" >"$work/tar.gz"
mv "$work/tar.gz" "$file"
