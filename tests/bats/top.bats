#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrctl top: on a terminal and as text, with a daemon that reads its answers from a file (canned_smcrd.py) and with
# real ones. tests/unit/test_smcrctl_top.c tests the arithmetic.
# bats file_tags=long
bats_require_minimum_version 1.5.0
load common
# shellcheck source=tests/bats/canned.bash
. "$BATS_TEST_DIRNAME/canned.bash"
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

SMCRCTL=$HOSTS_BUILD/bin/smcrctl

# screen COLUMNS LINES COMMAND..: standard input tells what to do on the terminal (screen.py)
screen() {
	"$BATS_TEST_DIRNAME/screen.py" "$@"
}

GROUPS_AND_LINKS='"linkgroup.show":[[{"id":3,"peer":"10.77.0.2","role":"server","links":2,"connections":3}]],
"link.show":[[{"linkgroup":3,"number":1,"uid":11,"peer":"10.77.0.2","rnic":"soft:eth0","state":"active","connections":2,"tx_bytes":0,"rx_bytes":0},
 {"linkgroup":3,"number":2,"uid":12,"peer":"10.77.0.2","rnic":"soft:\u001b[2Jeth1","state":"active","connections":1,"tx_bytes":0,"rx_bytes":0}]]'

# connection ID TX [ENDED]
connection() {
	printf '{"id":%s,"local":"10.77.0.1:%s","peer":"10.77.0.2:40000","mode":"smcr","linkgroup":3,"link":1,"state":"active",
		"tx_bytes":%s,"rx_bytes":0,"pid":%s,"program":"\\u001b]0;x\\u0007\\u009bprog%s","ended":%s,"age_ms":%s}' \
		"$1" "$((7000 + $1))" "$2" "$((100 + $1))" "$1" "${3:-false}" "${4:-100000}"
}

# at_rest: three connections that carry no data
at_rest() {
	canned "{$GROUPS_AND_LINKS,\"connection.show\":[[$(connection 1 0),$(connection 2 5000),$(connection 3 70)]]}"
}

@test "top paints a screen, takes keys, follows the size of the terminal, and gives the terminal back" {
	at_rest
	screen 110 24 "$SMCRCTL" top <<-'END'
		sees every 1 s; by BYTES/S, largest first$
		sees ^1 group, 2 links, 3 connections, 3 over SMC-R; TX 0/s, RX 0/s over [0-9.]+ s$
		sees ^LINKGROUP +PEER +ROLE .*BYTES/S
		sees ^ +3 +10.77.0.2 +server +2 +3 +0 +0 +0$
		sees ^3/2 +10.77.0.2 +soft:\?\[2Jeth1 +active
		sees ^10.77.0.1:7002 .* smcr +3/1 +active .* 102 +\?\]0;x\?\?\?prog2$
		sees ^q quit  space pause
		keys r
		sees by BYTES/S, smallest first$
		keys >
		sees by TX/S, smallest first$
		keys \x1b[C
		sees by RX/S, smallest first$
		keys <<<
		sees by STATE, smallest first$
		keys p
		sees PAUSED, every 1 s;
		keys \x20
		misses PAUSED
		resize 60 12
		misses LOCAL
		sees ^PEER +BYTES/S +TX/S +RX/S +PROGRAM
		sees ^q quit
		resize 110 30
		sees ^LOCAL
		keys q
		ends 0
	END
	# after top the shell has its terminal as before
	# shellcheck disable=SC2016
	screen 80 24 sh -c 'before=$(stty -g); "$0" top && [ "$(stty -g)" = "$before" ] && echo the same && read -r _' "$SMCRCTL" <<-'END'
		sees ^q quit
		keys q
		sees ^the same$
		keys \n
		ends 0
	END
	canned_down
}

@test "top on a terminal: columns are chosen by --sort and -d, signals end it well" {
	at_rest
	screen 120 24 "$SMCRCTL" top --sort -tx-bytes -w 0.2 --bytes <<-'END'
		sees every 0.2 s; by TX-BYTES, largest first$
		sees ^10.77.0.1:7002
		signal TERM
		ends 0
	END
	screen 80 24 "$SMCRCTL" top <<-'END'
		sees ^q quit
		keys \x03
		ends 0
	END
	run -2 "$SMCRCTL" top --sort nonsense
	[[ "$output" == *"top has no column 'nonsense' to sort by; it has: LOCAL, PEER, "* ]]
	run -2 "$SMCRCTL" link --batch
	run -2 "$SMCRCTL" link --count 2
	for term in nonsense dumb; do
		TERM=$term run -1 "$BATS_TEST_DIRNAME/terminal.py" 80 24 "$SMCRCTL" top
		[[ "$output" == "smcrctl: this terminal can show no whole screen (TERM): 'smcrctl top --batch'"* ]]
		run -0 env TERM="$term" "$BATS_TEST_DIRNAME/terminal.py" 80 24 \
			sh -c 'before=$(stty -g); "$0" top; [ "$(stty -g)" = "$before" ]' "$SMCRCTL"
	done
	canned_down
}

@test "top on a terminal: a filter is typed; a wrong one, and one that smcrd refuses, is reported" {
	canned "{$GROUPS_AND_LINKS,\"connection.show\":[[$(connection 1 0)],[$(connection 1 0)],
		{\"schema\":1,\"error\":{\"code\":\"bad-parameter\",\"errno\":22,\"text\":\"\\u001b[2J'x' is no mode\"}},
		[$(connection 1 0)]]}"
	screen 100 24 "$SMCRCTL" top peer 10.77.0.2 -w 600 <<-'END'
		sees by BYTES/S, largest first; peer 10.77.0.2$
		keys f
		sees ^filter, such as 'peer 192.0.2.1': peer 10.77.0.2$
		keys \x7f9\n
		sees by BYTES/S, largest first; peer 10.77.0.9$
		keys f
		sees ^filter
		keys \x1b
		sees ^q quit
		keys f\x15pear x\n
		sees ^top cannot be limited by 'pear'; it can be by: peer ADDRESS, 
		sees largest first; peer 10.77.0.9$
		keys f\x15mode x\n
		sees ^\?\[2J'x' is no mode$
		sees ^0 groups, 0 links, 0 connections, 0 over SMC-R$
		keys f\x15\n
		sees by BYTES/S, largest first$
		sees ^q quit
		keys q
		ends 0
	END
	grep -q '"link.show", "params": {"peer": "10.77.0.2"}' "$BATS_TEST_TMPDIR/asked"
	grep -q '"connection.show", "params": {"mode": "x"}' "$BATS_TEST_TMPDIR/asked"
	grep -q '"link.show", "params": {}' "$BATS_TEST_TMPDIR/asked"
	canned_down
}

@test "top stays when smcrd ends, says so, and goes on when smcrd is back" {
	local again
	at_rest
	# the next one is a child of this shell: it would be killed with one that only starts it
	setpriv --pdeathsig KILL bash -c 'until [ -e "$1/again" ]; do sleep 0.05; done; rm -f "$2"
		exec "$0" "$2" "$1/replies.json" "$1/asked"' "$BATS_TEST_DIRNAME/canned_smcrd.py" "$BATS_TEST_TMPDIR" \
		"$SMCRD_SOCKET" 3>&- &
	again=$!
	screen 100 24 "$SMCRCTL" top -w 0.2 <<-END
		sees ^10.77.0.1:7002
		run kill $CANNED_PID
		sees ^no smcrd answers on $SMCRD_SOCKET
		sees ^10.77.0.1:7002
		run touch $BATS_TEST_TMPDIR/again
		misses no smcrd answers
		sees ^q quit
		keys q
		ends 0
	END
	CANNED_PID=$again
	canned_down
	run -3 "$SMCRCTL" top --batch --count 1
}

@test "top as text: the busiest first, those that have ended among them, and no page more than is needed" {
	# In the first sample connections 9 and 8 have ended, in the second also 10. top must not ask for the next page,
	# because it has seen 9 before.
	page() {
		printf '{"schema":1,"next":"ended:1","result":[%s]}' "$1"
	}
	canned "{$GROUPS_AND_LINKS,\"connection.show\":[
		$(page "$(connection 1 0),$(connection 2 0),$(connection 3 0),$(connection 9 5 true),$(connection 8 5 true)"),
		$(page "$(connection 1 10),$(connection 2 90000),$(connection 3 0),$(connection 10 400000 true 100),$(connection 9 5 true),$(connection 8 5 true)")]}"
	run -0 --separate-stderr "$SMCRCTL" top --count 1 --number 3 -w 0.5
	[[ "${lines[0]}" == *" by BYTES/S, largest first" ]]
	[[ "${lines[1]}" == "1 group, 2 links, 3 connections, 3 over SMC-R; TX "*"; 1 ended" ]]
	[ "$(grep -o 'prog[0-9]*' <<<"$output" | tr '\n' ' ')" = "prog10 prog2 prog1 " ]
	text=$output
	LC_ALL=C run ! grep -q $'[\x01-\x08\x0b-\x1f\x7f]' <<<"$text"
	[ "$(grep -c connection.show "$BATS_TEST_TMPDIR/asked")" = 2 ]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/asked")" = 6 ]
	canned_down
	: >"$BATS_TEST_TMPDIR/asked"
	canned "$(<"$BATS_TEST_TMPDIR/replies.json")"
	run -0 "$SMCRCTL" -j top --count 2 -w 0.3 --sort tx-bytes
	[ "${#lines[@]}" = 2 ]
	jq -e '.schema == 1 and .top.ended == 1 and .top.seconds > 0 and (.top.tx_rate_bytes | type) == "number" and
		.top.linkgroups[0].rate_bytes == 0 and (.top.links | length) == 2 and
		[.top.connections[].id] == [3, 1, 2, 10] and .top.connections[0].tx_rate_bytes == 0' <<<"${lines[0]}"
	jq -e '.top.ended == 0 and [.top.connections[].rate_bytes] == [0, 0, 0]' <<<"${lines[1]}"
	canned_down
}

@test "top asks smcrd for a fifth of the time at most, unless somebody wants it more often" {
	canned "{$GROUPS_AND_LINKS,\"connection.show\":[{\"seconds\":0.4,\"reply\":[$(connection 1 0)]}]}"
	run -0 "$SMCRCTL" -j top --count 2
	jq -es 'length == 2 and all(.[].top; .seconds >= 1.95)' <<<"$output"
	screen 80 24 "$SMCRCTL" top <<-'END'
		sees every 1 s;
		sees over (1[.]9|[2-9]|1[0-9])
		keys q
		ends 0
	END
	sooner() {
		"$SMCRCTL" -j top --count 1 -w 0.1 | jq -e '.top.seconds < 1.9'
	}
	until_true 10 sooner
	canned_down
}

# has_frames NUMBER
has_frames() {
	[ "$(wc -l <"$HOSTS_DIR/frames")" -ge "$1" ]
}

# Each frame is a line. On a slow machine the requests take a part of the time between two frames, so rates may differ.
@test "top with real daemons: rates are what the counters say, also of a connection that comes and goes between two frames" {
	two_patient_daemons
	for host in a b; do smcrctl_on "$host" config set link_timeout_milliseconds 4000; done # two links in each frame
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1 --pingpong 1
	until_true "$FAILOVER_PATIENCE" symmetric
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001 >"$HOSTS_DIR/server_a.log" 2>&1
	until_true 10 tcp_listens a 7001
	start_on b "$SMCRCTL" -j top -w 2 >"$HOSTS_DIR/frames" 2>&1
	top=$!
	until_true 20 has_frames 1
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 300000
	frames=$(wc -l <"$HOSTS_DIR/frames")
	until_true 20 has_frames "$((frames + 2))"
	kill -TERM "$top"
	wait "$top"
	# rate times duration must be the bytes that were sent: of the connection that came and went, and of one that goes on
	jq -es '[.[].top | .seconds as $s | .connections[] | select(.peer | endswith(":7001")) | .tx_rate_bytes * $s] |
		add | . > 180000 and . < 420000' "$HOSTS_DIR/frames"
	jq -es '[.[].top | {s: .seconds, c: (.connections[] | select(.peer | endswith(":7100")))}] | group_by(.c.id) |
		length == 2 and all([.[1:], .[:-1]] | transpose | all(
			(.[0].c.tx_bytes - .[1].c.tx_bytes) as $went | (.[0].c.tx_rate_bytes * .[0].s) as $told |
			$told >= $went * 0.6 and $told <= $went * 1.4 + 1))' "$HOSTS_DIR/frames"
	jq -es 'all(.[].top; (.links | length) == 2 and .linkgroups[0].rate_bytes == ([.links[].rate_bytes] | add) and
		.linkgroups[0].rate_bytes > 0 and ([.connections[].rate_bytes] | . == (sort | reverse)))' "$HOSTS_DIR/frames"
	on b "$BATS_TEST_DIRNAME/screen.py" 140 24 "$SMCRCTL" top <<-'END'
		sees ^1 group, 2 links, 2 connections, 2 over SMC-R; TX [0-9.]+[KMG]?/s, RX [0-9.]+[KMG]?/s over
		sees ^ +1 +10.77.0.1 +client +2 +2 +[0-9.]+[KMG]
		sees 10.77.0.1:7100 +smcr +1/[12] +active +[0-9.]+[KMG]? .* steady$
		keys f\x15port 7001\n
		sees ^1 group, 2 links, 0 connections, 0 over SMC-R
		keys q
		ends 0
	END
	steady_stop client
	steady_stop server
}
