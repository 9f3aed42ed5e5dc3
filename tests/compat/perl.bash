# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Suites of Perl tests: unmodified, with Debian's perl and modules. Each test's outcome is a result.

# perl_says FILE: print a line of NAME, a tab and ok, not ok, skip or todo for each test of a log. The log has "== FILE"
# before the output of each file, lines "ok 3 - what it is about" or "not ok 3", and "== status N" at its end.
perl_says() {
	awk '/^== status / { print file " status\t" $3; next }
		/^== / { file = $2; next }
		match($0, /^(not )?ok [0-9]+/) {
			kind = /^not/ ? "not ok" : "ok"
			number = $(kind == "ok" ? 2 : 3)
			if (match(tolower($0), /# *(skip|todo)/))
				kind = tolower(substr($0, RSTART + RLENGTH - 4, 4))
			print file " " number "\t" kind
		}' "$1"
}

# perl_tests FILE..: run these files of the program's source, DIRECTORY//FILE, each in its directory there
perl_tests() {
	local dir
	dir=$(realpath "$(source_tree)")
	mkdir -p tmp
	printf '%s\n' "$@" >files
	# shellcheck disable=SC2016
	on_two_hosts env TMPDIR="$DIR/tmp" bash -c '
		while read -r file; do
			echo "== ${file/\/\//\/}"
			cd "$0/${file%//*}"
			timeout -k 5 200 perl -I. -It/lib "${file#*//}" </dev/null
			printf "\n== status %s\n" "$?"
		done' "$dir" <files >suite.log 2>&1
	perl_says suite.log >outcomes
	outcomes outcomes
}
