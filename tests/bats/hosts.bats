#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The hosts of the tests themselves (scripts/hosts.bash): whatever becomes of a test, nothing of them stays.
bats_require_minimum_version 1.5.0
load common

# nothing_left ID DIRECTORY PROCESS: are the namespaces, the directory and the process on a host gone?
nothing_left() {
	[ ! -e "/run/netns/$1-a" ] && [ ! -e "/run/netns/$1-b" ] && [ ! -e "/run/netns/$1-sw" ] && [ ! -e "$2" ] &&
		! kill -0 "$3" 2>/dev/null
}

@test "hosts whose test hangs, and is killed with its whole process group, are removed" {
	local id directory process group
	# shellcheck disable=SC2016
	setsid bash -c '. "$1/scripts/hosts.bash"
		hosts_up 1500
		start_on a setsid sleep 3600 # in no group that is killed
		echo "$HOSTS_ID $HOSTS_DIR $!" >"$2.part" && mv "$2.part" "$2"
		while :; do sleep 1; done' - "$HOSTS_ROOT" "$BATS_TEST_TMPDIR/hosts" 3>&- &
	group=$!
	until_true 60 [ -e "$BATS_TEST_TMPDIR/hosts" ] || {
		kill -TERM "$group"
		false
	}
	read -r id directory process <"$BATS_TEST_TMPDIR/hosts"
	[[ "$id" == smcr* && "$directory" == /tmp/smcr* ]]
	kill -KILL -- "-$group" # as timeout -k
	until_true 20 nothing_left "$id" "$directory" "$process" || {
		hosts_sweep "$id" "$directory"
		false
	}
}
