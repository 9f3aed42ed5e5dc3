#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# Which connections use SMC-R: the administrator's rules, what smcrd has learnt, and connections inside a host.
bats_require_minimum_version 1.5.0
load common

# conf HOST [LINE..]: write its configuration. connect() waits for the outcome of the rendezvous, even on a busy
# machine.
conf() {
	local host=$1
	shift
	printf '%s\n' 'connect_wait_milliseconds = 10000' "$@" >"$HOSTS_DIR/$host.conf"
}

# daemons: start both hosts with such a configuration
daemons() {
	hosts_up 1500
	conf a
	conf b
	smcrd_start a
	smcrd_start b
}

# echo_server HOST PORT [COMMAND..]: start an echo server under smcr-run, which COMMAND starts
echo_server() {
	local host=$1 port=$2 address=$CLIENT
	[ "$host" = b ] || address=$SERVER
	shift 2
	start_on "$host" "$@" "$RUN" "$PROGRAMS/echo_server" "$address" "$port"
	until_true 5 tcp_listens "$host" "$port"
}

# ask PORT [COMMAND..]: connect from host b to a, and print "SMC-R", or the reason for TCP.
ask() {
	local port=$1
	shift
	on b "$@" "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" "$port" --bytes 1000 2>&1 |
		sed -En 's/^smcr-run\[.*: (SMC-R)$/\1/p; s/^smcr-run\[.*TCP: ([a-z-]+): .*/\1/p'
}

# hits HOST RULE: how often the rule has decided
hits() {
	show "$1" policy ".rules[] | select(.rule == \"$2\") | .hits"
}

@test "rules of smcrd.conf: denied connections are TCP from their first packet, and counted" {
	hosts_up 1500
	conf b 'deny = port 7002' 'deny = program /usr/bin/env'
	conf a 'deny = port 7003'
	smcrd_start a
	smcrd_start b
	for port in 7001 7002 7003; do echo_server a $port; done
	capture_start b eth0 wire tcp
	[ "$(ask 7001)" = SMC-R ]
	[ "$(ask 7002)" = local-policy ]
	[ "$(ask 7003)" = peer-no-smc ]
	# SMC-R was not promised, so nothing had to be declined.
	capture_stop wire
	[ -z "$(capture_fields wire 'tcp.port == 7002 && tcp.option_kind == 254' frame.number)" ]
	[ -z "$(capture_fields wire 'tcp.srcport == 7003 && tcp.option_kind == 254' frame.number)" ]
	[ "$(hits b 'deny port 7002')" = 1 ]
	[ "$(hits b 'deny program /usr/bin/env')" = 0 ]
	[ "$(hits a 'deny port 7003')" = 1 ]
	shows b policy '.rules[0] == {rule: "deny port 7002", action: "deny", configured: true, hits: 1}'
	shows a info '.connections.fallbacks_total == 0'
	shows b info '.connections.fallbacks_total == 0'
	proves TCPO-8
}

@test "smcrctl policy changes rules while the daemon runs" {
	daemons
	echo_server a 7001
	run -0 smcrctl_on b policy
	[[ "$output" == "No rule"* ]]
	run -0 smcrctl_on b policy add deny port 7001
	[[ "$output" == "deny port 7001: new connections go by it"* ]]
	grep -q 'policy.add .*deny port 7001.*by uid 0, pid .*new connections go by it' "$HOSTS_DIR/b.log"
	[ "$(ask 7001)" = local-policy ]
	run -1 smcrctl_on b policy add deny port 7001
	[[ "$output" == *already* ]]
	run -2 smcrctl_on b policy add deny ports 7001
	[[ "$output" == *"'ports' is not uid, program, port"* ]]
	run -2 smcrctl_on b policy add deny uid no-such-user
	[[ "$output" == *"no user 'no-such-user'"* ]]
	run -2 smcrctl_on b policy add
	run -2 smcrctl_on b policy delete
	run -4 smcrctl_on b policy delete deny port 7002
	run -0 smcrctl_on b policy
	[[ "$output" == *"deny port 7001"*smcrctl*1* ]]
	smcrctl_on b policy delete deny port 7001
	[ "$(ask 7001)" = SMC-R ]
	# the same on the server's side
	smcrctl_on a policy add deny peer "$CLIENT/32"
	[ "$(ask 7001)" = peer-no-smc ]
	[ "$(hits a "deny peer $CLIENT")" = 1 ]
	smcrctl_on a policy delete deny peer "$CLIENT"
	# only what a rule allows
	smcrctl_on b policy add allow port 7002
	[ "$(ask 7001)" = local-policy ]
	shows b policy '.default == "deny" and .default_hits == 1'
	run -0 smcrctl_on b policy
	[[ "$output" == *"What no rule allows is denied: 1 connection so far"* ]]
	smcrctl_on b policy add allow local 10.77.0.0/24
	[ "$(ask 7001)" = SMC-R ]
}

@test "rules by user and program, of the client and of the server" {
	daemons
	chmod 711 "$HOSTS_DIR"
	echo_server a 7001
	echo_server a 7002 setpriv --reuid nobody --clear-groups
	client=$(readlink -f "$PROGRAMS/echo_client") server=$(readlink -f "$PROGRAMS/echo_server")
	smcrctl_on b policy add deny uid nobody
	[ "$(ask 7001)" = SMC-R ]
	[ "$(ask 7001 setpriv --reuid nobody --clear-groups)" = local-policy ]
	[ "$(hits b "deny uid $(id -u nobody)")" = 1 ]
	smcrctl_on b policy delete deny uid nobody
	smcrctl_on b policy add deny program "$client" port 7001
	[ "$(ask 7001)" = local-policy ]
	[ "$(ask 7002)" = SMC-R ]
	smcrctl_on b policy delete deny program "$client" port 7001
	# the server
	smcrctl_on a policy add deny uid nobody
	[ "$(ask 7001)" = SMC-R ]
	[ "$(ask 7002)" = peer-no-smc ]
	smcrctl_on a policy delete deny uid nobody
	smcrctl_on a policy add deny program "$server" port 7001-7001
	[ "$(ask 7001)" = peer-no-smc ]
	[ "$(ask 7002)" = SMC-R ]
}

@test "only root and the administrators' group change rules" {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	smcrd_start a
	as_nobody() {
		setpriv --reuid nobody --regid nogroup --clear-groups \
			"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" "$@"
	}
	as_nobody policy
	for command in "add deny all" "delete deny all" "forget port 1"; do
		# shellcheck disable=SC2086
		run -1 as_nobody -j policy $command
		[[ "$output" == *'"code":"not-permitted"'* ]]
	done
	shows a policy '.rules == []'
}

# accepts_late: start a server on host a, port 7001, that accepts and echoes when it is told to
accepts_late() {
	talk_start late a "$RUN" python3 -c '
import socket, sys
listener = socket.create_server(("10.77.0.1", 7001))
print("ready", flush=True)
sys.stdin.readline()
conn, _ = listener.accept()
while data := conn.recv(65536):
    conn.sendall(data)
'
	[ "$(talk_hear late)" = ready ]
}

@test "a rule that comes between handshake and hand-over: declined, local policy" {
	daemons
	accepts_late
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	client=$!
	until_true 5 shows b connection '[.[] | select(.mode == "pending")] | length == 1'
	smcrctl_on a policy add deny port 7001
	talk_send late accept
	wait "$client"
	until_true 5 shows a connection '[.[] | select(.mode == "tcp" and .fallback_reason == "local-policy")] | length == 1'
	until_true 5 shows b connection '[.[] | select(.peer_fallback_reason == "local-policy")] | length == 1'
	[ "$(hits a 'deny port 7001')" = 1 ]
	proves RV-3
}

# own_host TO [FROM]: is a connection of host a between these addresses plain TCP, because both ends are on host a?
own_host() {
	local url="http://$1:7001/" from=${2:-$1} server output status=0
	[[ $1 != *:* ]] || url="http://[$1]:7001/"
	start_on a "$RUN" python3 -m http.server --bind "$1" 7001 >"$HOSTS_DIR/http.out" 2>&1
	server=$!
	until_true 5 tcp_listens a 7001
	output=$(on a "$RUN" -v curl -gsS --interface "$from" "$url" 2>&1) || status=$?
	kill "$server"
	wait "$server" 2>/dev/null || true
	[[ "$status" == 0 && "$output" == *"TCP: own-host: both ends are on this host"* ]]
}

# left_alone SECONDS: print a host that leaves the other one to TCP for so long. Both hosts may do so, if each notices
# the failure before the other declines.
left_alone() {
	local host
	for host in b a; do
		shows "$host" policy ".failed | any(.port == null and .kind == \"path\" and
			.skipped_seconds == $1 and (.text | contains(\"RoCE\")))" || continue
		grep -q "is left to TCP for $1 s, for user [0-9]*: RoCE" "$HOSTS_DIR/$host.log" && echo "$host" && return
	done
	return 1
}

@test "a peer that fails is left alone longer each time, until it works again" {
	hosts_up 1500
	for host in a b; do
		conf $host 'skip_seconds = 10' # long enough for a slow machine to ask again meanwhile
		smcrd_start $host
	done
	echo_server a 7001
	block_roce a
	for seconds in 10 20; do
		[[ "$(ask 7001)" != SMC-R ]]
		host=$(left_alone "$seconds")
		run -0 ask 7001
		[ "$output" = peer-skipped ] || [ "$output" = peer-no-smc ]
		for either in a b; do
			until_true 40 shows "$either" policy '.failed | all(.seconds_left == 0)'
		done
	done
	peer=$([ "$host" = b ] && echo "$SERVER" || echo "$CLIENT")
	run -0 smcrctl_on "$host" policy
	[[ "$output" == *"Peers and ports that failed"*"$peer"*all*"RoCE to this peer did not work"* ]]
	pass_roce a
	[ "$(ask 7001)" = SMC-R ]
	shows a policy '.failed == []'
	shows b policy '.failed == []'
}

refused_a_link() {
	grep -q 'could not be set up' "$HOSTS_DIR/$1.log"
}

# A program on host b that can send CLC can begin a first contact that leads nowhere. Root can always send CLC; other
# users can if smcrd's BPF programs do not keep them from it.
@test "a first contact that leads nowhere does not end SMC-R between hosts whose links work" {
	two_patient_daemons
	echo_server a 7001
	[ "$(ask 7001)" = SMC-R ]
	start_on b /usr/bin/python3 "$BATS_TEST_DIRNAME/clc_attack.py" "$SERVER" 7001 confirm "$CLIENT" \
		"$(ip -n "$HOSTS_ID-b" -j link show eth0 | jq -r '.[0].address')" >"$HOSTS_DIR/attack.out" 2>&1
	attack=$!
	until_true 20 refused_a_link a
	wait "$attack"
	shows a policy '.failed == []'
	[ "$(ask 7001)" = SMC-R ]
}

# banners: start a server that sends a greeting, on host a, ports 7001 to 7004, with claimed listeners. To the client
# this looks as if a device on the path sent the option back.
banners() {
	talk_start banners a python3 -c '
import selectors, socket
SOL_SMCR, SO_CLAIM = 0x534D4352, 1
listeners = selectors.DefaultSelector()
for port in range(7001, 7005):
    listener = socket.create_server(("10.77.0.1", port))
    listener.setsockopt(SOL_SMCR, SO_CLAIM, 1)
    listeners.register(listener, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in listeners.select():
        conn, _ = key.fileobj.accept()
        try:
            conn.sendall(b"hello\n")
            conn.shutdown(socket.SHUT_WR)
            conn.recv(1000)
        except OSError: # reset, as soon as smcrd there has seen what comes, or not connected after that
            pass
        conn.close()
'
	[ "$(talk_hear banners)" = ready ]
}

# greeting PORT: print what a program on host b reads from that server
greeting() {
	on b "$RUN" python3 -c '
import socket, sys
conn = socket.create_connection(("10.77.0.1", int(sys.argv[1])))
print(conn.makefile().read(), end="")
' "$1"
}

@test "a path that sends the option back without speaking SMC-R is noticed and left alone for long" {
	daemons
	banners
	for port in 7001 7002; do
		[ "$(greeting $port)" = hello ]
		shows b policy ".failed | any(.port == $port and .kind == \"answer\")"
	done
	shows b policy '.failed | all(.kind != "echo")'
	[ "$(greeting 7003)" = hello ]
	shows b policy ".failed | any(.peer == \"$SERVER\" and .port == null and .kind == \"echo\" and .seconds_left > 3000)"
	grep -q "$SERVER is left to TCP for 3600 s, for user [0-9]*: .*sends TCP option 254 back" "$HOSTS_DIR/b.log"
	# With the fourth port no rendezvous is tried.
	fallbacks=$(show b info .connections.fallbacks_total)
	[ "$(greeting 7004)" = hello ]
	[ "$(show b info .connections.fallbacks_total)" = "$fallbacks" ]
	# the address as 'smcrctl link' shows it among GIDs is the same
	run -1 smcrctl_on b check "::ffff:$SERVER" 7004
	[[ "$output" == *"problem: SMC-R with ::ffff:$SERVER has failed ("* ]]
	run -0 smcrctl_on b policy forget "::ffff:$SERVER" port 7001
	[[ "$output" == "1 entry is forgotten"* ]]
	run -0 smcrctl_on b policy forget "$SERVER"
	[[ "$output" == "3 entries are forgotten"* ]]
	run -4 smcrctl_on b policy forget "$SERVER"
	for arguments in "" "port" "port 0" "$SERVER 7001" "$SERVER port x" "port 1 2"; do
		# shellcheck disable=SC2086
		run -2 smcrctl_on b policy forget $arguments
	done
	run -2 smcrctl_on b policy forget nonsense
}

# short_ones N [HOST [COMMAND..]]: make N connections from HOST (b) to a that carry little
short_ones() {
	local n=$1 host=${2:-b}
	shift $(($# < 2 ? $# : 2))
	on "$host" "$@" "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --repeat "$n" --bytes 100
}

# most_are REASON [HOST [COMMAND..]]: make twenty connections in quick succession; most must be plain TCP for this reason
most_are() {
	local reason=$1 host=${2:-b} output
	shift $(($# < 2 ? $# : 2))
	output=$(on "$host" "$@" "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --repeat 20 --bytes 100 2>&1)
	[ "$(grep -c "^smcr-run\[.*TCP: $reason: " <<<"$output")" -ge 14 ]
}

@test "short connections in a row are left on TCP, but for a sample that shows a change" {
	hosts_up 1500
	conf a 'short_connection_rate = 0'
	conf b 'short_connection_rate = 2' # even a slow machine makes more a second
	smcrd_start a
	smcrd_start b
	echo_server a 7001
	# too few for a decision
	short_ones 15
	shows b policy '.learnt == [.learnt[0]] and (.learnt[0] | .left_on_tcp | not)'
	shows b info '.connections.established_total == 15'
	short_ones 200
	shows b policy ".learnt | any(.left_on_tcp and .peer == \"$SERVER\" and .port == 7001 and
		.role == \"client\" and .uid == 0 and .short_share > 0.9)"
	grep -q "connections of user 0 to $SERVER port 7001 are left on TCP but for a sample" "$HOSTS_DIR/b.log"
	most_are short-connections
	shows b policy '.learnt[0] | .left >= 14'
	run -0 smcrctl_on b policy
	[[ "$output" == *"left on TCP but for a sample"*"$SERVER"*7001*client*yes* ]]
	shows a policy '.learnt == []'
	# another port is not affected
	echo_server a 7002
	[ "$(ask 7002)" = SMC-R ]
	# Connections carry more now, which the sample of one in 32 shows.
	until_true 60 carries_more
	grep -q "connections of user 0 to $SERVER port 7001 use SMC-R again: they last longer now" "$HOSTS_DIR/b.log"
	[ "$(ask 7001)" = SMC-R ]
}

carries_more() {
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --repeat 50 --bytes 100000
	shows b policy '.learnt | all(.left_on_tcp | not)'
}

@test "short connections of a peer to a server; forgotten by an operator, and when it becomes quiet" {
	hosts_up 1500
	conf b 'short_connection_rate = 0'
	conf a 'short_connection_rate = 1'
	smcrd_start a
	smcrd_start b
	echo_server a 7001
	short_ones 500
	shows a policy ".learnt | any(.left_on_tcp and .peer == \"$CLIENT\" and .port == 7001 and .role == \"server\")"
	most_are peer-no-smc
	run -4 smcrctl_on a policy forget port 7002
	smcrctl_on a policy forget port 7001
	shows a policy '.learnt == []'
	[ "$(ask 7001)" = SMC-R ]
	short_ones 500
	shows a policy '.learnt | any(.left_on_tcp)'
	until_true 30 shows a policy '.learnt | all(.left_on_tcp | not)'
	grep -q "connections of $CLIENT to $SERVER port 7001 of user 0 use SMC-R again: there are few of them" "$HOSTS_DIR/a.log"
	[ "$(ask 7001)" = SMC-R ]
}

@test "a user's short connections to a port leave those of other users alone, on both hosts" {
	nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	conf a 'short_connection_rate = 2'
	conf b 'short_connection_rate = 2'
	smcrd_start a
	smcrd_start b
	echo_server a 7001
	short_ones 1500 b "${nobody[@]}"
	shows b policy '.learnt | any(.left_on_tcp and .uid == 65534)'
	most_are short-connections b "${nobody[@]}"
	# host a cannot tell the users of host b apart, and lets host b decide
	shows a policy ".learnt | any(.peer == \"$CLIENT\" and (.left_on_tcp | not))"
	[ "$(ask 7001)" = SMC-R ]
	[ "$(ask 7001 setpriv --reuid 65533 --regid 65533 --clear-groups)" = SMC-R ]
	run -0 smcrctl_on b -d policy
	[[ "$output" == *"How long connections last"*"$SERVER"*client*65534*yes*"$SERVER"*client*0*no* ]]
	# and those of a peer leave those of other peers alone
	smcrctl_on a policy forget port 7001
	hosts_join c 3
	conf c 'short_connection_rate = 0'
	smcrd_start c
	short_ones 800 c
	shows a policy '.learnt | any(.left_on_tcp and .peer == "10.77.0.3" and .role == "server")'
	most_are peer-no-smc c
	[ "$(ask 7001)" = SMC-R ]
}

@test "a host's connections to itself stay TCP, by whatever address of its own" {
	daemons
	ip -n "$HOSTS_ID-a" addr add fd77::1/64 dev eth0 nodad
	mkdir "$HOSTS_DIR/www"
	cd "$HOSTS_DIR/www"
	for address in 127.0.0.1 127.1.2.3 ::1 10.77.0.1 10.77.0.11; do
		own_host "$address"
	done
	# from one of the host's addresses to another
	own_host 10.77.0.11 10.77.0.1
	# addresses that are added later
	until_true 5 own_host fd77::1
	ip -n "$HOSTS_ID-a" addr add 10.77.0.99/24 dev eth1
	until_true 5 own_host 10.77.0.99 10.77.0.1
	shows a linkgroup 'length == 0'
	# An address that the host has lost may belong to another host.
	ip -n "$HOSTS_ID-a" addr del 10.77.0.11/24 dev eth1
	ip -n "$HOSTS_ID-b" addr add 10.77.0.11/24 dev eth1
	start_on b "$RUN" "$PROGRAMS/echo_server" 10.77.0.11 7002
	until_true 5 tcp_listens b 7002
	until_true 5 smcr_to_b 10.77.0.11 7002
}

smcr_to_b() {
	on a "$RUN" --require "$PROGRAMS/echo_client" "$1" "$2" --bytes 1000
}

@test "a program in another network namespace than its smcrd: plain TCP without errors, on either side" {
	daemons
	on sw ip addr add 10.77.0.30/24 dev br0
	on sw ip link set br0 up
	# A container with the host's socket and a network of its own.
	elsewhere=(env "SMCRD_SOCKET=$HOSTS_DIR/b.sock" "$RUN" -v)
	echo_server a 7001
	for way in block epoll; do
		run -0 on sw "${elsewhere[@]}" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000 --way "$way"
	done
	# The container's listener, and a client on a host whose programs offer SMC-R
	start_on sw "${elsewhere[@]}" "$PROGRAMS/echo_server" 10.77.0.30 7002
	until_true 5 tcp_listens sw 7002
	for way in block epoll; do
		run -0 on b "$RUN" -v "$PROGRAMS/echo_client" 10.77.0.30 7002 --bytes 100000 --way "$way"
	done
	[[ "$output" != *"SMC-R"$'\n'* ]]
	shows b connection '[.[] | select(.mode == "smcr")] | length == 0'
	shows a connection '[.[] | select(.mode == "smcr")] | length == 0'
	shows a info '.connections.established_total == 0'
	shows b info '.connections.established_total == 0 and .connections.failed_total == 0'
	# and smcrd shows the reason
	shows b connection 'any(.mode == "tcp" and .fallback_reason == "other-namespace" and .pid != null)'
	shows b info 'any(.fallbacks[]; .reason == "other-namespace" and .connections >= 1)'
}
