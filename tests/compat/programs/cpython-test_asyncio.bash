# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="CPython's test_asyncio, each test of its modules that make connections; its listeners on one host, its clients on the other"
PACKAGES=(libpython3.11-testsuite)
LIMIT=300

run() {
	# shellcheck source=tests/compat/cpython.bash
	. "$HOSTS_ROOT/tests/compat/cpython.bash"
	local module matches=()
	for module in base_events buffered_proto events selector_events sendfile server sock_lowlevel \
		ssl sslproto streams unix_events; do
		matches+=(-m "test.test_asyncio.test_$module.*")
	done
	cpython_suite test_asyncio "${matches[@]}"
}
