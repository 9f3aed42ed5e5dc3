#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs as they are, and what they see of their sockets, over SMC-R between two hosts.
bats_require_minimum_version 1.5.0
load common

echo_server_on_a() {
	start_on a "$@" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
}

@test "every question that programs ask of TCP sockets gets the same answer" {
	two_daemons
	echo_server_on_a "$RUN"
	on b "$PROGRAMS/pre_semantics" "$SERVER" 7001 >"$HOSTS_DIR/plain"
	on b "$RUN" "$PROGRAMS/pre_semantics" "$SERVER" 7001 >"$HOSTS_DIR/smcr"
	shows b connection 'any(.mode == "smcr")'
	[ "$(show b info .connections.fallbacks_total)" = 0 ]
	diff "$HOSTS_DIR/plain" "$HOSTS_DIR/smcr" | grep '^[<>]' >"$HOSTS_DIR/diff" || true
	diff "$BATS_TEST_DIRNAME/semantics.diff" "$HOSTS_DIR/diff"
}
