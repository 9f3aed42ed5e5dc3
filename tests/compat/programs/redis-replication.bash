# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="redis's own test suite, each test of units about replication: WAIT, passwords, failover, buffers, blocked clients of a replica, shutdown; replicas connect from one host to the listeners of their masters on the other"
# shellcheck source=tests/compat/redis.bash
. "$(dirname "${BASH_SOURCE[0]}")/../redis.bash"

run() {
	# The suite's own clients are written in Tcl, which binds each socket: they are on the host of the listeners.
	redis_suite on_two_hosts ./runtest --clients 1 --durable -- unit/wait unit/auth unit/shutdown unit/pubsubshard \
		integration/replication-2 integration/replication-buffer integration/block-repl integration/failover
}
