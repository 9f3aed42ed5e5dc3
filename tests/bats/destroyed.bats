#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The operator destroys a TCP connection (ss -K): the program gets the error that TCP gives, and its peer a reset.
bats_require_minimum_version 1.5.0
load common

setup() {
	two_daemons
	talk_start server a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/promise.py"
	talk_start client b "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/promise.py"
	tell server "listen $SERVER 7001"
}

connected() {
	tell client "connect $SERVER 7001" 'ok pair'
	tell server accept 'ok pair'
	tell client 'send there'
	tell server 'receive there'
}

destroy() {
	on b ss -HKtn dport = 7001 | grep -q :7001
}

part() {
	tell client close
	tell server close
}

@test "the TCP connection behind SMC-R is destroyed: recv(), send() and SO_ERROR tell ECONNABORTED once" {
	connected
	destroy
	tell client 'receive x' ECONNABORTED
	tell client status 'ok 0'
	tell server 'receive x' ECONNRESET
	part
	connected
	destroy
	tell client 'wait-for-end'
	tell client status "ok $(python3 -c 'import errno; print(errno.ECONNABORTED)')"
	tell client 'send x' EPIPE
	part
	connected
	destroy
	tell client 'wait-for-end'
	tell client 'send x' ECONNABORTED
	tell client 'send x' EPIPE
	part
}

@test "the peer resets the connection: the program is told ECONNRESET" {
	connected
	on a ss -HKtn sport = 7001 | grep -q :7001
	tell client 'receive x' ECONNRESET
	tell server 'receive x' ECONNABORTED
	part
}

@test "the operator of the host on which it was destroyed reads why" {
	connected
	destroy
	tell client 'receive x' ECONNABORTED
	grep -q 'connection .* to .*:7001 .* was reset: Software caused connection abort' "$HOSTS_DIR/b.log"
	shows b connection 'any(.mode == "smcr" and .error == "ECONNABORTED")'
}

@test "TCP that smcrd relays is destroyed: the program is told ECONNABORTED" {
	tell client "connect $SERVER 7001" 'ok pair' # before the server accepts
	tell server 'leave 1'
	tell server accept 'ok tcp'
	tell client 'send there'
	tell server 'receive there'
	shows b connection 'any(.mode == "tcp" and .state == "active")'
	destroy
	tell client 'receive x' ECONNABORTED
}

@test "the TCP connection is destroyed, and smcrd ends before the program asks: ECONNRESET" {
	connected
	destroy
	tell client 'wait-for-end'
	kill -KILL "$SMCRD_PID_b"
	wait "$SMCRD_PID_b" || true
	tell client 'receive x' ECONNRESET
}
