#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# The promise of a handshake is kept, declined, or the connection is reset, and no CLC byte reaches a program. The
# daemon dies, stands still or is restarted, the peer gives up, limits are reached, the program's root has changed.
bats_require_minimum_version 1.5.0
load common

# program NAME HOST [WRAPPER..]: start a program that is told what to do (promise.py)
program() {
	local name=$1 host=$2
	shift 2
	talk_start "$name" "$host" "$@" python3 "$BATS_TEST_DIRNAME/promise.py"
	tell "$name" release # Python runs: on a busy machine seconds go by until then, and a rendezvous has ten
}

kill_smcrd() {
	local pid=SMCRD_PID_$1
	kill -KILL "${!pid}"
	wait "${!pid}" || true
	rm -f "$HOSTS_DIR/$1.sock"
}

# waiting HOST PORT N: do N connections wait to be accepted?
waiting() {
	[ "$(on "$1" ss -Hltn "sport = :$2" | awk '{ print $2 }')" = "$3" ]
}

# proposed HOST PORT: has a Proposal arrived on one of them?
proposed() {
	on "$1" ss -Htn state established "sport = :$2" | awk '$1 >= 52 { found = 1 } END { exit !found }'
}

# exchange: each program must get what the other one sends, and nothing else
exchange() {
	tell client 'send there'
	tell server 'receive there'
	tell server 'send and-back'
	tell client 'receive and-back'
}

part() {
	tell client close
	tell server close
}

# connect_unaccepted: the client connects; returns when its Proposal has arrived, before the server accepts.
connect_unaccepted() {
	tell client "connect $SERVER 7001" 'ok pair'
	until_true 5 waiting a 7001 1
	until_true 5 proposed a 7001
}

# served_again: a new connection must go over SMC-R
served_again() {
	tell client "connect $SERVER 7001" 'ok pair'
	tell server accept 'ok pair'
	exchange
	part
}

# start_by_hand: the client is a peer that speaks CLC by hand
start_by_hand() {
	program server a "$RUN" -v
	program client b
	tell server "listen $SERVER 7001"
}

start_both() {
	program server a "$RUN" -v
	program client b "$RUN" -v
	tell server "listen $SERVER 7001"
}

@test "smcrd killed between the promise and accept(): declined, and served again by the next smcrd" {
	two_daemons
	start_both
	connect_unaccepted
	kill_smcrd a
	tell server accept 'ok tcp'
	exchange
	part
	until_true 5 shows b connection 'any(.fallback_reason == "peer-declined" and
		.peer_fallback_reason == "no-daemon")'
	# while no smcrd runs
	tell client "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	exchange
	part
	grep -Eq 'TCP: smcrd (is out of reach|cannot be asked)' "$HOSTS_DIR/server.err"
	run ! grep no-bpf "$HOSTS_DIR/server.err"
	smcrd_start a
	# The first connection after the restart comes before the listener is claimed again.
	tell client "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	exchange
	part
	served_again
}

@test "smcrd started anew between the promise and accept(): the new one carries on over SMC-R" {
	two_daemons
	start_both
	connect_unaccepted
	kill_smcrd a
	smcrd_start a
	tell server accept 'ok pair'
	exchange
	until_true 5 shows a connection '[.[] | select(.state == "active")] | length == 1'
	tell server 'option TCP_SYNCNT 7' 'ok 7'
	part
}

@test "smcrd killed before the handshake is over: the Proposal itself shows the promise" {
	two_daemons
	start_both
	on a nft -f - <<-'END'
		table ip hold { chain in { type filter hook input priority 0;
			tcp dport 7001 tcp flags & (syn | ack) == ack drop; }; }
	END
	tell client "connect $SERVER 7001" 'ok pair'
	kill_smcrd a
	on a nft delete table ip hold
	tell server accept 'ok tcp'
	exchange
	part
}

# greeted: a client that says nothing gets the server's greeting; $elapsed is how many milliseconds accept() took.
greeted() {
	tell client claim
	tell client "connect $SERVER 7001" 'ok tcp'
	elapsed=$(took tell server accept 'ok tcp')
	echo "accept: $elapsed ms"
	tell server 'send greeting'
	tell client 'receive greeting'
	part
}

@test "nobody knows what was promised: accept() waits for the first bytes, briefly and once" {
	two_daemons
	start_by_hand
	kill_smcrd a
	tell client claim
	tell client "connect $SERVER 7001" 'ok tcp'
	talk_send server accept
	sleep 0.2 # the Proposal has to come late
	tell client propose
	[ "$(talk_hear server)" = 'ok tcp' ]
	tell client declined 'ok 0a000012'
	exchange
	part
	# a peer with the option in its SYN, which was promised nothing, waits for its server's greeting
	sleep 0.5
	greeted
	[ "$elapsed" -lt 3000 ]
	# it does not wait any more; one of five shows that on a busy machine
	for _ in 1 2 3 4 5; do
		greeted
		[ "$elapsed" -ge 500 ] || break
	done
	[ "$elapsed" -lt 500 ]
}

# promised_then_greeted: the library takes the listener's claim back and declines; then as greeted
promised_then_greeted() {
	tell server 'notices 0'
	tell server relisten
	tell server 'notices 1'
	tell client claim
	tell client "connect $SERVER 7001" 'ok tcp'
	tell client propose
	until_true 5 proposed a 7001
	tell server accept 'ok tcp'
	tell client declined 'ok 0a000030'
	part
	greeted
}

@test "a claim that was taken back: accept() does not wait for peers that were promised nothing" {
	two_daemons
	start_by_hand
	for _ in 1 2 3 4 5; do
		promised_then_greeted
		[ "$elapsed" -ge 500 ] || break
	done
	[ "$elapsed" -lt 500 ]
}

@test "a peer that promised and says nothing is dropped, and holds up the next one for a second at most" {
	two_daemons
	program server a "$RUN" -v
	program silent b
	program client b
	tell server "listen $SERVER 7001"
	tell silent claim
	tell silent "connect $SERVER 7001" 'ok tcp'
	tell client "connect $SERVER 7001" 'ok tcp'
	kill_smcrd a
	elapsed=$(took tell server accept 'ok tcp')
	echo "accept: $elapsed ms"
	[ "$elapsed" -lt 5000 ] # not the ten seconds for which an answer is waited
	exchange
	tell silent 'receive x' ECONNRESET
}

@test "the client gave up before accept(): its Proposal is nobody's data, the next one is served" {
	two_daemons
	start_both
	connect_unaccepted
	kill_smcrd b # this resets its connections
	tell client close
	until_true 5 eval '! proposed a 7001'
	program other b
	tell other "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	tell other 'send plain'
	tell server 'receive plain'
}

@test "the client's time was over and it went over to TCP: so does the server" {
	two_daemons
	start_both
	connect_unaccepted
	tell client 'send early'
	until_true 15 shows b connection 'any(.mode == "tcp")'
	tell server accept 'ok tcp'
	tell server 'receive early'
	exchange
	part
}

@test "a server with the daemon of another namespace: declined once, plain from then on" {
	two_daemons
	program server a env SMCRD_SOCKET="$HOSTS_DIR/b.sock" "$RUN" -v
	program client b "$RUN" -v
	tell server "listen $SERVER 7001"
	connect_unaccepted
	tell server accept 'ok tcp'
	exchange
	part
	grep -q 'another network namespace' "$HOSTS_DIR/server.err"
	for _ in 1 2 3; do
		tell client "connect $SERVER 7001" 'ok tcp'
		tell server accept 'ok tcp'
		exchange
		part
	done
}

@test "a client with the daemon of another namespace declines, and promises no more" {
	local served
	two_daemons
	program server a "$RUN" -v
	program client b env SMCRD_SOCKET="$HOSTS_DIR/a.sock" "$RUN" -v
	tell server "listen $SERVER 7001"
	for served in pair tcp tcp; do
		tell client "connect $SERVER 7001" 'ok tcp'
		tell server accept "ok $served"
		exchange
		part
	done
}

@test "a client whose daemon is started anew during connect() connects again" {
	two_daemons
	start_both
	hold_synacks
	talk_send client "connect $SERVER 7001"
	until_true 5 sends_syn b
	kill_smcrd b
	smcrd_start b
	on b nft delete table ip hold
	[ "$(talk_hear client)" = 'ok tcp' ]
	tell server accept 'ok tcp'
	exchange
	part
}

sends_syn() {
	[ -n "$(on "$1" ss -Htn state syn-sent)" ]
}

hold_synacks() {
	on b nft -f - <<-'END'
		table ip hold { chain in { type filter hook input priority 0;
			tcp sport 7001 tcp flags & (syn | ack) == (syn | ack) drop; }; }
	END
}

@test "max_connections_per_user of a server: declined if promised before, no option from then on" {
	local i kind
	hosts_up 1500
	echo 'max_connections_per_user = 2' >"$HOSTS_DIR/a.conf"
	smcrd_start a
	smcrd_start b
	program server a "$RUN" -v
	tell server "listen $SERVER 7001"
	for i in 1 2 3 4 5; do program "client$i" b "$RUN" -v; done
	for i in 1 2 3 4; do tell "client$i" "connect $SERVER 7001" 'ok pair'; done
	for i in 1 2 3 4; do
		kind=tcp
		[ $i -gt 2 ] || kind=pair
		tell server accept "ok $kind"
		tell "client$i" "send number-$i"
		tell server "receive number-$i"
		tell server "send answer-$i"
		tell "client$i" "receive answer-$i"
		tell server keep
	done
	until_true 5 shows b connection '[.[] | select(.peer_fallback_reason == "limit")] | length == 2'
	until_true 5 shows a info '[.limits[].reason] == ["limit"]'
	tell client5 "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	grep -q peer-no-smc "$HOSTS_DIR/client5.err"
	tell server release
	for i in 1 2 3 4 5; do tell "client$i" close; done
	until_true 5 shows a info '.limits == []'
	tell client1 "connect $SERVER 7001" 'ok pair'
	tell server accept 'ok pair'
}

@test "max_connections_per_user of a client: no option from there on, and the reason in words" {
	hosts_up 1500
	echo 'max_connections_per_user = 1' >"$HOSTS_DIR/b.conf"
	smcrd_start a
	smcrd_start b
	start_both
	tell client "connect $SERVER 7001" 'ok pair'
	tell server accept 'ok pair'
	tell client keep
	tell server keep
	tell client "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	exchange
	grep -q 'TCP: limit: smcrd serves as many' "$HOSTS_DIR/client.err"
}

@test "a server with no, one or two free descriptors" {
	two_daemons
	start_both
	for left in 0 1 2; do
		connect_unaccepted
		tell server "leave $((left + 1))" # one more, for accept() itself
		kind=tcp
		[ "$left" -lt 2 ] || kind=pair
		tell server accept "ok $kind"
		tell server 'leave -1'
		exchange
		part
		if [ "$left" -lt 2 ]; then
			# the listener keeps its claim
			tell client "connect $SERVER 7001" 'ok pair'
			tell server accept 'ok pair'
			exchange
			part
		fi
	done
}

@test "a client with few free descriptors connects as plain TCP" {
	two_daemons
	start_both
	for left in 0 1 2; do
		kind=tcp
		[ "$left" -lt 2 ] || kind=pair
		served=$kind
		[ "$left" != 1 ] || served=pair # it was promised SMC-R, and the client declines
		tell client "leave $((left + 1))" # one more, for socket()
		talk_send client "connect $SERVER 7001"
		tell server accept "ok $served"
		[ "$(talk_hear client)" = "ok $kind" ]
		tell client 'leave -1'
		exchange
		part
	done
}

@test "a client with few free descriptors, and a server that accepts once: they have one connection" {
	two_daemons
	start_both
	served_again # now the client knows the daemon, and claims at once
	for left in 0 1; do
		tell client "leave $((left + 1))" # one more, for socket()
		talk_send server accept # it waits before the client connects
		tell client "connect $SERVER 7001" 'ok tcp'
		[ "$(talk_hear server)" = 'ok pair' ]
		tell client 'leave -1'
		exchange
		waiting a 7001 0
		part
	done
	[ "$(grep -c 'the peer declined SMC-R; the peer says: no file descriptor is left' "$HOSTS_DIR/a.log")" = 2 ]
}

# new_root: make an empty directory to chroot() into; sets ROOT
new_root() {
	ROOT=$HOSTS_DIR/root
	mkdir "$ROOT"
}

@test "chroot and another user after listen() and after connect(): no connection is lost" {
	two_daemons
	start_both
	new_root
	# a connection that exists when the roots change
	tell client "connect $SERVER 7001" 'ok pair'
	tell server accept 'ok pair'
	tell server keep
	tell server "chroot $ROOT"
	tell server 'setuid 65534'
	tell client "chroot $ROOT"
	tell client 'option TCP_NODELAY 1' 'ok 1'
	tell client status 'ok 0'
	exchange_kept
	tell client close
	served_again
	tell client 'setuid 65534'
	served_again
	until_true 5 shows a connection 'any(.mode == "smcr" and .uid == 65534)'
}

# exchange_kept: as exchange, where the client's current connection is the one that the server has kept
exchange_kept() {
	local names
	talk_send client names
	names=$(talk_hear client)
	[[ $names =~ ^ok\ $CLIENT:[0-9]+\ $SERVER:7001$ ]]
	tell client 'send there'
	tell server 'swap'
	tell server 'receive there'
	tell server 'option TCP_NODELAY 1' 'ok 1'
	talk_send server names
	[[ $(talk_hear server) =~ ^ok\ $SERVER:7001\ $CLIENT:[0-9]+$ ]]
	tell server 'send and-back'
	tell client 'receive and-back'
	tell server close
}

@test "chroot before the first listen() and connect()" {
	two_daemons
	new_root
	program server a "$RUN" -v
	program client b "$RUN" -v
	tell server "chroot $ROOT"
	tell server 'setuid 65534'
	tell client "chroot $ROOT"
	tell server "listen $SERVER 7001"
	served_again
}

# smcrd_as_user HOST: start smcrd as a user other than root, as the service does. nsenter is used because `ip netns
# exec` would hide the cgroup2 hierarchy. The program is copied because this user may not read the build directory.
smcrd_as_user() {
	local caps=-all,+net_admin,+net_raw,+bpf,+perfmon
	cp "$HOSTS_BUILD/bin/smcrd" "$HOSTS_DIR/smcrd"
	: >"$HOSTS_DIR/$1.conf"
	chown 12345:12345 "$HOSTS_DIR"
	chmod 755 "$HOSTS_DIR"
	nsenter --net="/run/netns/$HOSTS_ID-$1" setpriv --reuid 12345 --regid 12345 --clear-groups --inh-caps="$caps" \
		--ambient-caps="$caps" --bounding-set="$caps" "$HOSTS_DIR/smcrd" --foreground --config "$HOSTS_DIR/$1.conf" \
		--socket "$HOSTS_DIR/$1.sock" >>"$HOSTS_DIR/$1.log" 2>&1 3>&- {HOSTS_GUARD}>&- &
	printf -v "SMCRD_PID_$1" %s $!
	until_true 10 answers "$1"
}

@test "a smcrd that does not run as root, and chroot: recognised by the owner of its socket file" {
	mountpoint -q /sys/fs/cgroup/unified || [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] ||
		skip "the cgroup2 hierarchy is mounted elsewhere"
	hosts_up 1500
	smcrd_as_user a
	smcrd_start b
	new_root
	start_both
	served_again
	tell client "connect $SERVER 7001" 'ok pair'
	tell server accept 'ok pair'
	tell server "chroot $ROOT"
	tell server 'setuid 65534'
	exchange
	part
	served_again
	until_true 5 shows a connection 'any(.mode == "smcr" and .uid == 65534)'
}

@test "chroot, and smcrd started anew meanwhile" {
	two_daemons
	start_both
	new_root
	tell server "chroot $ROOT"
	served_again
	kill_smcrd a
	tell client "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	exchange
	part
	smcrd_start a
	sleep 1.1 # after a failure a program does not ask again for a second
	tell client "connect $SERVER 7001" 'ok tcp'
	tell server accept 'ok tcp'
	part
	served_again
}

@test "another user has the address that can be foretold: programs use another one, and the log tells who" {
	hosts_up 1500
	new_root
	# a user of the host takes the address before smcrd starts
	start_on a python3 -c '
import os, socket, sys
os.setuid(12345)
s = socket.socket(socket.AF_UNIX)
s.bind("\0smcrd:" + sys.argv[1])
s.listen()
print("ready", flush=True)
while True:
    c, _ = s.accept()
    print("heard", len(c.recv(100)), flush=True)
' "$HOSTS_DIR/a.sock" >"$HOSTS_DIR/squatter.out"
	until_true 5 grep -q ready "$HOSTS_DIR/squatter.out"
	smcrd_start a
	grep -q "user 12345 has taken smcrd's address @smcrd:$HOSTS_DIR/a.sock" "$HOSTS_DIR/a.log"
	smcrd_start b
	start_both
	connect_unaccepted
	tell server "chroot $ROOT"
	tell server 'setuid 65534'
	tell server accept 'ok pair'
	exchange
	part
	served_again
	if grep heard "$HOSTS_DIR/squatter.out"; then false; fi
	smcrctl_on a info # the daemon still answers
}

# stop_smcrd HOST, continue_smcrd HOST
stop_smcrd() {
	local pid=SMCRD_PID_$1
	kill -STOP "${!pid}"
}

continue_smcrd() {
	local pid=SMCRD_PID_$1
	kill -CONT "${!pid}"
}

# standing_still HOST: stop smcrd, and wait until the BPF programs know that it stands still
standing_still() {
	stop_smcrd "$1"
	program "asker_$1" "$1"
	until_true 10 tell "asker_$1" stands-still 'ok 1' 2>/dev/null
}

@test "smcrd stands still: programs connect as plain TCP at once, and over SMC-R when it goes on" {
	local host connected accepted
	two_daemons
	start_both
	served_again
	for host in a b; do
		standing_still "$host"
		# connections that a claimed listener accepts meanwhile; on a busy machine one of five is in time
		for _ in 1 2 3 4 5; do
			connected=$(took tell client "connect $SERVER 7001" 'ok tcp')
			accepted=$(took tell server accept 'ok tcp')
			echo "connect: $connected ms, accept: $accepted ms with smcrd of $host stopped"
			exchange
			part
			[ "$connected" -ge 1000 ] || [ "$accepted" -ge 1000 ] || break
		done
		[ "$connected" -lt 1000 ]
		[ "$accepted" -lt 1000 ]
		continue_smcrd "$host"
		until_true 5 tell "asker_$host" stands-still 'ok 0' 2>/dev/null
		served_again
	done
}

@test "smcrd stands still between the promise and accept(): declined, and served again" {
	two_daemons
	start_both
	connect_unaccepted
	standing_still a
	tell server accept 'ok tcp'
	exchange
	part
	until_true 5 shows b connection 'any(.fallback_reason == "peer-declined" and
		.peer_fallback_reason == "no-daemon")'
	continue_smcrd a
	until_true 5 tell asker_a stands-still 'ok 0' 2>/dev/null
	served_again
}

@test "smcrd stands still when connect() ends that promised SMC-R: the library declines" {
	two_daemons
	start_both
	hold_synacks
	talk_send client "connect $SERVER 7001"
	until_true 5 sends_syn b
	standing_still b
	on b nft delete table ip hold
	[ "$(talk_hear client)" = 'ok tcp' ]
	tell server accept 'ok pair'
	exchange
	part
	continue_smcrd b
}

@test "smcrd stops and is handed a connection: connect() does not hang" {
	local elapsed
	two_daemons
	start_both
	stop_smcrd b
	elapsed=$(took tell client "connect $SERVER 7001" ECONNRESET)
	echo "connect: $elapsed ms"
	[ "$elapsed" -lt 8000 ]
	continue_smcrd b
}

@test "smcrd stops and is handed a connection: accept() drops it, and takes the next one" {
	local elapsed
	two_daemons
	start_both
	connect_unaccepted
	stop_smcrd a
	talk_send server accept
	until_true 5 waiting a 7001 0
	program other b
	tell other "connect $SERVER 7001" 'ok tcp'
	elapsed=$(took hears_tcp)
	echo "accept: $elapsed ms"
	[ "$elapsed" -lt 8000 ]
	# On a busy machine the client's smcrd may have connected again before the other program did.
	tell client 'send plain'
	tell other 'send plain'
	tell server 'receive plain'
	continue_smcrd a
}

hears_tcp() {
	[ "$(talk_hear server)" = 'ok tcp' ]
}
