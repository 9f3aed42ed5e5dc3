#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetch and build the tests that a program's Debian source has, for a program whose file sets SOURCE.
# usage: source.bash PROGRAM DIRECTORY
#
#   SOURCE    an installed package; its source comes from Debian, in the same version if it is there
#   build()   run in the directory of the source, with the package installed
#
# The source is unpacked in DIRECTORY/tree, and what was downloaded is kept. apt's lists for it are in DIRECTORY too, so
# that the machine's package sources stay as they are. Does nothing if everything is there and the program's file is no
# newer.
set -euo pipefail
program=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
file=$PWD/tests/compat/programs/$program.bash

# shellcheck source=/dev/null
. "$file"
# shellcheck disable=SC2016 # dpkg-query expands
read -r name version < <(dpkg-query -W -f '${source:Package} ${source:Version}\n' "${SOURCE:?}")
built=$dir/built-$version
[ ! "$built" -nt "$file" ] || exit 0

# debian_sources: print where the machine has Debian's packages from, as places of sources. The main archive is first:
# the security archive still lists versions that are only in the main one.
debian_sources() {
	# shellcheck disable=SC2016 # apt-get expands
	apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 'Origin: Debian' 'Component: main' | awk '!seen[$0]++'
}

# fetch: download the source to $dir/archives
fetch() {
	local list lists apt try
	list=$(debian_sources)
	if [ -z "$list" ]; then # nobody has fetched the machine's lists yet
		apt-get -qq -o Acquire::Retries=3 update
		list=$(debian_sources)
	fi
	[ -n "$list" ] || {
		echo "compat: $program needs the source of $name, and apt knows no Debian archive here" >&2
		return 1
	}
	rm -rf "$dir"
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial" "$dir/archives"
	printf '%s\n' "$list" >"$dir/apt/sources.list"
	lists=(-o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt")
	apt=(apt-get -qq "${lists[@]}" -o Acquire::Retries=3 -o APT::Sandbox::User=root)
	"${apt[@]}" update
	cd "$dir/archives"
	# The archive may not have the source of a version that was replaced, or may list versions whose files are gone. The
	# tests of another version of the same release are nearly the same.
	while read -r try; do
		rm -f ./*.dsc
		! "${apt[@]}" source --download-only "$name=$try" </dev/null || break
		try=
	done < <(echo "$version" && apt-cache "${lists[@]}" showsrc --only-source "$name" | sed -n 's/^Version: //p')
	[ -n "$try" ] || {
		echo "compat: Debian's archive has no source of $name" >&2
		return 1
	}
	rm -rf "$dir/apt"
	touch "$dir/fetched-$version"
}

[ -e "$dir/fetched-$version" ] || fetch
rm -rf "$dir/tree" "$built"
dpkg-source -q --no-check --no-copy -x "$dir"/archives/*.dsc "$dir/tree"
cd "$dir/tree"
build
touch "$built"
