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

# gnome_tests DIRECTORY PROGRAM..: run these test programs
gnome_tests() {
	local dir=$1
	shift
	mkdir -p tmp home
	printf '%s\n' "$@" >programs
	# shellcheck disable=SC2016
	on_two_hosts env TMPDIR="$DIR/tmp" HOME="$DIR/home" G_TEST_SRCDIR="$dir" G_TEST_BUILDDIR="$dir" bash -c '
		while read -r program; do
			printf "\n== %s\n" "$program"
			timeout -k 5 200 "$0/$program" --tap </dev/null
			printf "\n== status %s\n" "$?"
		done' "$dir" <programs >suite.log 2>&1
	gnome_says suite.log >outcomes
	outcomes outcomes
}
