#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compare SMC-R, and TCP after a fallback, with plain TCP over the same veth pair. One run has several rounds of all
# measurements, and prints medians and ratios. docs/performance.md tells how to read them. Needs root.
#
#   ROUNDS (5)      MEASURE ("bulk rtt ask setup redis nginx memory smb fallback plain"): only these
#   MTUS ("1500 9000")
#   BULK_SECONDS (2), RTT_COUNT (20000), ASK_COUNT (2000), REQUESTS of redis (50000), WRK_SECONDS (2),
#   HOLD_COUNT (500), idle connections whose memory is measured
#   SMB_SECONDS (2), transfers with smbd, over TCP and over SMB Direct through two gateways
#   PLAIN_TURNS (20) of PLAIN_COUNT (500) connections each way, in turn, in each round: what a connection
#                   that stays TCP costs
#   PLOT            directory for the plots, bench-MTU.svg
set -euo pipefail

# Close descriptors that the caller left open, so that the measured programs do not inherit them: a high descriptor
# makes each connect() slower (docs/performance.md). One descriptor stays, from which the shell reads this script.
for path in "/proc/$$/fd/"*; do
	fd=${path##*/}
	[ "$fd" -le 2 ] || [ "$path" -ef "$0" ] || eval "exec $fd>&-"
done

cd "$(dirname "$0")/.."
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/smb.bash
. scripts/smb.bash

ROUNDS=${ROUNDS:-5}
MEASURE=${MEASURE:-bulk rtt ask setup redis nginx memory smb fallback plain}
MTUS=${MTUS:-1500 9000}
BULK_SECONDS=${BULK_SECONDS:-2}
RTT_COUNT=${RTT_COUNT:-20000}
ASK_COUNT=${ASK_COUNT:-2000}
REQUESTS=${REQUESTS:-50000}
WRK_SECONDS=${WRK_SECONDS:-2}
SMB_SECONDS=${SMB_SECONDS:-2}
HOLD_COUNT=${HOLD_COUNT:-500}
PLAIN_TURNS=${PLAIN_TURNS:-20}
PLAIN_COUNT=${PLAIN_COUNT:-500}
bench=$HOSTS_BUILD/bench/tcpbench
run=$HOSTS_BUILD/bin/smcr-run
server=10.77.0.1
results=$(mktemp)

trap 'hosts_down; rm -f "$results"' EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time

[ "$(id -u)" = 0 ] || { echo "bench: needs root" >&2; exit 1; }

wants() {
	[[ " $MEASURE " = *" $1 "* ]]
}

# packages COMMAND PACKAGE ..: install the packages of the commands that are missing
packages() {
	local missing=()
	while [ $# -gt 0 ]; do
		command -v "$1" >/dev/null || missing+=("$2")
		shift 2
	done
	[ ${#missing[@]} = 0 ] || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# ---- servers

# listen PORT COMMAND..: a server on host a
listen() {
	local port=$1
	shift
	start_on a "$@" >/dev/null
	until_true 10 tcp_listens a "$port"
}

nginx_conf() {
	local port=$1 dir=$HOSTS_DIR/www
	mkdir -p "$dir"
	chmod 755 "$HOSTS_DIR" "$dir"
	head -c 1000 /dev/zero >"$dir/1k"
	head -c 1000000 /dev/zero >"$dir/1m"
	cat >"$HOSTS_DIR/nginx-$port.conf" <<-END
	daemon off;
	worker_processes 1;
	pid $HOSTS_DIR/nginx-$port.pid;
	error_log $HOSTS_DIR/nginx-$port.log;
	events { worker_connections 512; }
	http {
		access_log off;
		sendfile on;
		keepalive_requests 10000000;
		server { listen $server:$port; root $dir; }
	}
	END
}

# serve PORT [smcr-run]: start all servers, on ports from PORT on
serve() {
	local port=$1
	shift
	listen "$port" "$@" "$bench" serve "$server" "$port"
	listen $((port + 1)) "$@" "$bench" answer "$server" $((port + 1))
	! wants plain || listen $((port + 4)) taskset -c 0 "$@" "$bench" answer "$server" $((port + 4))
	! wants redis || listen $((port + 2)) "$@" redis-server --port $((port + 2)) --bind "$server" \
		--save '' --appendonly no --protected-mode no
	wants nginx || return 0
	nginx_conf $((port + 3))
	listen $((port + 3)) "$@" nginx -c "$HOSTS_DIR/nginx-$((port + 3)).conf" -e "$HOSTS_DIR/nginx-$((port + 3)).log"
}

# ---- measurements; each prints a value

# Processor seconds that the whole machine has spent, for both hosts and in the kernel.
busy() {
	awk '$1 == "cpu" { print ($2 + $3 + $4 + $7 + $8) / 100 }' /proc/stat
}

# m NAME WAY PORT FUNCTION ARGUMENTS..: measure once. `client` becomes the command that runs a client by that way.
# Write the value that FUNCTION prints, the processor time and the duration to the results. A second value that it
# prints is the result of NAME-p99.
m() {
	local name=$1 way=$2 port=$3 before start values value cost
	shift 3
	client=()
	[[ $way = tcp* ]] || client=("$run") # tcp-to-smcr: only the server is under smcr-run
	[ "$way" != smcr ] || client=("$run" --require)
	before=$(busy) start=$EPOCHREALTIME
	values=$("$1" "$port" "${@:2}") || { echo "bench: $name by $way failed" >&2; return 1; }
	cost="$(bc <<<"$(busy) - $before") $(bc <<<"$EPOCHREALTIME - $start")"
	for value in $values; do
		echo "$mtu $round $name $way $value $cost" >>"$results"
		name=$name-p99
	done
}

bulk() { on b "${client[@]}" "$bench" bulk "$server" "$1" "$BULK_SECONDS" "$2" "$3"; }
rtt() { on b "${client[@]}" "$bench" rtt "$server" "$1" "$RTT_COUNT" "$2"; }
connections() { on b "${client[@]}" "$bench" "$2" "$server" $(($1 + 1)) "$ASK_COUNT" | cut -d' ' -f "$3"; }

plain_connections() {
	on b taskset -c 0 "${client[@]}" "$bench" ask "$server" $(($1 + 4)) "$PLAIN_COUNT" | cut -d' ' -f 1
}

redis() {
	on b "${client[@]}" redis-benchmark -h "$server" -p $(($1 + 2)) -c 50 -n $((REQUESTS * $2)) -P "$2" -t get --csv |
		awk -F'"' '$2 == "GET" { print $4 }'
}

web() {
	on b "${client[@]}" wrk -t 1 -c 32 -d "$WRK_SECONDS" "http://$server:$(($1 + 3))/$2" | awk '/^Requests/ { print $2 }'
}

# smb_transfer HOST:PORT WHAT SIZE
smb_transfer() {
	on b bench/smbbench.py "$2" "smb://${SMB_USER/\%/:}@$1/share/file" "$3" "$SMB_SECONDS"
}

# Over TCP straight to smbd; over SMB Direct between the gateways.
smb_both() {
	m "$1" tcp "$server:$SMB_PORT" smb_transfer "${@:2}"
	m "$1" smbdirect "127.0.0.1:$SMB_DOOR" smb_transfer "${@:2}"
}

# KiB of memory of both daemons; of shared pages each process counts its share (Pss)
# shellcheck disable=SC2154 # smcrd_start sets them
daemons_kib() {
	cat "/proc/$SMCRD_PID_a/smaps_rollup" "/proc/$SMCRD_PID_b/smaps_rollup" | awk '$1 == "Pss:" { kib += $2 } END { print kib }'
}

# KiB that an open, idle connection takes in both daemons together
memory() {
	local before after holder=$HOSTS_DIR/held
	mkfifo "$holder.in"
	before=$(daemons_kib)
	on b "${client[@]}" "$bench" hold "$server" "$1" "$HOLD_COUNT" <"$holder.in" >"$holder" &
	exec {input}>"$holder.in"
	until_true 60 grep -q held "$holder"
	after=$(daemons_kib)
	exec {input}>&-
	wait $!
	rm -f "$holder" "$holder.in"
	bc <<<"scale=2; ($after - $before) / $HOLD_COUNT"
}

# both NAME FUNCTION ARGUMENTS..: measure over TCP and over SMC-R
both() {
	m "$1" tcp 5000 "${@:2}"
	m "$1" smcr 5100 "${@:2}"
}

# plain WAY: connections that stay TCP, with a request each
plain() {
	local port=5000
	[ "$1" != tcp-to-smcr ] || port=5100
	m plain "$1" "$port" plain_connections
}

# The differences are small, and the machine changes within a second. So the turns are short, and every other one
# goes the other way round. A connection takes half or twice the time if the scheduler moves one of the programs to
# another processor, so both stay on the first one. Few ports stay in TIME_WAIT, so that connect() finds a free one soon.
plain_turns() {
	local turn way ways
	on b sysctl -qw net.ipv4.ip_local_port_range="10000 65535" net.ipv4.tcp_max_tw_buckets=1000
	for ((turn = 0; turn < PLAIN_TURNS; turn++)); do
		ways=(tcp fallback tcp-to-smcr)
		[ $((turn % 2)) = 0 ] || ways=(tcp-to-smcr fallback tcp)
		for way in "${ways[@]}"; do plain "$way"; done
	done
}

measure() {
	local size
	if wants bulk; then
		both bulk bulk 1 up
		both bulk-down bulk 1 down
		both bulk-8 bulk 8 up
		both bulk-8-down bulk 8 down
	fi
	if wants rtt; then
		for size in 1 64 4096; do
			both "rtt-$size" rtt "$size"
		done
	fi
	! wants ask || both ask connections ask 1
	! wants setup || both setup connections setup 3
	if wants redis; then
		both redis redis 1
		both redis-16 redis 16
	fi
	if wants nginx; then
		both nginx-1k web 1k
		both nginx-1m web 1m
	fi
	! wants memory || m memory smcr 5100 memory
	if wants smb; then
		smb_both smb-write write 1048576
		smb_both smb-read read 1048576
		smb_both smb-small small 4096
	fi
	! wants plain || plain_turns
	wants fallback || return 0
	m bulk fallback 5000 bulk 1 up
	m rtt-64 fallback 5000 rtt 64
}

packages bc bc
! wants redis || packages redis-server redis-server redis-benchmark redis-tools
! wants nginx || packages nginx nginx-light wrk wrk
! wants smb || packages smbd samba smbclient smbclient
for mtu in $MTUS; do
	hosts_up "$mtu"
	# The cost of short connections is measured here, so smcrd must not leave them on TCP.
	echo 'short_connection_rate = 0' | tee "$HOSTS_DIR/a.conf" >"$HOSTS_DIR/b.conf"
	if wants smb; then
		chmod 711 "$HOSTS_DIR"
		echo "smb_server = 127.0.0.1:$SMB_PORT" >>"$HOSTS_DIR/a.conf"
		echo "smb_client = 127.0.0.1:$SMB_DOOR $server" >>"$HOSTS_DIR/b.conf"
		arp_own_only a
		arp_own_only b
		SMB_INTERFACES="lo $server" smb_share
		smbd_start
	fi
	smcrd_start a
	smcrd_start b
	serve 5000
	serve 5100 "$run"
	for ((round = 0; round < ROUNDS; round++)); do measure; done
	hosts_down
done
scripts/bench-report.py ${PLOT:+--plot "$PLOT"} "$results"
