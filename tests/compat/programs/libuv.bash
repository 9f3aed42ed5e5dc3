# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="libuv's own tests, each one about TCP, polling of sockets, or TCP sockets given to other processes; its listeners on one host, its clients on the other"
PACKAGES=(libuv1 libuv1-dev gcc libc6-dev dpkg-dev)
SOURCE=libuv1
LIMIT=200

TESTS='^(tcp|ipc_.*(tcp|listen)|listen_|poll_|shutdown_|connect|delayed_accept|multiple_listen|getsockname_tcp|callback_stack)'
TESTS+='|^(socket_buffer_size|readable_on_eof|not_readable|not_writable|spawn_tcp_server|handle_fileno|close_fd)'

# The tests, with Debian's library. Their Unix sockets have fixed names in /tmp, which several runs would share: let them be
# in the working directory.
build() {
	local files
	sed -i 's#"/tmp/uv-test-sock#"uv-test-sock#' test/task.h
	mapfile -t files < <(find test -name '*.c' ! -name 'benchmark-*' ! -name run-benchmarks.c ! -name runner-win.c)
	gcc -w -O1 -D_GNU_SOURCE -Isrc -o uv_run_tests "${files[@]}" -luv -lpthread -ldl -lutil
}

run() {
	# Not emfile: twohosts.so needs descriptors too. Root, because twohosts.so enters namespaces.
	export UV_RUN_AS_ROOT=1 UV_TEST_TIMEOUT_MULTIPLIER=10
	local suite
	suite=$(realpath "$(source_tree)/uv_run_tests")
	"$suite" --list | sed 's/ .*//' | sort -u | grep -E "$TESTS" >tests
	# shellcheck disable=SC2016
	on_two_hosts bash -c 'while read -r name; do "$0" "$name" </dev/null; done' "$suite" <tests >suite.log 2>&1
	# A line for each test: "ok 1 - tcp_open", "not ok 1 - tcp_open", "ok 1 - tcp_open # SKIP reason"
	sed -En 's/^((not )?ok) [0-9]+ - ([a-z0-9_]+)( # SKIP)?.*/\3\t\1\4/p' suite.log >outcomes
	cut -f1 outcomes | sort | comm -3 - tests >lost
	[ ! -s lost ] || fault "no outcome of: $(tr -s '\n\t' ' ' <lost)"
	outcomes outcomes
}
