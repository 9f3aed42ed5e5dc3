# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="qperf: bandwidth and latency of TCP, by time, small and large messages, buffer sizes, roles exchanged, several tests in a row; both ends' counts"
PACKAGES=(qperf)
LIMIT=60

# ask NAME OPTIONS..: the exit status, the values that are counted and the errors are the result.
ask() {
	local name=$1 rc=0
	shift
	under b timeout 60 qperf "$SERVER" -t 1 "$@" >"$name.log" 2>&1 || rc=$?
	result "$name" "$rc $(awk '$2 == "=" { print $1; next } { print }' "$name.log")"
}

run() {
	local pid
	start_under a qperf >server.log 2>&1
	pid=$!
	listening a 19765
	ask bandwidth -v tcp_bw
	ask latency -v tcp_lat
	ask flipped -v -f1 tcp_bw tcp_lat
	ask small -m 1 tcp_bw
	ask large -m 4M tcp_bw
	ask buffers -sb 64K -vu tcp_bw tcp_lat
	ask accessed -ar1 tcp_bw
	ask sizes -oo msg_size:1:64K:*16 -vu tcp_lat
	ask port -ip 7777 tcp_bw tcp_lat
	ask udp -m 1000 udp_lat
	ask timeouts -to 20 tcp_bw
	ask quit quit
	until_true 20 ended "$pid" || fault "the server does not end"
	result server "$(grep -v '^$' server.log)"
	ask refused -to 2 tcp_bw
}
