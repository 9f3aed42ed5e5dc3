# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Tcl's own tests of sockets and of its HTTP client, each one, also from several threads and over IPv6; its listeners on one host, its clients on the other"
PACKAGES=(tcl8.6 tcl-thread dpkg-dev)
SOURCE=tcl8.6
LIMIT=30

# The tests need no building.
build() {
	:
}

# tcl_suite NAME: run a file of tests; prints a line of NAME, a tab and PASSED or FAILED for each
tcl_suite() {
	local dir
	dir=$(realpath "$(source_tree)/tests")
	# Not 13.1: it ends a thread that may have ended before.
	on_two_hosts tclsh8.6 "$dir/$1.test" -verbose "pass error body" -tmpdir "$DIR/tmp" -skip "socket_*-13.1" \
		>"$1.log" 2>&1
	result "$1" "$?"
	grep -q "^$1.test:.*Total" "$1.log" || fault "$1.test does not end in order: $(tail -n 1 "$1.log")"
	# "++++ socket-1.1 PASSED" or "==== socket-1.1 what it is about FAILED"
	sed -En 's/^\+\+\+\+ ([^ ]+) PASSED$/\1\tPASSED/p; s/^==== ([^ ]+) .*FAILED$/\1\tFAILED/p' "$1.log"
}

run() {
	local suite
	mkdir tmp
	for suite in socket http httpold; do
		tcl_suite "$suite"
	done >outcomes
	outcomes outcomes
}
