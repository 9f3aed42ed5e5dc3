# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="sockperf over TCP: ping-pong with every way of waiting (recvfrom, select, poll, epoll), blocking and not, with contents compared, many messages under way, throughput, several connections and threads, buffer sizes; messages doubled or out of order"
PACKAGES=(sockperf)
LIMIT=90

# ask NAME KIND OPTIONS..: a second of it. What is in the result does not depend on speed: messages that are under way
# at the end count as dropped, and those of different connections may overtake each other.
ask() {
	local name=$1 rc=0 says='# duplicated messages.*'
	shift
	case $name in
	busy.max | busy.skip) says=ERROR ;; # so many messages that perhaps no answer comes in time
	list.*.busy) says='# duplicated messages = [0-9]+' ;;
	esac
	under b timeout 60 sockperf "$@" -t 1 >"$name.log" 2>&1 || rc=$?
	result "$name" "$rc $(sed -E 's/\x1b\[[0-9;]*m//g' "$name.log" | grep -oE "($says|Data integrity test .*|.*ERROR.*|using [a-z]+\(\) to block.*)" | sort)"
	grep -Eq '(observations|messages sent in)' "$name.log" || result "$name.counted" nothing
}

serve() {
	start_under a sockperf sr "$@" >server.log 2>&1
	PID=$!
	listening a 11111
}

all_ways() {
	local way
	for way in r s p e; do
		[ "$way" = r ] || echo "T:$SERVER:11111
T:$SERVER:11112
T:$SERVER:11113" >list
		[ "$way" != r ] || echo "T:$SERVER:11111" >list
		serve -f list -F "$way"
		ask "list.$way" pp -f list -F "$way" -m 200
		ask "list.$way.busy" ul -f list -F "$way" --mps 2000 --reply-every 1
		ask "list.$way.back" pp -f list -F "$way" --nonblocked --recv_looping_num 3
		stop "$PID" INT
		result "list.$way.server" "$STATUS $(grep -oE 'ERROR.*' server.log)"
	done
	serve -f list -F e --threads-num 2
	ask threads pp -f list -F e -m 500
	ask threads.servers pp -f list -F s --srv-num 1 -r 100
	stop "$PID" INT
	result threads.server "$STATUS"
}

run() {
	local PID tcp=(--tcp -i "$SERVER" -p 11111) i
	serve "${tcp[@]}"
	ask ping pp "${tcp[@]}"
	ask ping.contents pp "${tcp[@]}" --data-integrity -m 1000
	ask ping.large pp "${tcp[@]}" -m 60000 --data-integrity
	ask ping.sizes pp "${tcp[@]}" -m 3000 -r 2000
	ask ping.burst pp "${tcp[@]}" -b 50
	ask ping.nonblocking pp "${tcp[@]}" --nonblocked
	ask ping.looping pp "${tcp[@]}" --nonblocked --recv_looping_num -1
	ask ping.buffers pp "${tcp[@]}" --buffer-size 20000
	ask ping.port pp "${tcp[@]}" --client_port 7777
	ask ping.poll pp "${tcp[@]}" --lls 50
	ask ping.full.log pp "${tcp[@]}" --full-log all.csv --full-rtt
	right ping.full.log.written [ "$(wc -l <all.csv)" -gt 100 ]
	ask busy.all ul "${tcp[@]}" --mps 5000 --reply-every 1
	ask busy.max ul "${tcp[@]}" --mps max --reply-every 2
	ask busy.skip ul "${tcp[@]}" --mps max --tcp-skip-blocking-send
	for i in 14 1000 60000; do
		ask "throughput.$i" tp "${tcp[@]}" -m "$i"
	done
	stop "$PID" INT
	result server "$STATUS $(grep -oE 'ERROR.*' server.log)"
	ask refused pp "${tcp[@]}"
	serve "${tcp[@]}" --nonblocked -g
	ask server.nonblocking pp "${tcp[@]}"
	stop "$PID" INT
	result server.nonblocking.end "$STATUS"
	all_ways
}
