#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The hosts of the tests themselves (scripts/hosts.bash, tests/interop/vm.bash and lab.bash): whatever becomes of a test,
# nothing of them stays.
bats_require_minimum_version 1.5.0
load common

# nothing_left ID DIRECTORY PROCESS: are the namespaces, the directory and the process on a host gone?
nothing_left() {
	! ip netns list | grep -q "^$1" && [ ! -e "$2" ] && ! kill -0 "$3" 2>/dev/null
}

has_ended() {
	! kill -0 "$1" 2>/dev/null
}

# hangs_and_is_killed SCRIPT: run the script in a process group of its own. It makes hosts and a process there, tells
# them in the file $2 in a line "ID DIRECTORY PROCESS", and hangs. Kill the process group, as timeout -k does. ID,
# DIRECTORY and PROCESS get what the script has told.
hangs_and_is_killed() {
	local group
	setsid bash -c "$1"'
		while :; do sleep 1; done' - "$HOSTS_ROOT" "$BATS_TEST_TMPDIR/hosts" 3>&- &
	group=$!
	until_true 60 [ -s "$BATS_TEST_TMPDIR/hosts" ] || {
		kill -TERM "$group"
		false
	}
	read -r ID DIRECTORY PROCESS <"$BATS_TEST_TMPDIR/hosts"
	[ -e "$DIRECTORY" ]
	kill -0 "$PROCESS"
	kill -KILL -- "-$group"
}

@test "hosts whose test hangs, and is killed with its whole process group, are removed" {
	# shellcheck disable=SC2016
	hangs_and_is_killed '. "$1/scripts/hosts.bash"
		hosts_up 1500
		start_on a setsid sleep 3600 # in no group that is killed
		echo "$HOSTS_ID $HOSTS_DIR $!" >"$2"'
	[[ "$ID" == smcr* && "$DIRECTORY" == /tmp/smcr* ]]
	until_true 20 nothing_left "$ID" "$DIRECTORY" "$PROCESS" || {
		hosts_sweep "$ID" "$DIRECTORY"
		false
	}
}

@test "hosts of the matrix of kernels whose run is killed with its whole process group are removed" {
	# shellcheck disable=SC2016
	hangs_and_is_killed '. "$1/tests/interop/vm.bash"
		. "$1/tests/interop/lab.bash"
		LAB_CAPTURE=
		lab_up S S
		job_start 1 sleeper setsid -w sleep 3600 # in no group that is killed
		until_true 60 test -s "${LAB_DIR[1]}/job/sleeper.pid"
		echo "$LAB $VM_WORK $(cat "${LAB_DIR[1]}/job/sleeper.pid")" >"$2"'
	[[ "$ID" == iop* ]]
	until_true 20 nothing_left "$ID" "$DIRECTORY" "$PROCESS" || {
		guard_namespaces_gone "$ID" "$ID-host1" "$ID-host2"
		rm -rf "$DIRECTORY"
		false
	}
}

@test "a virtual machine whose script is killed with its whole process group ends, and its files are removed" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	# In place of QEMU: what counts is whose child the machine is.
	printf '#!/bin/sh\nexec setsid sleep 3600 # in no group that is killed\n' >"$BATS_TEST_TMPDIR/bin/qemu-system-x86_64"
	chmod +x "$BATS_TEST_TMPDIR/bin/qemu-system-x86_64"
	# shellcheck disable=SC2016
	PATH=$BATS_TEST_TMPDIR/bin:$PATH hangs_and_is_killed '. "$1/tests/interop/vm.bash"
		vm_boot machine rnic 1
		echo "none $VM_WORK ${VM_PIDS[0]}" >"$2"'
	until_true 20 nothing_left "$ID" "$DIRECTORY" "$PROCESS" || {
		kill -KILL "$PROCESS"
		rm -rf "$DIRECTORY"
		false
	}
}

@test "VM_KEEP keeps the files of a matrix run that has ended" {
	local guard directory
	# shellcheck disable=SC2016
	VM_KEEP=1 bash -c '. "$1/tests/interop/vm.bash"
		. "$1/tests/interop/lab.bash"
		echo "$! $VM_WORK"' - "$HOSTS_ROOT" >"$BATS_TEST_TMPDIR/told" 3>&-
	read -r guard directory <"$BATS_TEST_TMPDIR/told"
	until_true 20 has_ended "$guard"
	rmdir "$directory"
}
