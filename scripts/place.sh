#!/bin/sh
# SPDX-License-Identifier: MIT
# Directories and configuration of `make install` and `make uninstall`.
#
#   place.sh make LIST DIR..            make directories. The file LIST gets those that were missing, and those above
#                                       them, so that uninstall knows what is ours.
#   place.sh remove LIST DIR..          remove what LIST names and DIR.., as far as they are empty, and LIST
#   place.sh conf LIST FROM TO SYSTEM   FROM becomes the configuration TO, unless smcrd has one; prints which it reads
#
# With - for LIST nothing is noted: a staging directory goes as a whole.
set -eu
umask 022

# missing DIR..: those, and those above them, that are not there
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
		# Noted before they are made: an installation that is interrupted can be taken away as well.
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

# is_configured FILE: does smcrd find anything there, or in the directory beside it?
is_configured() {
	for file in "$1" "$1".d/*.conf; do
		[ ! -e "$file" ] || return 0
	done
	return 1
}

# smcrd reads TO, and SYSTEM only where TO is not there (proto/ipc/config_file.h). So a default of ours must not hide
# what an operator has written there.
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
