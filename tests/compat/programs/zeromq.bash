# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="ZeroMQ's own tests of its sockets over TCP: every pattern, raw streams, reconnecting, high-water marks, proxies, SOCKS, authentication and encryption, monitors, a listener that is unbound, fork; each test; listeners on one host, clients on the other"
PACKAGES=(libzmq5 libzmq3-dev libsodium-dev g++ libc6-dev dpkg-dev)
SOURCE=libzmq5
LIMIT=200

# Tests of other transports. Besides, not those that take it that connections which were begun one after the other are
# there in this order (test_spec_req, test_sub_forward), and one that fails where an answer takes 50 ms (test_heartbeats).
OTHERS='fuzzer|tipc|vmci|gssapi|ipc|inproc|ws_|wss_|radio|dgram|sodium|cap_net_admin|spec_req|sub_forward|heartbeats'

# The tests, with Debian's library. Those that do not build need what is not in it: functions that are a draft, or its
# inside.
build() {
	local file flags=(-w -O0 -D_GNU_SOURCE -DUNITY_USE_COMMAND_LINE_ARGS -DUNITY_EXCLUDE_FLOAT -DZMQ_CUSTOM_PLATFORM_HPP
		-Iinclude -Isrc -Iexternal/unity -Itests)
	mkdir suite
	: >src/platform.hpp
	gcc "${flags[@]}" -c -o unity.o external/unity/unity.c
	for file in tests/testutil*.cpp; do
		g++ "${flags[@]}" -c -o "$(basename "$file" .cpp).o" "$file"
	done
	for file in tests/test_*.cpp; do
		! grep -Eq "$OTHERS" <<<"$file" || continue
		g++ "${flags[@]}" -o "suite/$(basename "$file" .cpp)" "$file" ./*.o -lzmq -lsodium -lpthread || :
	done
}

# unity_says FILE: print a line of NAME, a tab and PASS, FAIL or IGNORE for each test of a log. The log has "== PROGRAM"
# before the output of each program, lines "file.cpp:231:test_name:PASS", and "== status N" at its end.
unity_says() {
	awk '/^== status / { print program " status\t" $3; next }
		/^== / { program = $2; next }
		split($0, part, ":") >= 4 && part[4] ~ /^(PASS|FAIL|IGNORE)/ {
			print program " " part[3] "\t" part[4]
		}' "$1"
}

run() {
	local dir
	dir=$(realpath "$(source_tree)/suite")
	# shellcheck disable=SC2016
	on_two_hosts bash -c '
		for program in "$0"/*; do
			echo "== $(basename "$program")"
			"$program" </dev/null
			printf "\n== status %s\n" "$?"
		done' "$dir" >suite.log 2>&1
	unity_says suite.log >outcomes
	outcomes outcomes
}
