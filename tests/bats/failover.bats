#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# Links, NICs and daemons fail and come back while programs exchange data. scripts/failover.bash has the ways
# to cut links, tests/programs/steady.c makes the connections. scripts/soak.sh does the same a thousand times.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

# steady_pair BULK PINGPONG [OPTIONS..]: two daemons, a server on a and connections of b.
steady_pair() {
	local bulk=$1 pingpong=$2
	shift 2
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk "$bulk" \
		--pingpong "$pingpong" "$@"
	until_true "$FAILOVER_PATIENCE" symmetric
}

# hosts_end: between two rounds of a test, stop the daemons that still run in order, and remove the hosts.
hosts_end() {
	daemon_ends a || return 1
	daemon_ends b || return 1
	hosts_down
}

idle() {
	shows a info '.engine.connections == 0' && shows b info '.engine.connections == 0'
}

@test "steady, on which these tests rely, finds bytes lost, doubled, wrong and cut off" {
	hosts_up 1500
	steady_start server a -- serve "$SERVER" 7100
	for how in none lose double flip truncate; do
		start_on a python3 "$BATS_TEST_DIRNAME/bad_proxy.py" "$SERVER" 7200 "$SERVER" 7100 "$how"
		proxy_pid=$!
		until_true 10 tcp_listens a 7200
		steady_start "client-$how" b -- connect "$SERVER" 7200 --bulk 1
		until_true 20 eval '[ "$how" = none ] || [ "$how" = truncate ] ||
			steady_errors "client-$how"'
		status=0
		steady_stop "client-$how" || status=$?
		cat "$HOSTS_DIR/client-$how.out"
		[ "$status" = "$([ "$how" = none ] && echo 0 || echo 1)" ]
		kill "$proxy_pid" 2>/dev/null || true
		wait "$proxy_pid" || true
	done
	grep -q 'for byte 100003 comes byte 105003: 5000 bytes are missing' "$HOSTS_DIR/client-lose.out"
	grep -q 'for byte 100703 comes byte 100003: 700 bytes come again' "$HOSTS_DIR/client-double.out"
	grep -q 'byte 100003 is wrong' "$HOSTS_DIR/client-flip.out"
	grep -q 'bytes of 17 of the trailer' "$HOSTS_DIR/client-truncate.out"
}

# steady_says NAME PATTERN: does a line of its output match?
steady_says() {
	grep -q "$2" "$HOSTS_DIR/$1.out"
}

@test "steady allows resets with --mortal, and measures how long pings and new connections take" {
	local proxy_pid
	hosts_up 1500
	steady_start server a -- serve "$SERVER" 7100 --mortal
	start_on a python3 "$BATS_TEST_DIRNAME/bad_proxy.py" "$SERVER" 7200 "$SERVER" 7100 reset
	proxy_pid=$!
	until_true 10 tcp_listens a 7200
	# Its connection is reset; then nobody listens there, and later another server does.
	steady_start client b -- connect "$SERVER" 7200 --bulk 1 --mortal
	until_true 20 steady_says client '^reset .* \(recv\|send\): Connection reset by peer'
	until_true 20 steady_says client '^reset .* connect: Connection refused'
	until_true 20 steady_says server '^reset '
	wait "$proxy_pid"
	steady_start other a -- serve "$SERVER" 7200
	until_true 20 on a sh -c 'ss -Htn state established sport = :7200 | grep -q .'
	steady_start visitor b -- visit "$SERVER" 7100 --count 2
	steady_start tidy b -- connect "$SERVER" 7100 --pingpong 1
	steady_stop tidy
	steady_mark visitor here >/dev/null
	steady_says visitor '^mark here .* ping [0-9]* [0-9]* [0-9]* setup [0-9]* [0-9]* [0-9]* resets 0$'
	steady_stop visitor
	steady_stop client
	steady_says client '^total .* errors 0 resets [1-9]'
	steady_stop other
	steady_stop server
}

# readers: in addition to the connections of steady_pair 2 2, make connections of b on which nothing is sent, and
# others on which data stream, with programs blocked in read() or epoll_wait(). Their process ids go to READERS.
# Make a slow stream too: all other connections may be waiting for the peer when the paths are lost, and a host that
# sends nothing notices only when it tests its links, half a minute later.
readers() {
	local port how
	steady_start slow b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1 --rate 10
	start_on a "$RUN" "$PROGRAMS/endless_server" "$SERVER" 7002
	until_true 10 tcp_listens a 7002
	READERS=()
	for port in 7100 7002; do
		for how in plain epoll exec; do
			start_on b "$RUN" --require "$PROGRAMS/reset_reader" "$SERVER" "$port" \
				--reader "$how" >"$HOSTS_DIR/reader-$port-$how.out" 2>&1
			READERS+=($!)
		done
	done
	until_true 20 shows b connection '[.[] | select(.state == "active")] | length == 11'
}

# resets FILE..: print the times of day at which programs have reported ECONNRESET.
resets() {
	sed -n 's/^reset \([0-9.]*\)$/\1/p; s/^error \([0-9.]*\) .*Connection reset by peer$/\1/p' "$@"
}

# reset_in_time SINCE COUNT FILE..: were COUNT connections of these programs reset, each within 5 s, not counting
# the time in which the machine ran no process? TOO_LATE says if one was later.
reset_in_time() {
	local since=$1 expected=$2 count last late
	shift 2
	count=$(resets "$@" | wc -l)
	last=$(resets "$@" | sort -n | tail -1)
	late=$(machine_late "$since" "$last")
	awk -v since="$since" -v last="$last" -v late="$late" -v count="$count" -v expected="$expected" '
		BEGIN {
			printf "%d of %d connections reset, the last after %.3f s, the machine was late for %.3f s\n",
				count, expected, last - since, late
			if (count != expected) exit 1
			exit last - since - late > 5 ? 2 : 0
		}' || { [ $? = 2 ] && TOO_LATE=yes; }
}

# descriptors HOST: how many descriptors smcrd on that host has open.
descriptors() {
	local pid=SMCRD_PID_$1
	find "/proc/${!pid}/fd" -mindepth 1 | wc -l
}

has_freed_everything() {
	local before=DESCRIPTORS_$1
	shows "$1" info '.engine | [.connections, .linkgroups, .links, .queue_pairs, .rmbs,
		.elements_used, .memory_regions, .memory_used_bytes] | all(. == 0)' &&
		[ "$(descriptors "$1")" -le "${!before}" ] &&
		! on "$1" ss -Htnp state connected exclude time-wait | grep -q smcrd
}

# end_of_everything COMMAND..: run the command on two hosts with readers, steady streams and ping-pong. Every
# connection must end with ECONNRESET in time, on both sides, and the daemons that still run must hold nothing. On
# a busy machine one round of three shows that they end in time.
end_of_everything() {
	local round
	for round in 1 2 3; do
		TOO_LATE=
		everything_ends "$@"
		[ -n "$TOO_LATE" ] || return 0
		echo "round $round: too late"
		[ "$round" = 3 ] || hosts_end
	done
	return 1
}

everything_ends() {
	local since pid host errors=0
	two_daemons
	DESCRIPTORS_a=$(descriptors a) DESCRIPTORS_b=$(descriptors b)
	steady_pair 2 2
	readers
	ticks_start
	since=$EPOCHREALTIME
	"$@"
	for pid in "${READERS[@]}"; do
		wait "$pid" || errors=$((errors + 1))
	done
	# both clients must report errors
	wait "${STEADY_PID[client]}" && return 1
	wait "${STEADY_PID[slow]}" && return 1
	until_true 20 server_has_ended_all
	ticks_stop
	echo "$*:"
	reset_in_time "$since" 11 "$HOSTS_DIR"/{client,slow}.out "$HOSTS_DIR"/reader-*.out
	# connections of the server's program: 5 of steady, 3 silent ones that never sent a hello
	reset_in_time "$since" 8 "$HOSTS_DIR/server.out"
	[ "$errors" = 0 ]
	# smcrd keeps a destroyed queue pair until it has answered for a second with its port up.
	all_carriers_up
	for host in a b; do
		pid=SMCRD_PID_$host
		! kill -0 "${!pid}" 2>/dev/null || until_true 10 has_freed_everything "$host"
	done
}

server_has_ended_all() {
	[ "$(grep -c '^error' "$HOSTS_DIR/server.out")" = 8 ]
}

kill_daemon() {
	local pid=SMCRD_PID_$1
	kill -KILL "${!pid}"
	wait "${!pid}" || true
}

# all_carriers_down a|b|both: all NICs of one host, or of both hosts, lose their carrier.
all_carriers_down() {
	local host nic
	for host in "$@"; do
		for nic in 0 1; do ip -n "$HOSTS_ID-sw" link set "$host$nic" down; done
	done
}

# all_carriers_up: the NICs that still exist get their carrier back.
all_carriers_up() {
	local host nic
	for host in a b; do
		for nic in 0 1; do ip -n "$HOSTS_ID-sw" link set "$host$nic" up 2>/dev/null || true; done
	done
}

all_silent() {
	on sw nft -f - <<-'EOF'
	table bridge cut {
		chain forward {
			type filter hook forward priority -10
			udp dport 4791 drop
		}
	}
	EOF
}

nics_removed() {
	local nic
	for nic in 0 1; do ip -n "$HOSTS_ID-$1" link del "eth$nic"; done
}

@test "kill -9 of the daemon of either host: ECONNRESET within 5 s for every reader, nothing is left" {
	for host in a b; do
		end_of_everything kill_daemon "$host"
		hosts_end
	done
	proves GEN-10 TERM-2
}

@test "all links lost with their carriers: ECONNRESET within 5 s for every reader, nothing is left" {
	end_of_everything all_carriers_down a b
	hosts_end
	# one side is told by its NICs, the other has to find out
	for host in a b; do
		end_of_everything all_carriers_down "$host"
		hosts_end
	done
	end_of_everything nics_removed a
	proves GEN-5 FO-13
}

@test "all paths lost in silence: ECONNRESET within 5 s for every reader, nothing is left" {
	end_of_everything all_silent
	# when the paths come back, there is a new link group
	on sw nft delete table bridge cut
	steady_start again b "$RUN" -- connect "$SERVER" 7100 --pingpong 1
	steady_stop again
	proves FO-13 TERM-2
}

@test "every kind of cut, on either side and NIC: programs see a pause, no byte is lost, nothing is left" {
	hosts_up 1500
	for host in a b; do
		echo "rmb_idle_seconds = 1" >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	steady_pair 2 2
	steady_start visitor b "$RUN" -- visit "$SERVER" 7100
	for nic in 0 1; do
		for cause in "${FAILOVER_CAUSES[@]}"; do
			fail_over "$cause" "$nic"
			run ! steady_errors client server visitor
			echo "$cause on NIC $nic: $(steady_mark client "$cause-$nic") us"
		done
	done
	steady_stop visitor
	steady_stop client
	until_true 30 idle
	for host in a b; do
		until_true 30 shows "$host" info '.engine | .elements_used == 0 and .queue_pairs == 2'
		shows "$host" linkgroup 'length == 1'
	done
	steady_stop server
	proves FO-2 DELL-3
}

# asymmetric HOST: is there one link group with two links, both over the single NIC of that host?
asymmetric() {
	local one=$1 other=a
	[ "$one" = b ] || other=b
	shows "$one" linkgroup 'length == 1 and .[0].type == "asymmetric-local" and .[0].links == 2' &&
		shows "$other" linkgroup 'length == 1 and .[0].type == "asymmetric-peer" and .[0].links == 2' &&
		shows "$one" link '[.[] | select(.state == "active") | .rnic] | length == 2 and
			(unique | length == 1)' &&
		shows "$other" link '[.[] | select(.state == "active") | .rnic] | unique | length == 2'
}

@test "one NIC and two: asymmetric; each link comes back with its NIC; a second NIC makes it symmetric" {
	for one in a b; do
		other=a
		[ "$one" = b ] || other=b
		hosts_up 1500
		ip -n "$HOSTS_ID-$one" link set eth1 down
		smcrd_start a
		smcrd_start b
		steady_start server a "$RUN" -- serve "$SERVER" 7100
		steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 2 --pingpong 2
		until_true "$FAILOVER_PATIENCE" asymmetric "$one"
		for nic in 1 0; do
			ip -n "$HOSTS_ID-sw" link set "$other$nic" down
			until_true "$FAILOVER_PATIENCE" shows "$one" linkgroup '.[0].links == 1'
			until_true "$FAILOVER_PATIENCE" shows "$other" linkgroup '.[0].links == 1'
			ip -n "$HOSTS_ID-sw" link set "$other$nic" up
			until_true "$FAILOVER_PATIENCE" asymmetric "$one"
			run ! steady_errors client server
		done
		ip -n "$HOSTS_ID-$one" link set eth1 up
		until_true "$FAILOVER_PATIENCE" symmetric
		steady_stop client
		steady_stop server
		hosts_end
	done
	proves GEN-8
}

@test "a NIC that comes back as another one, with another MAC, restores symmetry" {
	two_daemons
	steady_pair 1 1
	for host in a b; do
		for nic in 0 1; do
			cut "remove-$host" "$nic"
			until_true "$FAILOVER_PATIENCE" link_is_lost
			CUT_MAC=02:5e:00:00:0$nic:0$([ "$host" = a ] && echo 1 || echo 2)
			mend "remove-$host" "$nic"
			until_true "$FAILOVER_PATIENCE" symmetric
		done
	done
	steady_stop client
	steady_stop server
}
