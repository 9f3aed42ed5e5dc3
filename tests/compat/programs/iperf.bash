# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="iperf 2: one and several streams, both ways at once on one connection and on two, back, bounced messages, writes that wait by TCP_NOTSENT_LOWAT, rates, buffer and segment sizes, connections without data, keys, bound ports; what each end says that it sent and received"
PACKAGES=(iperf)
LIMIT=60

# ask NAME OPTIONS..: the exit status, and the settings and errors that the client prints, are the result.
ask() {
	local name=$1 rc=0
	shift
	under b timeout 60 iperf -c "$SERVER" "$@" >"$name.log" 2>&1 || rc=$?
	result "$name" "$rc $(grep -oE '^(TOS|TCP congestion|MSS|Bounce-back|Event based|Write buffer|.*connect failed|write failed|read failed|.*WARN).*' \
		"$name.log" | sed 's/default.*//' | sort)"
}

# received NAME N: what the server says that it received since the last time, on N connections
received() {
	local lines=$2
	until_true 20 enough_lines "$lines" || fault "$1: the server has not counted $lines transfers"
	result "$1.received" "$(transfers | awk -F, '{ print $8 }' | sort)"
	result "$1.names" "$(transfers | cut -d, -f2,4,5 | sort -u)"
	transfers >>"$1.log"
	TAKEN=$(wc -l <server.log)
}

transfers() {
	tail -n +$((TAKEN + 1)) server.log | grep -E '^[0-9]+(,[^,]*){8}$'
}

enough_lines() {
	[ "$(transfers | wc -l)" -ge "$1" ]
}

# counted NAME PATTERN: the client has counted something like that.
counted() {
	right "$1.counted" grep -Eq "$2" "$1.log"
}

serve() {
	start_under a iperf -s -yC "$@" >server.log 2>&1
	PID=$!
	TAKEN=0
	listening a 5001
}

# sends NAME OPTIONS..: ask a server that sends too. It then locks a mutex that it has freed, over TCP as well (valgrind
# shows that), and may crash at any time. So it serves nothing else, and how it ends is no result.
sends() {
	serve
	ask "$@"
	stop "$PID"
}

run() {
	local PID TAKEN name
	serve
	ask one -n 60M
	received one 1
	ask four -n 20M -P 4
	received four 4
	ask small -n 500K -l 100 -N
	received small 1
	ask window -n 60M -w 128K
	received window 1
	ask window.tiny -n 20M -w 4K
	received window.tiny 1
	ask segment -n 20M -M 900 -m
	received segment 1
	ask congestion -n 20M -Z reno
	received congestion 1
	ask port -n 20M -B "$CLIENT:7777"
	received port 1
	random_file sent 3000
	ask file -F sent -n 3000K
	received file 1
	ask compatible -C -n 20M
	received compatible 1
	ask tos -S 0x10 -n 20M
	received tos 1
	stop "$PID"
	result server "$STATUS"
	sends back -R -t 1 -e
	counted back '[1-9][0-9.]* [MG]Bytes'
	sends dual -d -t 1
	sends tradeoff -r -t 1
	serve
	ask duplex --full-duplex -t 1 -e
	counted duplex '\[FD1\].* [1-9][0-9.]* [MG]Bytes'
	ask bounce --bounceback -t 2
	counted bounce " [0-9]+=[0-9.]+/[0-9.]+"
	ask bounce.busy --bounceback --bounceback-congest -t 1
	ask prefetch --tcp-write-prefetch 128K -t 1 -e
	counted prefetch '[1-9][0-9.]* [MG]Bytes'
	ask quick --tcp-quickack -t 1
	ask write.times --tcp-write-times -t 1 -e
	ask trip.times --trip-times -t 1 -e
	ask rate -b 20m -t 1
	ask paced --fq-rate 50m -t 1
	ask frames --isochronous 60:1m,0 -t 1
	ask near --near-congestion=0.5 -t 1
	ask clamped -X -t 1
	ask connects --connect-only -t 1
	right connects.many [ "$(grep -c " connected with " connects.log)" -ge 5 ]
	stop "$PID"
	result server.again "$STATUS"
	ask refused -t 1
	serve --permit-key=secret --tcp-rx-window-clamp 64K
	ask key --permit-key=secret -n 20M
	received key 1
	ask key.wrong --permit-key=wrong -n 20M
	ask key.none -n 20M
	stop "$PID" INT
	result server.keys "$STATUS"
}
