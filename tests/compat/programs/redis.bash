# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="redis-cli: commands, pipes of 20,000, large values, publish and subscribe, MULTI, blocking pops; a replica that is cut off and follows again; redis-benchmark"
PACKAGES=(redis-server redis-tools)
LIMIT=90
QUICK=yes

redis_start() {
	local host=$1 port=$2
	shift 2
	mkdir -p "$DIR/$host"
	start_under "$host" redis-server --port "$port" --bind "0.0.0.0" --protected-mode no \
		--dir "$DIR/$host" --save "" --logfile "$DIR/$host/log" "$@"
	listening "$host" "$port"
}

cli() {
	under b redis-cli -h "$SERVER" -p 6379 "$@"
}

commands() {
	result ping "$(cli ping)"
	result set "$(cli set key value)" "$(cli get key)"
	result incr "$(cli -r 5 incr counter | tr '\n' ' ')"
	result error "$(cli lpush counter x 2>&1)"
	random_file value 5000
	result large.set "$(cli -x set large <value)"
	cli --raw get large | head -c -1 >large
	same large.get value large
	result eval "$(cli eval 'return {KEYS[1], ARGV[1], 3}' 1 a b | tr '\n' ' ')"
	result multi "$(printf 'multi\nset m 1\nincr m\nget m\nexec\n' | cli | tr '\n' ' ')"
}

pipes() {
	seq 1 20000 | awk '{ print "set k" $1 " v" $1 }' | cli --pipe >pipe.out 2>&1
	result pipe "$(tail -n 1 pipe.out)"
	result pipe.size "$(cli dbsize)"
	seq 1 20000 | awk '{ print "get k" $1 }' | cli >values
	right pipe.values cmp values <(seq 1 20000 | sed 's/^/v/')
}

subscribed() {
	[ "$(cli pubsub numsub news | tail -n 1)" = 1 ]
}

messages() {
	start_under b redis-cli -h "$SERVER" -p 6379 subscribe news >news.out
	local subscriber=$! i
	until_true 10 subscribed
	seq 1 500 | awk '{ print "publish news message-" $1 }' | cli >/dev/null
	until_true 10 grep -q 'message-500$' news.out
	result subscribe "$(grep -c '^message-' news.out)"
	stop "$subscriber"
	start_under b redis-cli -h "$SERVER" -p 6379 blpop queue 200 >blpop.out
	local waiter=$!
	until_true 10 eval '[ "$(cli client list | grep -c "cmd=blpop")" = 1 ]'
	cli rpush queue work >/dev/null
	wait "$waiter"
	result blpop "$? $(tr '\n' ' ' <blpop.out)"
}

replica_has() {
	[ "$(on b redis-cli -p 6380 get "$1")" = "$2" ]
}

replication() {
	redis_start b 6380 --replicaof "$SERVER 6379" --repl-diskless-sync-delay 0
	cli set replicated one >/dev/null
	right replica.follows until_true 20 replica_has replicated one
	cli client kill type replica >/dev/null
	cli set replicated two >/dev/null
	right replica.again until_true 20 replica_has replicated two
	result replica.size "$(on b redis-cli -p 6380 dbsize)"
	on b redis-cli -p 6380 --raw get large | head -c -1 >large.replica
	same replica.large value large.replica
}

benchmark() {
	under b redis-benchmark -h "$SERVER" -p 6379 -q --csv -n 5000 -c 50 -P 4 \
		-t ping,set,get,lpush,lrange_100 >benchmark.csv 2>benchmark.err
	result benchmark "$? $(cut -d, -f1 benchmark.csv | tr '\n' ' ')"
}

run() {
	redis_start a 6379
	local server=$!
	commands
	pipes
	messages
	replication
	benchmark
	stop "$server"
	result server.ends "$STATUS"
}
