# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="CPython's test_ssl, each test; its listeners on one host, its clients on the other"
PACKAGES=(libpython3.11-testsuite)
LIMIT=300

run() {
	# shellcheck source=tests/compat/cpython.bash
	. "$HOSTS_ROOT/tests/compat/cpython.bash"
	cpython_suite test_ssl
}
