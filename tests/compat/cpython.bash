# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# CPython's own test suites: unmodified, in one process, with their listeners on another host
# (preload/twohosts.c). Each test's outcome is a result.

# cpython_suite SUITE [OPTIONS..]
cpython_suite() {
	local suite=$1
	shift
	mkdir tmp
	on_two_hosts env TMPDIR="$DIR/tmp" /usr/bin/python3.11 -m test --timeout 280 -v \
		--tempdir "$DIR/tmp" --junit-xml "$DIR/$suite.xml" "$@" "$suite" >"$suite.log" 2>&1
	result suite "$?"
	python3 - "$suite.xml" >outcomes <<-'END'
	import sys
	import xml.etree.ElementTree as tree
	for case in tree.parse(sys.argv[1]).getroot().iter("testcase"):
	    kinds = [c.tag for c in case if c.tag in ("failure", "error", "skipped")]
	    # A subtest that fails is a separate case, whose name contains the name of the test.
	    print(case.get("name").removeprefix("test."), kinds[0] if kinds else "ok", sep="\t")
	END
	[ -s outcomes ] || fault "the suite does not end in order: $(tail -n 1 "$suite.log")"
	outcomes outcomes
}
