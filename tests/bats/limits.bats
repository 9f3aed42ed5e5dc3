#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# However much one user asks of smcrd, or holds of its resources, other users are served.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

MOST_ROWS=64 # in a reply

# flood NAME UID SESSIONS [METHOD]: ask smcrd on host b without end; TALK_READY tells how many sessions the flood got.
flood() {
	local name=$1
	shift
	talk_start "$name" b python3 "$BATS_TEST_DIRNAME/ask_flood.py" "$HOSTS_DIR/b.sock" "$@"
	TALK_READY=$(talk_hear "$name")
	[[ "$TALK_READY" == ready* ]]
	TALK_READY=${TALK_READY#ready }
}

# told NAME WHAT: a number that the flood tells about itself.
told() {
	talk_send "$1" "?"
	talk_hear "$1" | sed -E "s/.*\\b$2 ([0-9]+).*/\\1/"
}

told_at_least() {
	[ "$(told "$1" "$2")" -ge "$3" ]
}

@test "1,000 connections are shown in parts, and a user who asks without end harms nobody" {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	for host in a b; do
		printf '%s\n' 'element_size = 16K' 'element_size_min = 16K' \
			'connect_wait_milliseconds = 20000' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 2 --pingpong 2
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100 --connections 1000 \
		--way epoll --hold
	until_true 60 shows b info '.connections.smcr == 1004'
	flood flood 65534 50 connection.show
	for _ in 1 2 3; do
		# the view shows each connection once, and is complete; ended ones come last
		show b connection '.[] | select(.ended | not).id' >"$HOSTS_DIR/ids"
		[ "$(wc -l <"$HOSTS_DIR/ids")" = 1004 ]
		[ "$(sort -u "$HOSTS_DIR/ids" | wc -l)" = 1004 ]
		[ "$(smcrctl_on b connection | grep -c ":7001 ")" = 1000 ]
	done
	until_true 20 told_at_least flood replies 20
	[ "$(told flood rows)" = "$MOST_ROWS" ]
	[ "$(told flood bytes)" -lt 65536 ]
	# a part of a view takes little of the event loop's time
	shows b info '.event_loop | [.programs, .tools, .roce, .timers, .host, .cm] |
		all(.longest_turn_us >= 0 and .long_turns >= 0) and all(.[1, 4]; .longest_turn_us > 0)'
	steady_stop client
	steady_stop server
}

@test "300 sessions that wait for events are all told, and keep nobody waiting" {
	local i last
	two_daemons_with_patient_links
	chmod 711 "$HOSTS_DIR"
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1 --pingpong 2
	until_true "$FAILOVER_PATIENCE" symmetric # its links are events
	flood flood 65534 300 event.wait
	for i in {1..40}; do
		smcrctl_on b policy add deny port "$i" >/dev/null
		smcrctl_on b policy delete deny port "$i" >/dev/null
	done
	last=$(show b event '.[-1].id')
	[ "$last" -ge 80 ]
	until_true 20 told_at_least flood last "$last"
	[ "$(told flood sessions)" = 300 ]
	[ "$(told flood rows)" -le "$MOST_ROWS" ]
	# without events there are no replies
	replies=$(told flood replies)
	run -0 smcrctl_on b info
	[ "$(told flood replies)" = "$replies" ]
	steady_stop client
	steady_stop server
}

@test "queue pair numbers are shown to administrators only" {
	two_daemons
	chmod 711 "$HOSTS_DIR"
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	shows b link 'length >= 1 and all(.[]; (.local_qpn | type) == "number" and (.peer_qpn | type) == "number")'
	on b setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" -j link |
		jq -e '.link | length >= 1 and all(.[]; .local_qpn == null and .peer_qpn == null)'
	run -0 on b setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" link
	[[ "$output" == *QPN* ]]
}

@test "users who take all sessions that they can leave some to others, and smcrctl to administrators" {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	echo 'admin_group = games' >"$HOSTS_DIR/b.conf"
	smcrd_start a
	smcrd_start b
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	# nine users at 1,000 each would have all 8,192
	for user in 1 2 3 4 5 6 7 8 9; do
		flood "keep$user" $((65500 + user)) 1000 info.show # a session that waits for an answer is not idle
	done
	[ "$(told keep1 sessions)" = 1000 ]
	# the next user gets a session, and so does that user's program
	on b setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" info
	on b setpriv --reuid 65534 --regid 65534 --clear-groups "$RUN" --require \
		"$PROGRAMS/echo_client" "$SERVER" 7001
	# the first user gets no further session
	run -1 on b setpriv --reuid 65501 --regid 65501 --clear-groups "$HOSTS_BUILD/bin/smcrctl" info
	[[ "$output" == *"user 65501 has 1000 sessions with smcrd"*max_sessions_per_user* ]]
	# but gets one as an administrator
	games=$(getent group games | awk -F: '{ print $3 }')
	on b setpriv --reuid 65501 --regid 65501 --groups "$games" "$HOSTS_BUILD/bin/smcrctl" info
	on b "$HOSTS_BUILD/bin/smcrctl" info
	# and smcrd stops in order although all sessions are open
	kill -TERM "$SMCRD_PID_b"
	wait "$SMCRD_PID_b"
}

@test "64 Proposals that nobody follows up take little memory, and a host's connections go on" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/crowd" serve "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	used=$(show a info .engine.memory_used_bytes)
	talk_start attack b python3 "$BATS_TEST_DIRNAME/clc_attack.py" "$SERVER" 7001 propose 64
	run -0 talk_hear attack
	[ "$output" = "16 accepted, 48 declined" ]
	shows a info ".engine | .first_contacts_refused_total == 48 and .memory_used_bytes - $used <= 33554432"
	# also with the same host, with which there is a link group
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	grep -q "16 link groups are being set up with this peer" "$HOSTS_DIR/a.log"
}

@test "a user who claims listeners without end takes nobody's claim; listeners beyond the limit are plain TCP" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	talk_start flood a python3 "$BATS_TEST_DIRNAME/claim_flood.py" 65534 20000 9000 "$SERVER" 7002
	for _ in 1 2 3 4 5 6; do
		run talk_hear flood
		[ "$status" != 0 ] || break
	done
	[ "$output" = ready ]
	# SMC-R works with the server that was there before, and with one that another user starts now
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	start_on a setpriv --reuid 65533 --regid 65533 --clear-groups "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7003
	until_true 5 tcp_listens a 7003
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7003
	# There are 16384 claims, and a user may have as many as are left to others. So 809 of the 9001 claims are too many.
	# Some of the 20000 before them may have been refused too, if the kernel had no memory for its count in that instant.
	until_true 20 shows a info '.tcp_option | .listeners == 8194 and .listeners_refused_total >= 809 and
		.listeners_refused_total < 829'
	until_true 5 grep -qE "(listener stays|listeners stay) plain TCP, the last one of user 65534" "$HOSTS_DIR/a.log"
	# the last listener is one too many: its answer carries no option, and the program can learn why
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7002
	run -0 talk_hear flood
	[ "$output" = "2 0a000010" ]
	# when the program ends, all its claims are free again
	talk_kill flood
	until_true 10 shows a info '.tcp_option.listeners == 2'
}

# squatted HOST: does somebody hold hundreds of names of pair ends there?
squatted() {
	[ "$(on "$1" grep -c '@smcr-pair:' /proc/net/unix)" -gt 500 ]
}

@test "users who take the names that other users' connections are about to get harm nobody" {
	local host
	hosts_up 1500
	for host in a b; do smcrd_start "$host"; done
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	# A connection that stays, from whose name those of the next ones might be guessed.
	start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100 --connections 1 --way epoll --hold
	until_true 20 shows b info '.connections.smcr == 1'
	for host in a b; do
		start_on "$host" python3 "$HOSTS_ROOT/tests/hostile/name_squatter.py" 12345 600 1
		until_true 20 squatted "$host"
	done
	for _ in {1..20}; do
		on b setpriv --reuid 65534 --regid 65534 --clear-groups "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	done
	for host in a b; do
		shows "$host" info '.connections | .names_taken_total == 0 and .established_total == 21 and .failed_total == 0'
	done
}

@test "a limit of the length of files ends no smcrd: what cannot be written is left out, and connections go on" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	prlimit --pid "$SMCRD_PID_a" --fsize=1: # shorter than the log, and than the memory that programs map
	smcrctl_on a log trace all >/dev/null
	size=$(stat -c %s "$HOSTS_DIR/a.log")
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 10000000
	[ "$(stat -c %s "$HOSTS_DIR/a.log")" = "$size" ]
	# later it can be written again
	prlimit --pid "$SMCRD_PID_a" --fsize=unlimited:
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
	[ "$(stat -c %s "$HOSTS_DIR/a.log")" -gt "$size" ]
}

# few_files NUMBER: start smcrd on host a, which may open so many files.
few_files() {
	: >"$HOSTS_DIR/a.log"
	SMCRD=$HOSTS_DIR/few_files
	printf '#!/bin/sh\nexec prlimit --nofile=%s "%s" "$@"\n' "$1" "$HOSTS_BUILD/bin/smcrd" >"$SMCRD"
	chmod +x "$SMCRD"
	smcrd_start a
	SMCRD=
}

@test "where smcrd may open few files the log says for how many connections, what to do, and that is true" {
	hosts_up 1500
	few_files 4096
	run ! grep -q 'may open' "$HOSTS_DIR/a.log"
	daemon_ends a || false
	few_files 1024
	grep -q ' warning: smcrd may open 1024 files, enough for 298 connections at a time' "$HOSTS_DIR/a.log"
	daemon_ends a || false
	few_files 128
	grep -q ' warning: smcrd may open 128 files, enough for 1 connection at a time.*: let it open more.*LimitNOFILE=' \
		"$HOSTS_DIR/a.log"
	grep -q 'serves on .* buffers, 1 connection, ' "$HOSTS_DIR/a.log"
	smcrd_start b
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	start_on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100 --connections 3 --hold
	until_true 20 shows b connection '[.[].state] | length == 3'
	shows b connection 'map(.mode) | sort == ["smcr", "tcp", "tcp"]'
}

# as USER COMMAND..: run a command on host a as this user, in the background
as() {
	local user=$1
	shift
	start_on a setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}

@test "a user who takes all the files that he can stays on TCP with more, and others still use SMC-R" {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	few_files 1024 # 896 for users: two thirds of these for one of them, two for each of his connections
	smcrd_start b
	as 65534 "$RUN" "$PROGRAMS/crowd" serve "$SERVER" 7001
	as 65533 "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7001
	until_true 5 tcp_listens a 7002
	talk_start crowd b "$RUN" "$PROGRAMS/crowd" connect "$SERVER" 7001 450
	[ "$(talk_hear crowd)" = open ]
	until_true 20 shows a info '.limits | any(.uid == 65534 and .reason == "limit")'
	shows a info '.limits | all(.uid != 65533)'
	grep -q 'new connections of user 65534 stay TCP: .*its share of what is left for all (files: it has' "$HOSTS_DIR/a.log"
	# not one of them has failed, and he has as many as the log promises of all: no fewer than if nobody had a share
	until_true 20 shows a info '.connections.smcr >= 290'
	shows a info '.connections | .smcr <= 300 and .failed_total == 0'
	talk_send crowd again
	[ "$(talk_hear crowd)" = answered ]
	# another user's server, and what it serves
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7002 --connections 20
	# when he has ended them he can have others
	talk_kill crowd
	until_true 20 shows a info '.limits == []'
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001
}
