# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What the bats tests share: two hosts (scripts/hosts.bash), proofs, and functions that ask smcrd.

# shellcheck source=tests/bats/net.bash
. "$BATS_TEST_DIRNAME/net.bash"
# shellcheck source=tests/bats/proves.bash
. "$BATS_TEST_DIRNAME/proves.bash"

PROGRAMS=$HOSTS_BUILD/tests/programs
RUN=$HOSTS_BUILD/bin/smcr-run
SERVER=10.77.0.1 # host a
CLIENT=10.77.0.2 # host b

# two_daemons [OPTIONS..]: the two hosts with an smcrd each.
two_daemons() {
	hosts_up 1500
	smcrd_start a "$@"
	smcrd_start b "$@"
}

# two_patient_daemons: the same, but connect() of programs waits for the outcome of the rendezvous even on
# a busy machine.
two_patient_daemons() {
	local host
	hosts_up 1500
	for host in a b; do
		echo 'connect_wait_milliseconds = 20000' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
}

# two_daemons_with_patient_links: the two hosts with an smcrd each; a link is not given up because a host of a busy machine was silent for
# a moment. For tests that count links, or name them.
two_daemons_with_patient_links() {
	local host
	hosts_up 1500
	for host in a b; do
		echo 'link_timeout_milliseconds = 4000' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
}

# daemon_ends HOST: end the programs on the host, then stop the daemon in order, if it runs. Its exit status
# must be 0, which with sanitizers means that nothing leaked.
daemon_ends() {
	local name=SMCRD_PID_$1 pid others
	pid=${!name:-}
	[ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || return 0
	others=$(ip netns pids "$HOSTS_ID-$1" | grep -vx "$pid")
	# shellcheck disable=SC2086
	[ -z "$others" ] || kill -KILL $others 2>/dev/null
	kill -TERM "$pid"
	wait "$pid"
}

teardown() {
	local host status=0
	if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ -n "${HOSTS_ID:-}" ]; then
		for host in a b; do
			echo "--- smcrd on host $host"
			tail -30 "$HOSTS_DIR/$host.log" 2>/dev/null || true
			smcrctl_on "$host" -d connection 2>/dev/null | head -20 || true
		done
		grep -h -D skip '^error' "$HOSTS_DIR"/*.out 2>/dev/null || true # of programs/steady
	elif [ -n "${HOSTS_ID:-}" ]; then
		for host in a b; do
			daemon_ends "$host" || {
				status=$?
				echo "smcrd on host $host ends with status $status:"
				tail -60 "$HOSTS_DIR/$host.log"
			}
		done
	fi
	net_down
	return "$status"
}

# show HOST OBJECT FILTER: a value of `smcrctl -j OBJECT`, by a jq filter on the object or list.
show() {
	smcrctl_on "$1" -j "$2" | jq -r ".$2 | $3"
}

# shows HOST OBJECT FILTER: is the filter's value true?
shows() {
	smcrctl_on "$1" -j "$2" | jq -e ".$2 | $3" >/dev/null
}

# ticks_start: note the time of day every 100 ms in $HOSTS_DIR/ticks. Where two notes are further apart,
# the machine ran no process (a virtual machine may stand still for a second).
ticks_start() {
	[ -e "$HOSTS_DIR/silence" ] || mkfifo "$HOSTS_DIR/silence"
	ticks >"$HOSTS_DIR/ticks" 3>&- {HOSTS_GUARD}>&- &
	TICKS_PID=$!
}

ticks() {
	local fd
	exec {fd}<>"$HOSTS_DIR/silence"
	while [ -e "$HOSTS_DIR/silence" ]; do # until hosts_down removes it
		read -r -t 0.1 -u "$fd" _ || true
		echo "$EPOCHREALTIME"
	done
}

ticks_stop() {
	kill "$TICKS_PID"
}

# machine_late FROM TO: seconds between two times of day in which the machine ran no process.
machine_late() {
	awk -v from="$1" -v to="$2" '
		function pass(time) {
			if (time - before > 0.1) late += time - before - 0.1
			before = time
		}
		BEGIN { before = from }
		$1 > from && $1 < to { pass($1) }
		END { pass(to); printf "%.3f\n", late }' "$HOSTS_DIR/ticks"
}

# took COMMAND..: print how many milliseconds the command took, without the time in which the machine ran no
# process; returns the command's status.
took() {
	local start end status=0
	ticks_start
	start=$EPOCHREALTIME
	"$@" >&2 || status=$?
	end=$EPOCHREALTIME
	ticks_stop
	awk -v start="$start" -v end="$end" -v late="$(machine_late "$start" "$end")" \
		'BEGIN { printf "%d\n", (end - start - late) * 1000 }'
	return "$status"
}

# random_file PATH MIB
random_file() {
	head -c "$(($2 << 20))" /dev/urandom >"$1"
}

# web_server HOST ADDRESS [WRAPPER..]: a server that sends files of $HOSTS_DIR/www, on port 8080
web_server() {
	local host=$1 addr=$2
	shift 2
	mkdir -p "$HOSTS_DIR/www"
	cat >"$HOSTS_DIR/nginx.conf" <<-EOF
	daemon off;
	master_process off;
	pid $HOSTS_DIR/nginx.pid;
	error_log $HOSTS_DIR/nginx.log;
	events { worker_connections 1024; }
	http {
		access_log off;
		sendfile on;
		keepalive_requests 100000;
		client_body_temp_path $HOSTS_DIR/t1; proxy_temp_path $HOSTS_DIR/t2;
		fastcgi_temp_path $HOSTS_DIR/t3; uwsgi_temp_path $HOSTS_DIR/t4;
		scgi_temp_path $HOSTS_DIR/t5;
		server { listen $addr:8080; root $HOSTS_DIR/www; }
	}
	EOF
	start_on "$host" "$@" nginx -c "$HOSTS_DIR/nginx.conf" -e "$HOSTS_DIR/nginx.log"
	WEB_PID=$!
	until_true 10 tcp_listens "$host" 8080
}

# echo_server_on_a [WRAPPER..]: start a server that sends back what it gets, on port 7001; its process is ECHO_PID
echo_server_on_a() {
	start_on a "$@" "$PROGRAMS/echo_server" "$SERVER" 7001
	ECHO_PID=$!
	until_true 5 tcp_listens a 7001
}

# busy_pair: two daemons, two links, and connections that send both ways until busy_end. For files that source
# scripts/failover.bash.
busy_pair() {
	two_daemons_with_patient_links
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 2 --pingpong 2
	until_true "$FAILOVER_PATIENCE" symmetric
}

# busy_end: end the connections: none may have failed, and no byte may have been lost, doubled or changed.
busy_end() {
	steady_stop client || {
		cat "$HOSTS_DIR/client.out"
		return 1
	}
	steady_stop server
}

# block_roce HOST: what the host receives on UDP 4791 vanishes; pass_roce undoes it.
block_roce() {
	on "$1" nft -f - <<-'EOF'
	table inet dead {
		chain in {
			type filter hook input priority 0
			udp dport 4791 drop
		}
	}
	EOF
}

pass_roce() {
	on "$1" nft delete table inet dead
}

# hear_datagrams HOST SOCKET FILE: write datagrams to a Unix socket into a file; both are in $HOSTS_DIR
hear_datagrams() {
	start_on "$1" python3 -u -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    print(s.recv(4096).decode())
' "$HOSTS_DIR/$2" >"$HOSTS_DIR/$3"
	until_true 5 test -S "$HOSTS_DIR/$2"
}

# leftovers HOST: print what an idle daemon holds, to compare before and after. It keeps the RMB of a first contact or
# a later one, which is four times as large, so memory is counted in units of 4 MiB.
leftovers() {
	show "$1" info '.engine | [.connections, .elements_used, .rmbs, .queue_pairs, .memory_regions,
		(.memory_used_bytes / 4194304 | ceil), .timers] | join(" ")'
}
