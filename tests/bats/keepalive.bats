#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# TCP keepalives on the TCP connection beside SMC-R (RFC 7609 4.5.3): they are sent as the program has set them, the
# kernel answers them, and the data path does not notice.
bats_require_minimum_version 1.5.0
load common

# keepalive_client NAME IDLE before|after: start a client; it connects over SMC-R, exchanges bytes, and is then idle.
keepalive_client() {
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	talk_start "$1" b "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" \
		keepalive-client "$SERVER" 7001 "$2" "$3"
	tell "$1" hello
}

# probes_answered NAME N: has the client sent N keepalives or more, and the server's host answered as
# many?
probes_answered() {
	[ "$(capture_fields "$1" "tcp.analysis.keep_alive && ip.src == $CLIENT" tcp.len | wc -l)" -ge "$2" ] &&
		[ "$(capture_fields "$1" "tcp.analysis.keep_alive_ack && ip.src == $SERVER" tcp.len | wc -l)" -ge "$2" ]
}

# keepalive_timer HOST: seconds until the kernel sends the next keepalive on the connection to port 7001. Prints
# nothing while the kernel waits for something else, such as an acknowledgement.
keepalive_timer() {
	on "$1" ss -Htno "dport = :7001" |
		sed -n 's/.*timer:(keepalive,\(\([0-9]*\)min\)\?\([0-9]*\).*/\2 \3/p' |
		awk '{ print NF == 2 ? 60 * $1 + $2 : $1 }'
}

flow_and_are_answered() { # before|after
	two_daemons
	capture_start sw br0 tcp tcp port 7001
	keepalive_client client 1 "$1"
	until_true 15 probes_answered tcp 3
	# only the kernels have noticed the keepalives
	tell client again
	shows b connection '[.[] | select(.mode == "smcr" and .state == "active")] | length == 1'
	shows a connection '[.[] | select(.mode == "smcr" and .state == "active")] | length == 1'
	[ -z "$(capture_fields tcp "tcp.flags.reset == 1 || tcp.flags.fin == 1" tcp.len)" ]
	capture_stop tcp
}

@test "keepalives that the program asked for before connect() flow and are answered" {
	flow_and_are_answered before
	proves TEST-6 TEST-7
}

@test "keepalives that the program asked for after connect() flow and are answered" {
	flow_and_are_answered after
	proves TEST-6 TEST-7
}

@test "the configuration bounds how often keepalives flow; the program sees its own times" {
	hosts_up 1500
	echo "tcp_keepalive_min_seconds = 90" >"$HOSTS_DIR/b.conf"
	smcrd_start a
	smcrd_start b
	keepalive_client client 2 before
	until_true 5 eval 'timer=$(keepalive_timer b); [ -n "$timer" ]'
	[ "$timer" -gt 60 ]
	[ "$timer" -le 90 ]
	tell client again
	talk_kill client
	until_true 5 eval '[ -z "$(keepalive_timer b)" ]' # of that connection
	keepalive_client client 2 after
	until_true 5 eval 'timer=$(keepalive_timer b); [ -n "$timer" ]'
	[ "$timer" -gt 60 ]
	[ "$timer" -le 90 ]
	proves TEST-7
}
