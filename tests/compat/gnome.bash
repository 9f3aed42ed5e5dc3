# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Installed tests of GNOME's libraries: unmodified, from Debian's packages. Each test's outcome is a result.

# gnome_says FILE: print a line of NAME, a tab and ok, not ok or skip for each test of a log. The log has "== PROGRAM"
# before the output of each program, lines "ok 3 /name/of/test" or "not ok 3 ..", "# SKIP why" behind some, and
# "== status N" at its end.
gnome_says() {
	awk '/^== status / { print program " status\t" $3; next }
		/^== / { program = $2; next }
		match($0, /^(not )?ok [0-9]+ /) {
			kind = /^not/ ? "not ok" : / # (SKIP|TODO)/ ? "skip" : "ok"
			name = substr($0, RLENGTH + 1)
			sub(/ # .*/, "", name)
			print program " " name "\t" kind
		}' "$1"
}

# gnome_is_stuck PID: does a server's thread of the test program, which timeout PID runs, wait for a mutex?
gnome_is_stuck() {
	local program='' task name place
	read -r program </proc/"$1"/task/"$1"/children
	for task in /proc/"$program"/task/*; do
		read -r name <"$task/comm"
		read -r place <"$task/wchan"
		[[ "$name" != server_thread || "$place" != *futex* ]] || return 0
	done
	return 1
} 2>/dev/null

# gnome_run PROGRAM..: run a test program; its output is in program.log. The status is 124 if it does not end.
# libsoup's test-utils have a race, with TCP too: add_listener_in_thread() locks a mutex which is on the stack of a
# function that may have returned. If the mutex is taken to be locked, nobody serves the client. So such a run is made
# again.
gnome_run() {
	local attempt looks pid
	for attempt in 1 2 3; do
		timeout -k 5 200 "$@" </dev/null >program.log 2>&1 &
		pid=$!
		for ((looks = 0; looks < 50; looks++)); do
			kill -0 "$pid" 2>/dev/null || break 2
			gnome_is_stuck "$pid" || looks=0
			sleep 0.2
		done
		echo "attempt $attempt: a thread waits for a mutex that is gone" >&2
		kill "$pid"
		wait "$pid"
	done
	wait "$pid"
}

# gnome_tests DIRECTORY PROGRAM..: run these test programs
gnome_tests() {
	local dir=$1
	shift
	mkdir -p tmp home
	printf '%s\n' "$@" >programs
	# shellcheck disable=SC2016
	on_two_hosts env TMPDIR="$DIR/tmp" HOME="$DIR/home" G_TEST_SRCDIR="$dir" G_TEST_BUILDDIR="$dir" \
		bash -c "$(declare -f gnome_is_stuck gnome_run)"'
		while read -r program; do
			gnome_run "$0/$program" --tap
			status=$?
			printf "\n== %s\n" "$program"
			cat program.log
			printf "\n== status %s\n" "$status"
		done' "$dir" <programs >suite.log 2>&1
	gnome_says suite.log >outcomes
	outcomes outcomes
}
