#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Links, NICs and daemons that go and come back while programs talk: scripts/failover.bash has the ways
# to cut, tests/programs/steady.c the connections. scripts/soak.sh does the same a thousand times.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

# steady_pair BULK PINGPONG [OPTIONS..]: two daemons, a server on a and connections of b.
steady_pair() {
	local bulk=$1 pingpong=$2
	shift 2
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk "$bulk" \
		--pingpong "$pingpong" "$@"
	until_true "$FAILOVER_PATIENCE" symmetric
}

idle() {
	shows a info '.engine.connections == 0' && shows b info '.engine.connections == 0'
}

@test "what these tests stand on: steady finds bytes lost, doubled, wrong and cut off" {
	hosts_up 1500
	steady_start server a -- serve "$SERVER" 7100
	for how in none lose double flip truncate; do
		start_on a python3 "$BATS_TEST_DIRNAME/bad_proxy.py" "$SERVER" 7200 "$SERVER" 7100 "$how"
		proxy_pid=$!
		until_true 10 tcp_listens a 7200
		steady_start "client-$how" b -- connect "$SERVER" 7200 --bulk 1
		until_true 20 eval '[ "$how" = none ] || [ "$how" = truncate ] ||
			steady_errors "client-$how"'
		status=0
		steady_stop "client-$how" || status=$?
		cat "$HOSTS_DIR/client-$how.out"
		[ "$status" = "$([ "$how" = none ] && echo 0 || echo 1)" ]
		kill "$proxy_pid" 2>/dev/null || true
		wait "$proxy_pid" || true
	done
	grep -q 'for byte 100003 comes byte 105003: 5000 bytes are missing' "$HOSTS_DIR/client-lose.out"
	grep -q 'for byte 100703 comes byte 100003: 700 bytes come again' "$HOSTS_DIR/client-double.out"
	grep -q 'byte 100003 is wrong' "$HOSTS_DIR/client-flip.out"
	grep -q 'bytes of 17 of the trailer' "$HOSTS_DIR/client-truncate.out"
}
