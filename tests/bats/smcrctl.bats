#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What operators see and do: smcrctl, errors in the configuration, and who holds a socket or a port.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

@test "smcrctl without a daemon exits 3 and says so" {
	run -3 "$HOSTS_BUILD/bin/smcrctl" -s "$BATS_TEST_TMPDIR/nobody.sock" info
	[[ "$output" == *"no smcrd answers on $BATS_TEST_TMPDIR/nobody.sock: "*"; start it: systemctl start smcrd ("* ]]
	run -3 "$HOSTS_BUILD/bin/smcrctl" -j -s "$BATS_TEST_TMPDIR/nobody.sock" link
	[[ "$output" == *'"code":"no-daemon"'* ]]
}

@test "wrong usage exits 2, prefixes are found, an exact word beats a prefix" {
	two_daemons
	run -2 smcrctl_on a
	run -2 smcrctl_on a nonsense
	run -2 smcrctl_on a link explode
	run -2 smcrctl_on a --nonsense
	run -2 smcrctl_on a l
	[[ "$output" == *"may be linkgroup or log"* ]]
	run -0 smcrctl_on a link
	[[ "$output" == LINK* ]]
	run -0 smcrctl_on a dev sh
	[[ "$output" == *soft:eth0* ]]
	run -0 smcrctl_on a --help
	run -0 smcrctl_on a --version
}

@test "an interface that appears later becomes a device, which ends with the interface" {
	hosts_up 1500
	smcrd_start a
	ip -n "$HOSTS_ID-a" link add late0 type veth peer name late1
	ip -n "$HOSTS_ID-a" addr add 10.78.0.1/24 dev late0
	ip -n "$HOSTS_ID-a" link set late1 up
	ip -n "$HOSTS_ID-a" link set late0 up
	until_true 5 shows a device '[.[] | select(.name == "soft:late0" and .state == "active")] | length == 1'
	ip -n "$HOSTS_ID-a" link set late0 down
	until_true 5 shows a device '[.[] | select(.name == "soft:late0" and .state == "down")] | length == 1'
	ip -n "$HOSTS_ID-a" link del late0
	until_true 5 shows a device 'length == 2'
}

@test "every show has its JSON keys, with arrays that stay arrays" {
	two_daemons
	for object in device linkgroup link connection; do
		[ "$(show a "$object" type)" = array ]
	done
	[ "$(show a device length)" = 2 ]
	run -0 show a device '.[0] | keys | join(" ")'
	for key in name kind port state netdev gids mtu pnetid links critical; do
		[[ " $output " == *" $key "* ]]
	done
	shows a info '.tcp_option.available == true and .tcp_option.error == null'
}

@test "a user who holds the directory of the socket does not keep smcrd from starting" {
	hosts_up 1500
	flock "$HOSTS_DIR" -c "touch '$HOSTS_DIR/held'; exec sleep 60" &
	local holder=$!
	until_true 10 test -e "$HOSTS_DIR/held"
	smcrd_start a
	run -0 smcrctl_on a info
	kill -0 "$holder" # the other process has held the directory all the time
	kill "$holder"
}

@test "event: groups and links that came and went, why, and who commanded it" {
	two_daemons_with_patient_links
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --pingpong 2
	until_true 10 shows a event '[.[] | select(.event == "link-up")] | length == 2'
	first='[.[] | select(.event == "group-up")][0]'
	shows a event '.[0].id == 1'
	shows a event "$first | .linkgroup == 1 and .peer == \"10.77.0.2\" and .link == null and .rnic == null"
	shows b event "$first | .peer == \"10.77.0.1\""
	shows a linkgroup '.[0].peer == "10.77.0.2"'
	shows a event "[.[] | .time_us / 1e6 | . > ${EPOCHREALTIME%.*} - 600 and . < ${EPOCHREALTIME%.*} + 60] | all"
	link=$(show a connection '.[0].link')
	run -0 smcrctl_on a link delete "1/$link"
	until_true 10 shows a event "[.[] | select(.event == \"link-deleted\" and .link == $link)] | length == 1"
	shows a event '.[] | select(.event == "link-deleted") | .connections > 0 and (.text | contains("an operator wants it"))'
	until_true 10 shows b event '[.[] | select(.event == "link-deleted")] | length == 1'
	until_true 10 shows a event '[.[] | select(.event == "command")] | length == 1'
	shows a event ".[] | select(.event == \"command\") | .text | startswith(\"link.delete\") and contains(\"by uid 0\")"
	run -4 smcrctl_on a link delete 1/99
	shows a event '[.[] | select(.event == "command")][-1].text | endswith("link group 1 has no link 99; \u0027smcrctl link\u0027 lists them")'
	run -0 smcrctl_on a event
	[[ "$output" == TIME* ]]
	[[ "$output" == *"link group 1 with peer 10.77.0.2 is up"* ]]
	steady_stop client
	steady_stop server
}

# rows OBJECT FILTER..: how many rows smcrctl shows on host a
rows() {
	smcrctl_on a -j "$1" show "${@:2}" | jq ".$1 | length"
}

@test "filters: smcrd leaves out rows that do not match" {
	two_daemons_with_patient_links
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --pingpong 3
	until_true 10 shows a connection '[.[] | select(.state == "active")] | length == 3'
	until_true 10 shows a event '[.[] | select(.event == "link-up")] | length == 2'
	run -4 smcrctl_on a link delete 77/1 # makes an event without a peer
	for filter in "peer $CLIENT" "group 1" "peer ::ffff:$CLIENT"; do
		for object in linkgroup:1 link:2 connection:3 event:3; do
			# shellcheck disable=SC2086
			[ "$(rows "${object%:*}" $filter)" = "${object#*:}" ]
		done
	done
	for filter in "peer 10.77.0.99" "group 7"; do
		for object in linkgroup link connection event; do
			# shellcheck disable=SC2086
			[ "$(rows "$object" $filter)" = 0 ]
		done
	done
	port=$(show b connection '.[0].local | sub(".*:"; "")')
	[ "$(rows connection port 7100)" = 3 ]
	[ "$(rows connection port "$port")" = 1 ]
	[ "$(rows connection port 7100 mode smcr state ACTIVE uid root)" = 3 ]
	[ "$(rows connection pid "$(show a connection '.[0].pid')")" = 3 ]
	[ "$(rows connection pid 1)" = 0 ]
	[ "$(rows connection uid 65534)" = 0 ]
	[ "$(rows connection state init)" = 0 ]
	[ "$(rows connection mode tcp)" = 0 ]
	[ "$(rows link state active peer "$CLIENT")" = 2 ]
	[ "$(rows link state failed)" = 0 ]
	shows a link 'all(.[]; .peer == "10.77.0.2")'
	run -2 smcrctl_on a connection show mode fast
	[[ "$output" == *"'fast' is no mode; there is: pending, smcr, tcp"* ]]
	run -2 smcrctl_on a connection show peer localhost
	[[ "$output" == *"'localhost' is no address"* ]]
	run -2 smcrctl_on a connection show prot 80
	[[ "$output" == *"it can be by: peer ADDRESS, port NUMBER, pid NUMBER, uid USER, mode MODE, state STATE, group GROUP"* ]]
	steady_stop client
	steady_stop server
}

@test "peer: a row for each host, with what there is and what went wrong" {
	two_daemons_with_patient_links
	shows a peer '. == []'
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --pingpong 2
	until_true 10 shows a peer '.[0].links == 2'
	shows a peer 'length == 1 and .[0].peer == "10.77.0.2" and .[0].linkgroups == 1 and .[0].connections == 2'
	until_true 10 shows a peer '.[0].tx_bytes > 0 and .[0].rx_bytes > 0'
	shows a peer '.[0].skipped_seconds_left == null and .[0].failures == [] and .[0].last_event.event == "link-up"'
	run -0 smcrctl_on a peer
	[[ "$output" =~ 10\.77\.0\.2\ +-\ +1\ +2\ +2\ .*\ no\  ]]
	[ "$(rows peer peer 10.77.0.2)" = 1 ]
	[ "$(rows peer peer 10.77.0.3)" = 0 ]
	run -2 smcrctl_on a peer show peer nobody
	[[ "$output" == *"'nobody' is no address"* ]]
	steady_stop client
	steady_stop server
}

# live_events FILTER: is the jq filter true for the array of events that the monitor has printed?
live_events() {
	jq -es "$1" "$HOSTS_DIR/live.out" >/dev/null
}

@test "monitor: events as they happen, until it is interrupted or smcrd ends" {
	two_daemons_with_patient_links
	start_on a "$HOSTS_BUILD/bin/smcrctl" -j monitor >"$HOSTS_DIR/live.out"
	live=$!
	say_and_hear() { # when this succeeds, the monitor waits for events and will miss none
		run -4 smcrctl_on a link delete 77/1
		live_events 'length > 0'
	}
	until_true 10 say_and_hear
	before=$(show a event '.[-1].id')
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --pingpong 2
	until_true 10 live_events '[.[].event | select(.event == "link-up")] | length == 2'
	live_events 'all(.[]; .schema == 1) and ([.[].event.id] | . == [range(.[0]; .[-1] + 1)])'
	live_events "[.[].event | select(.id > $before)][0] | .event == \"group-up\" and .peer == \"10.77.0.2\""
	# every user may monitor, and all monitors get the event
	chmod 711 "$HOSTS_DIR"
	for i in 1 2 3 4 5; do
		start_on a setpriv --reuid 65534 --regid 65534 --clear-groups \
			"$HOSTS_BUILD/bin/smcrctl" monitor --number 1000 >"$HOSTS_DIR/people$i.out"
	done
	link=$(show a connection '.[0].link')
	run -0 smcrctl_on a link delete "1/$link"
	until_true 10 live_events "any(.[].event; .event == \"link-deleted\" and .link == $link)"
	for i in 1 2 3 4 5; do
		until_true 10 grep -q "^20.*  link-deleted  link 1/$link on .* with peer 10.77.0.2 is deleted" \
			"$HOSTS_DIR/people$i.out"
		head -3 "$HOSTS_DIR/people$i.out" | grep -q 'link.delete.*there is no link group 77'
	done
	kill -INT "$live"
	wait "$live"
	steady_stop client
	steady_stop server
	start_on a "$HOSTS_BUILD/bin/smcrctl" -j monitor >"$HOSTS_DIR/live.out" 2>"$HOSTS_DIR/live.err"
	live=$!
	until_true 10 say_and_hear
	kill "$SMCRD_PID_a"
	wait "$SMCRD_PID_a"
	status=0
	wait "$live" || status=$?
	[ "$status" = 3 ]
	grep -q 'smcrd has ended' "$HOSTS_DIR/live.err"
	live_events '.[-1].error.code == "no-daemon"'
}

@test "an error in the configuration names file, line and key" {
	hosts_up 1500
	printf '# one\nmax_links = 99\n' >"$HOSTS_DIR/bad.conf"
	run -1 on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/bad.conf"
	[[ "$output" == *"$HOSTS_DIR/bad.conf:2: max_links:"* ]]
	run -1 on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/missing.conf"
	[[ "$output" == *"$HOSTS_DIR/missing.conf: No such file"* ]]
	run -2 on a "$HOSTS_BUILD/bin/smcrd" --nonsense
	: >"$HOSTS_DIR/ok.conf"
	run -1 on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/ok.conf" \
		--socket "$HOSTS_DIR/x.sock" --rnic soft:nosuch0
	[[ "$output" == *nosuch0* ]]
}

# hold_port: another program has UDP port 4791 of host a
hold_port() {
	talk_start holder a /usr/bin/python3 -c '
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("", 4791))
for line in sys.stdin:
    print("ok", flush=True)'
	tell holder there
}

@test "where its socket or its port is taken, smcrd says who holds it" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	hold_port
	run -1 on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" \
		--socket "$HOSTS_DIR/other.sock" --rnic soft:eth0
	echo "$output"
	[[ "$output" == *"soft:eth0"*4791*"python3"*"${TALK_PID[holder]}"* ]]
	# the same socket, in two network namespaces
	smcrd_start b
	run -1 on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/b.sock"
	echo "$output"
	[[ "$output" == *"$HOSTS_DIR/b.sock is held by smcrd pid $SMCRD_PID_b of user 0: stop it, or choose another socket with --socket"* ]]
	answers b
}

@test "where each RNIC is taken, and where the socket has no directory, smcrd says what to do" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	hold_port
	run -1 on a timeout 30 "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/none/at/all/a.sock"
	echo "$output"
	[[ "$output" == *"cannot bind UDP "*"address in use by python3"*" (pid ${TALK_PID[holder]})"* ]]
	# Both interfaces have an address: that is not what is missing.
	[[ "$output" == *"no RNIC is usable, for the reasons above: connections stay TCP until one is"* ]]
	[[ "${lines[-1]}" == *"cannot listen on $HOSTS_DIR/none/at/all/a.sock: No such file or directory; make its directory, or choose another path" ]]
	for nic in eth0 eth1; do ip -n "$HOSTS_ID-b" addr flush dev "$nic"; done
	smcrd_start b
	grep -q 'no RNIC is usable: connections stay TCP until an Ethernet interface has an IPv4 address' "$HOSTS_DIR/b.log"
}

@test "a user who may not enter the directory of smcrd's socket is told so, and the user's programs use SMC-R" {
	local nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	two_patient_daemons
	echo_server_on_a "$RUN"
	chmod 700 "$HOSTS_DIR"
	run -1 on b "${nobody[@]}" "$HOSTS_BUILD/bin/smcrctl" info
	[ "$output" = "smcrctl: $HOSTS_DIR/b.sock: no permission to talk to smcrd; 'smcrctl doctor' tells what to do" ]
	run -1 on b "${nobody[@]}" "$HOSTS_BUILD/bin/smcrctl" doctor
	[[ "${lines[0]}" == *"no permission to talk to smcrd; let users reach its directory (chmod a+x), or run this as root" ]]
	# Programs reach smcrd at its abstract address.
	run -0 on b "${nobody[@]}" "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	[[ "$output" == *" > $SERVER:7001: SMC-R"* && "$output" != *"no smcrd at"* ]]
	# Not where another user's process has it.
	daemon_ends b || false
	run -0 on b "${nobody[@]}" "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	[[ "$output" == *"smcr-run: no smcrd at $HOSTS_DIR/b.sock: Permission denied; connections are plain TCP"* ]]
}

@test "what is not there is named, with the command that lists what is" {
	hosts_up 1500
	smcrd_start a
	run -4 smcrctl_on a link test 9/9
	[ "$output" = "smcrctl: there is no link group 9; 'smcrctl linkgroup' lists them" ]
	run -4 smcrctl_on a ueid remove NONE
	[ "$output" = "smcrctl: there is no UEID NONE; 'smcrctl ueid' lists them" ]
	run -4 smcrctl_on a policy delete deny port 1
	[ "$output" = "smcrctl: there is no rule \"deny port 1\"; 'smcrctl policy' lists them" ]
	run -4 smcrctl_on a policy forget 192.0.2.1
	[ "$output" = "smcrctl: nothing is remembered of that; 'smcrctl policy' shows what is" ]
	run -2 smcrctl_on a policy forget host.example
	[ "$output" = "smcrctl: 'host.example' is no address of a peer: IPv4 or IPv6, not a name" ]
	run -1 smcrctl_on a capture --seconds 1 -w /dev/full
	[[ "$output" == *"/dev/full: No space left on device"* ]]
}

@test "where BPF is not permitted smcrd says so once and connections stay TCP" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	start_on a capsh --drop=cap_bpf,cap_sys_admin -- -c "exec '$HOSTS_BUILD/bin/smcrd' \
		--foreground --config '$HOSTS_DIR/a.conf' --socket '$HOSTS_DIR/a.sock'" \
		>"$HOSTS_DIR/a.log" 2>&1
	until_true 10 answers a
	shows a info '.tcp_option.available == false and (.tcp_option.error | length) > 10'
	[ "$(grep -c 'the SMC-R TCP option cannot be used' "$HOSTS_DIR/a.log")" = 1 ]
	web_server a "$SERVER" "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	[ "$(on b curl -sS "http://$SERVER:8080/hello")" = hello ]
}

@test "without BPF, hosts of a capable_subnet are assumed to run smcrd" {
	hosts_up 1500
	for host in a b; do
		echo "capable_subnet = 10.77.0.0/24" >"$HOSTS_DIR/$host.conf"
		start_on "$host" capsh --drop=cap_bpf,cap_sys_admin -- -c "exec '$HOSTS_BUILD/bin/smcrd' \
			--foreground --config '$HOSTS_DIR/$host.conf' --socket '$HOSTS_DIR/$host.sock'" \
			>"$HOSTS_DIR/$host.log" 2>&1
		until_true 10 answers "$host"
	done
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	for way in block epoll; do
		on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000 --way "$way"
	done
	[ "$(show b info .connections.established_total)" = 2 ]
}

@test "smcrd in the background returns when it serves and reports failure by its status" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	run -0 on a "$HOSTS_BUILD/bin/smcrd" --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock"
	answers a
	run -3 on a "$HOSTS_BUILD/bin/smcrd" --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock"
	[ -n "$output" ]
}

@test "SIGTERM stops the daemon in order and leaves nothing" {
	two_daemons
	web_server a "$SERVER" "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	[ "$(on b "$RUN" --require curl -sS "http://$SERVER:8080/hello")" = hello ]
	kill "$SMCRD_PID_b"
	wait "$SMCRD_PID_b"
	[ ! -e "$HOSTS_DIR/b.sock" ]
	[ -z "$(ip -n "$HOSTS_ID-b" neigh show nud permanent)" ]
	# TERM-1: the client's daemon asked for the end of the link group
	until_true 5 shows a linkgroup 'length == 0'
	kill "$SMCRD_PID_a"
	wait "$SMCRD_PID_a"
	proves TERM-1
}
