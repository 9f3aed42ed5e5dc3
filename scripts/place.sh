#!/bin/sh
# SPDX-License-Identifier: MIT
# Directories and configuration of `make install` and `make uninstall`.
#
#   place.sh make LIST DIR..            make directories. Those that were missing, parents too, are added to the file
#                                       LIST, so that uninstall knows which directories install has made.
#   place.sh remove LIST DIR..          remove the directories of LIST and DIR.. that are empty, and LIST itself
#   place.sh conf LIST FROM TO SYSTEM   install FROM as the configuration TO, unless smcrd has one already; prints the
#                                       file that smcrd reads
#
# With - for LIST nothing is noted: a staging directory is removed as a whole.
set -eu
umask 022

# missing DIR..: print those of the directories and their parents that do not exist
missing() {
	for dir; do
		while [ -n "$dir" ] && [ ! -d "$dir" ]; do
			echo "$dir"
			dir=${dir%/*}
		done
	done | LC_ALL=C sort -u
}

make_dirs() {
	list=$1
	shift
	if [ "$list" != - ]; then
		made=$(missing "$@" "${list%/*}")
		# Note the directories before they are made, so that an interrupted installation can be removed.
		if [ -n "$made" ]; then
			mkdir -p "${list%/*}"
			echo "$made" >>"$list"
		fi
	fi
	mkdir -p "$@"
}

remove_dirs() {
	list=$1
	shift
	dirs=$(printf '%s\n' "$@")
	if [ "$list" != - ] && [ -e "$list" ]; then
		dirs="$dirs
$(cat "$list")"
		rm "$list"
	fi
	echo "$dirs" | LC_ALL=C sort -ru | while read -r dir; do # inner ones first
		if [ -d "$dir" ] && [ ! -L "$dir" ]; then rmdir --ignore-fail-on-non-empty "$dir" || true; fi
	done
}

# is_configured FILE: does smcrd find a configuration in FILE or FILE.d?
is_configured() {
	for file in "$1" "$1".d/*.conf; do
		[ ! -e "$file" ] || return 0
	done
	return 1
}

# smcrd reads SYSTEM only if TO does not exist (proto/ipc/config_file.h). So a default file at TO must not hide what an
# operator has written to SYSTEM.
lay_conf() {
	list=$1 from=$2 to=$3 system=$4
	if [ "$to" != "$system" ] && is_configured "$system"; then
		if [ -e "$to" ]; then
			echo "its configuration is $to, so $system is not read"
		else
			echo "its configuration is $system as before: no $to was made, which smcrd would read in its place"
		fi
		return
	fi
	if [ ! -e "$to" ]; then
		make_dirs "$list" "${to%/*}"
		install -m 644 "$from" "$to"
	fi
	echo "its configuration is $to"
}

what=$1
shift
case $what in
make) make_dirs "$@" ;;
remove) remove_dirs "$@" ;;
conf) lay_conf "$@" ;;
esac
