#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# What smcrd counts: connections, memory and sums as smcrctl shows them, and metrics for monitoring systems.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

# metrics HOST [NAME..]: print samples, one a line, after a strict parser has checked the metrics.
metrics() {
	local host=$1
	shift
	smcrctl_on "$host" metrics | "$HOSTS_ROOT/tests/lib/openmetrics.py" "$@"
}

# metric HOST NAME LABELS: print the value. LABELS are in the form that openmetrics.py prints.
metric() {
	metrics "$1" "$2" | awk -v labels="$3" '$2 == labels { printf "%d\n", $3 }'
}

steady_pair() {
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 "$@"
	until_true "$FAILOVER_PATIENCE" symmetric
}

steady_end() {
	steady_stop client
	steady_stop server
	until_true 20 shows a info '.engine.connections == 0'
	until_true 20 shows b info '.engine.connections == 0'
}

@test "connection: program, version, queued bytes, ages and counts" {
	two_daemons
	steady_pair --bulk 1 --pingpong 1
	until_true 10 shows a connection 'any(.tx_requests > 10 and .rx_requests > 10 and .rtt_us > 0)'
	for host in a b; do
		shows "$host" connection 'all(.program == "steady" and .uid == 0 and .version == 1 and .dialect == "deployed")'
		shows "$host" connection 'all(.cdc_sent_ago_us >= 0 and .cdc_received_ago_us >= 0 and .moves == 0)'
		shows "$host" connection 'all(.tx_buffered_bytes <= .sndbuf_size and .tx_unsent_bytes <= .tx_buffered_bytes
			and .tx_window_bytes + .tx_in_peer_bytes <= .peer_rmbe_size
			and .rx_buffered_bytes <= .rmbe_size and .rx_window_bytes <= .rmbe_size
			and .link_retransmits >= 0)'
	done
	# Only administrators and the connection's own user see the name of its program.
	smcrctl_as_nobody a -j connection | jq -e '.connection | length > 0 and all(.program == null)'
	run -0 smcrctl_on a -d connection
	[[ "$output" == *STALLS*RTT-US*PROGRAM*steady* ]]
	steady_end
	shows a connection 'all(.ended and .program == "steady" and .tx_requests == null and .rtt_us == null)'
}

# smcrctl_as_nobody HOST ARGUMENTS..
smcrctl_as_nobody() {
	local host=$1
	shift
	chmod o+x "$HOSTS_DIR"
	on "$host" setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" "$@"
}

@test "a reader that does not read is seen on both hosts" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/flow" serve "$SERVER" 7001 stall >"$HOSTS_DIR/flow.a"
	pid=$!
	until_true 10 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/flow" connect "$SERVER" 7001 stall >"$HOSTS_DIR/flow.b"
	wait "$pid"
	for host in a b; do
		shows "$host" stats '.tx.full_events > 0 and .tx.window_full_events > 0 and .rx.full_events > 0'
	done
	# When an element is full, its writer's window is full. The writer may count more, because it learns later that the
	# element has space again.
	[ "$(show a stats .tx.window_full_events)" -ge "$(show b stats .rx.full_events)" ]
	[ "$(show b stats .tx.window_full_events)" -ge "$(show a stats .rx.full_events)" ]
}

@test "rmb: elements and owners of all connections, page by page" {
	two_daemons_with_patient_links
	steady_pair --pingpong 3
	for host in a b; do
		[ "$(show "$host" rmb '[.[] | select(.kind == "rmb").elements_used] | add')" = \
			"$(show "$host" info .engine.elements_used)" ]
		[ "$(show "$host" rmb '[.[] | select(.kind == "rmb")] | length')" = "$(show "$host" info .engine.rmbs)" ]
		[ "$(show "$host" rmb '[.[].size_bytes] | add')" = "$(show "$host" info .engine.memory_used_bytes)" ]
		[ "$(show "$host" rmb '[.[] | select(.kind == "rmb").owners[]] | sort | join(" ")')" = \
			"$(show "$host" connection '[.[] | select(.mode == "smcr").id] | sort | join(" ")')" ]
		until_true 10 shows "$host" rmb 'all(.links == 2)'
		shows "$host" rmb 'all(.links == 2 and .filled_bytes <= .size_bytes)'
		smcrctl_as_nobody "$host" -j rmb | jq -e '.rmb | all(.owners == null)'
	done
	[ "$(smcrctl_on a -j rmb show group 99 | jq -r '.rmb | length')" = 0 ]
	[ "$(smcrctl_on a -j rmb show group 1 | jq -r '.rmb | length')" = "$(show a rmb length)" ]
	run -0 smcrctl_on a -d rmb
	[[ "$output" == *ELEMENT*FILL*OWNERS* ]]
	steady_end
}

# agree HOST OTHER KEY: has OTHER received as much as HOST has sent?
agree() {
	[ "$(show "$1" stats ".tx.$3")" = "$(show "$2" stats ".rx.$3")" ]
}

@test "stats: the two hosts agree on connections, bytes and messages that are over" {
	two_daemons_with_patient_links # failovers are counted
	steady_pair --bulk 1 --pingpong 2
	until_true 10 shows a stats '.rx.bytes > 1000000'
	steady_end
	for pair in 'a b' 'b a'; do
		read -r one other <<<"$pair"
		for key in bytes messages cdc_messages; do
			until_true 10 agree "$one" "$other" "$key"
		done
		shows "$one" stats '.tx.request_bytes == .tx.bytes and ([.tx.request_sizes[]] | add) == .tx.requests'
		shows "$one" stats '([.tx.buffer_sizes[]] | add) == 3 and .memory.refused == 0'
		shows "$one" stats '.linkgroups.groups_up == 1 and .linkgroups.links_up == 2 and .linkgroups.failovers == 0'
		shows "$one" stats '.first_contacts.count == 1 and .handshakes.count == 2'
	done
	shows a stats '.connections.established_v1 == {"server": 3, "client": 0}'
	shows b stats '.connections.established_v1 == {"server": 0, "client": 3}'
	shows a stats '.devices | length == 2 and all(.tx_packets > 0)'
	run -0 smcrctl_on b -d stats
	[[ "$output" == *'SINCE THE START'*SENT*'>512K'*FIRST-CONTACTS*RNIC*failovers* ]]
	# Plain TCP is counted too, with its reason.
	on b "$RUN" curl -s --max-time 5 "http://$SERVER:1/" || true
	until_true 5 shows b stats '.connections.failed + .connections.plain_tcp > 0'
}

@test "failovers: what moved, and for how long it stood still" {
	two_daemons
	steady_pair --pingpong 4
	ip -n "$HOSTS_ID-a" link set eth1 down
	until_true "$FAILOVER_PATIENCE" shows a stats '.linkgroups.links_failed >= 1 and .failover_gaps.count >= 1'
	shows a stats '.linkgroups.failovers >= 1 and .linkgroups.moves >= 1'
	shows a stats '([.failover_gaps.classes[].count] | add) == .failover_gaps.count'
	until_true 10 shows a connection '[.[] | select(.moves > 0)] | length >= 1'
	[ "$(metric a smcrd_failovers_total -)" -ge 1 ]
	[ "$(metric a smcrd_failover_gap_seconds_count -)" -ge 1 ]
	[ "$(metric a smcrd_rnic_up device=soft:eth1)" = 0 ]
	ip -n "$HOSTS_ID-a" link set eth1 up
	steady_end
}

# scrape HOST CURL-OPTIONS..: print what monitoring systems get.
scrape() {
	local host=$1
	shift
	on "$host" curl -sS --max-time 10 "$@"
}

@test "metrics: OpenMetrics by smcrctl, on a Unix socket and over TCP, and nothing else" {
	hosts_up 1500
	printf '%s\n' "metrics_socket = $HOSTS_DIR/metrics.sock" "metrics_address = $SERVER:9469" \
		'link_timeout_milliseconds = 4000' >"$HOSTS_DIR/a.conf"
	echo 'link_timeout_milliseconds = 4000' >"$HOSTS_DIR/b.conf"
	smcrd_start a
	smcrd_start b
	steady_pair --pingpong 2
	metrics a >"$HOSTS_DIR/samples"
	grep -q '^smcrd_connections mode=smcr 2' "$HOSTS_DIR/samples"
	[ "$(metric b smcrd_connections_established_total role=client,version=1)" = 2 ]
	[ "$(metric a smcrd_links device=soft:eth0)" = 1 ]
	# HTTP gives the same names.
	scrape a --unix-socket "$HOSTS_DIR/metrics.sock" http://smcrd/metrics |
		"$HOSTS_ROOT/tests/lib/openmetrics.py" | awk '{ print $1, $2 }' >"$HOSTS_DIR/by-socket"
	scrape b "http://$SERVER:9469/metrics" |
		"$HOSTS_ROOT/tests/lib/openmetrics.py" | awk '{ print $1, $2 }' >"$HOSTS_DIR/by-tcp"
	awk '{ print $1, $2 }' "$HOSTS_DIR/samples" | diff - "$HOSTS_DIR/by-socket"
	diff "$HOSTS_DIR/by-socket" "$HOSTS_DIR/by-tcp"
	run -0 scrape b -o /dev/null -w '%{http_code} %{content_type}' "http://$SERVER:9469/metrics"
	[ "$output" = '200 application/openmetrics-text; version=1.0.0; charset=utf-8' ]
	run -0 scrape b -o /dev/null -w '%{http_code}' "http://$SERVER:9469/"
	[ "$output" = 404 ]
	run -0 scrape b -o /dev/null -w '%{http_code}' -d x=y "http://$SERVER:9469/metrics"
	[ "$output" = 405 ]
	# Clients that open connections and send nothing do not keep others out.
	start_on b python3 -c 'import signal, socket, sys
sockets = [socket.create_connection((sys.argv[1], 9469)) for _ in range(80)]
print("open", flush=True)
signal.pause()' "$SERVER" >"$HOSTS_DIR/idle.out"
	idle_pid=$!
	until_true 20 grep -q open "$HOSTS_DIR/idle.out"
	scrape b "http://$SERVER:9469/metrics" | "$HOSTS_ROOT/tests/lib/openmetrics.py" >/dev/null
	kill "$idle_pid"
	wait "$idle_pid" || true
	# A reload can change the address.
	sed -i 's/:9469/:9470/' "$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a config reload
	run -7 scrape b "http://$SERVER:9469/metrics" # nobody listens there
	run -0 scrape b -o /dev/null "http://$SERVER:9470/metrics"
	run -0 scrape a -o /dev/null --unix-socket "$HOSTS_DIR/metrics.sock" http://smcrd/metrics
	steady_end
	daemon_ends a || false
	[ ! -e "$HOSTS_DIR/metrics.sock" ]
}

@test "a metrics address that is taken is told, and does not keep smcrd from serving" {
	hosts_up 1500
	echo "metrics_socket = $HOSTS_DIR" >"$HOSTS_DIR/a.conf"
	smcrd_start a
	grep -q "monitoring systems cannot ask for metrics: $HOSTS_DIR is in the way" "$HOSTS_DIR/a.log"
	run -0 smcrctl_on a metrics
	# A reload reports the failure to its caller, tries again each time, and leaves open the socket that works.
	echo "metrics_socket = $HOSTS_DIR/metrics.sock" >"$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a config reload
	[[ "$output" != *"Not yet"* ]]
	mkdir "$HOSTS_DIR/taken"
	echo "metrics_socket = $HOSTS_DIR/taken" >"$HOSTS_DIR/a.conf"
	for _ in 1 2; do
		run -0 smcrctl_on a config reload
		[[ "$output" == *"Not yet:"*"$HOSTS_DIR/taken is in the way"*"they still can at $HOSTS_DIR/metrics.sock; a reload tries again"* ]]
		run -0 scrape a -o /dev/null --unix-socket "$HOSTS_DIR/metrics.sock" http://smcrd/metrics
	done
	rmdir "$HOSTS_DIR/taken"
	run -0 smcrctl_on a config reload
	[ "$output" = "No value has changed." ]
	# The log tells which user has a port.
	start_on a python3 -c 'import os, signal, socket, sys
os.setuid(12345)
taken = socket.create_server((sys.argv[1], 9469))
signal.pause()' "$SERVER"
	until_true 5 tcp_listens a 9469
	printf '%s\n' "metrics_socket = $HOSTS_DIR/taken" "metrics_address = $SERVER:9469" >"$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a config reload
	[[ "$output" == *"Not yet:"*"cannot listen on $SERVER:9469: Address already in use, by user 12345; a reload tries again"* ]]
	echo "metrics_socket = $HOSTS_DIR/taken" >"$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a config reload
	run -0 scrape a -o /dev/null --unix-socket "$HOSTS_DIR/taken" http://smcrd/metrics
	[ ! -e "$HOSTS_DIR/metrics.sock" ]
	run -2 smcrctl_on a config set metrics_socket ""
	[[ "$output" == *"metrics_socket: changes by the files only"* ]]
	echo 'metrics_address = localhost:1' >"$HOSTS_DIR/b.conf"
	run -1 on b "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/b.conf" --socket "$HOSTS_DIR/x.sock"
	[[ "$output" == *"metrics_address: 'localhost:1' is not an address and port"* ]]
}

@test "1,000 connections: rmb, stats and metrics have all of them" {
	hosts_up 1500
	for host in a b; do
		echo 'short_connection_rate = 0' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	mkfifo "$HOSTS_DIR/lines"
	exec {lines}<>"$HOSTS_DIR/lines"
	start_on a "$RUN" "$PROGRAMS/crowd" serve "$SERVER" 5001 >/dev/null {lines}>&-
	until_true 10 tcp_listens a 5001
	on b "$RUN" --require "$PROGRAMS/crowd" connect "$SERVER" 5001 1000 \
		<"$HOSTS_DIR/lines" >"$HOSTS_DIR/crowd.out" 2>&1 3>&- {lines}>&- &
	until_true 60 grep -qx open "$HOSTS_DIR/crowd.out"
	for host in a b; do
		until_true 10 shows "$host" connection '[.[] | select(.mode == "smcr")] | length == 1000'
		[ "$(metric "$host" smcrd_connections mode=smcr)" = 1000 ]
		shows "$host" connection 'length == 1000 and all(.program == "crowd")'
		[ "$(show "$host" rmb '[.[] | select(.kind == "rmb").owners[]] | unique | length')" = 1000 ]
		[ "$(show "$host" rmb '[.[] | select(.kind == "send").owners[]] | unique | length')" = 1000 ]
		until_true 10 shows "$host" stats '.tx.bytes >= 64000 and .rx.bytes >= 64000'
		# The number of samples does not grow with connections.
		[ "$(metrics "$host" | wc -l)" -lt 300 ]
	done
	shows a info '[.event_loop[] | objects | .long_turns] | add < 1000' # the values exist and are numbers
	exec {lines}>&-
	until_true 60 grep -qx closed "$HOSTS_DIR/crowd.out"
}
