# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="redis's own test suite, each test of its units about clients and connections, against a server on the other host"
# shellcheck source=tests/compat/redis.bash
. "$(dirname "${BASH_SOURCE[0]}")/../redis.bash"

run() {
	local server
	start_under a redis-server --port 6379 --bind 0.0.0.0 --protected-mode no --dir "$DIR" --save "" \
		--enable-debug-command yes --enable-protected-configs yes --logfile "$DIR/server.log"
	server=$!
	listening a 6379
	# Not units about data types. One test takes a port on its own host so that the server, which it takes to be there
	# too, cannot have it: then the server moves to that port.
	redis_suite under b ./runtest --host "$SERVER" --port 6379 --durable --tags -needs:debug \
		--skiptest "CONFIG SET rollback on apply error" -- \
		unit/auth unit/protocol unit/info-command unit/type/list unit/type/stream-cgroups unit/multi unit/quit \
		unit/slowlog unit/pubsub unit/scripting unit/introspection unit/introspection-2 unit/limits unit/obuf-limits \
		unit/pause unit/querybuf unit/tracking unit/networking unit/client-eviction unit/violations unit/replybufsize \
		integration/redis-cli integration/redis-benchmark
	stop "$server"
	result server.ends "$STATUS"
}
