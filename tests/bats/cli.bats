#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrctl alone: how it shows what a daemon answers, here one that reads its answers from a file
# (canned_smcrd.py). Needs no namespaces.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=tests/bats/canned.bash
. "$BATS_TEST_DIRNAME/canned.bash"

SMCRCTL=$HOSTS_BUILD/bin/smcrctl

teardown() {
	canned_down
}

# terminal COLUMNS LINES COMMAND..
terminal() {
	"$BATS_TEST_DIRNAME/terminal.py" "$@"
}

# interrupted SIGNAL LINES COMMAND..: send the signal after so many lines of output and $ASKED requests to the daemon,
# and print the output
interrupted() {
	local signal=$1 count=$2 out=$BATS_TEST_TMPDIR/interrupted pid
	shift 2
	: >"$out"
	"$@" >"$out" 2>&1 3>&- &
	pid=$!
	# shellcheck disable=SC2317
	has_lines() {
		[ "$(wc -l <"$out")" -ge "$count" ] && [ "$(wc -l <"$BATS_TEST_TMPDIR/asked")" -ge "${ASKED:-0}" ]
	}
	until_true 10 has_lines
	kill "-$signal" "$pid"
	wait "$pid" || return
	cat "$out"
}

CONNECTIONS='{"connection.show":[[
{"id":1,"local":"10.77.0.1:7100","peer":"10.77.0.2:40000","mode":"smcr","linkgroup":3,"link":2,"state":"active",
 "tx_bytes":1258291,"rx_bytes":9,"pid":4711,"program":"nginx","fallback_text":null},
{"id":2,"local":"10.77.0.1:7100","peer":"10.77.0.10:40000","mode":"smcr","linkgroup":3,"link":10,"state":"active",
 "tx_bytes":1023,"rx_bytes":1048575,"pid":12,"program":"n\u001bginx","fallback_text":null},
{"id":3,"local":"10.77.0.1:7100","peer":"10.77.0.9:40000","mode":"tcp","linkgroup":null,"link":null,"state":"closed",
 "tx_bytes":null,"rx_bytes":null,"pid":99,"program":"curl","fallback_text":"the peer did not offer SMC-R, and that is all"}]]}'

@test "bytes are rounded for people, and exact with --bytes and in JSON" {
	canned "$CONNECTIONS"
	run -0 "$SMCRCTL" connection
	[[ "${lines[1]}" =~ \ 1\.2M\ +9\  ]]
	[[ "${lines[2]}" =~ \ 1023\ +1\.0M\  ]]
	[[ "$output" == *"n?ginx"* ]]
	run -0 "$SMCRCTL" --bytes connection
	[[ "${lines[1]}" =~ \ 1258291\ +9\  ]]
	run -0 "$SMCRCTL" -j connection
	[[ "$output" == *'"tx_bytes":1258291,'* ]]
}

@test "a failed connection tells in the table how it has failed, others tell only why they are TCP" {
	canned '{"connection.show":[[
		{"id":1,"state":"failed","error":"ECONNREFUSED","fallback_text":null},
		{"id":2,"state":"failed","error":null,"fallback_text":null},
		{"id":3,"state":"closed","error":"ECONNRESET","fallback_text":null},
		{"id":4,"state":"failed","error":"EPIPE","fallback_text":"the peer declined"}]]}'
	run -0 "$SMCRCTL" connection
	[[ "${lines[1]}" == *"  failed: ECONNREFUSED" ]]
	[[ "${lines[2]}" == *"  -" ]]
	[[ "${lines[3]}" == *"  -" ]]
	[[ "${lines[4]}" == *"  the peer declined" ]]
}

@test "a narrow terminal shows what matters most, and no value is cut" {
	canned "$CONNECTIONS"
	run -0 "$SMCRCTL" connection
	titles=$(tr -s ' ' <<<"${lines[0]}")
	[[ "$titles" == *"LOCAL PEER MODE LINK STATE TX-BYTES RX-BYTES PID PROGRAM FALLBACK" ]]
	run -0 terminal 200 24 "$SMCRCTL" connection
	[ "$(tr -s ' ' <<<"${lines[0]%$'\r'}")" = "$titles" ]
	for columns in 80 60 40; do
		run -0 terminal "$columns" 24 "$SMCRCTL" connection
		[[ "${lines[0]}" == "LOCAL           PEER              MODE  "*"FALLBACK"$'\r' ]]
		[[ "${lines[0]}" != *PID* ]]
		[[ "${lines[3]}" == *"the peer did not offer SMC-R, and that is all"* ]]
		[[ "${lines[4]}" == *"more columns with -d"* ]]
		[ "$(tr -d '\r' <<<"${lines[0]}" | wc -L)" -le "$columns" ] || [ "$columns" = 40 ]
	done
	run -0 terminal 40 24 "$SMCRCTL" -d connection
	[[ "${lines[0]}" == *PEER-HOST*PID*CODES*FALLBACK* ]]
}

@test "--sort: numbers as numbers, the largest first with a minus, JSON too" {
	canned "$CONNECTIONS"
	ids() {
		"$SMCRCTL" -j --sort "$1" connection | jq -r '[.connection[].id] | join("")'
	}
	[ "$(ids tx-bytes)" = 213 ]
	[ "$(ids -tx_bytes)" = 123 ]
	[ "$(ids PEER)" = 132 ]
	[ "$(ids -link)" = 213 ]
	[ "$(ids pid)" = 231 ]
	run -2 "$SMCRCTL" --sort size connection
	[[ "$output" == *"no column 'size' to sort by; it has: ID, "*" PEER, "* ]]
	run -2 "$SMCRCTL" --sort pid info
}

@test "cm: two tables, of which the connections are sorted; a connection that ends between two parts is there once" {
	canned '{"cm.show":[
		{"schema":1,"next":"live:2","result":{"listeners":[{"local":"0.0.0.0:445","requests":1,"accepted":1,"refused":0,"waiting":0}],
			"connections":[{"id":3,"state":"connected","peer":"10.77.0.2:9"},{"id":2,"state":"connected","peer":"10.77.0.2:445",
				"reads_answered":16,"reads_asked":8,"local_qpn":18,"peer_qpn":52,"local_id":4660,"peer_id":null}]}},
		{"schema":1,"result":{"listeners":[],"connections":[{"id":1,"state":"asking","peer":"10.77.0.2:10"},
			{"id":3,"state":"ended","peer":"10.77.0.2:9","reject_code":8,"reject_reason":"invalid-service-id",
				"text":"nobody listens"}]}}]}'
	run -0 "$SMCRCTL" -d cm
	[ "$(grep -c . <<<"$output")" = 6 ]
	[[ "${lines[0]}" == "ID  STATE "*"WHY" ]]
	[[ "${lines[1]}" == " 3  ended "*"8 invalid-service-id "*" nobody listens" ]]
	[[ "${lines[2]}" == " 2  connected "*"000012/000034 "*"16/8 "*"00001234/- "* ]]
	[[ "${lines[4]}" == "LISTENS "* ]]
	[[ "${lines[5]}" == "0.0.0.0:445 "* ]]
	jq -e 'select(.params.after == "live:2")' "$BATS_TEST_TMPDIR/asked" >/dev/null
	canned '{"cm.show":[{"listeners":[],"connections":[{"id":1,"peer":"10.77.0.2:10"},{"id":2,"peer":"10.77.0.2:9"}]}]}'
	[ "$("$SMCRCTL" -j --sort peer cm | jq -c '.cm | [.listeners, [.connections[].id]]')" = '[[],[2,1]]' ]
	[ "$("$SMCRCTL" cm | wc -l)" = 3 ] # no table of listeners
	run -2 "$SMCRCTL" --sort waiting cm
	run -2 "$SMCRCTL" cm --cm
	[[ "$output" == "smcrctl: --cm goes with 'check' only" ]]
}

@test "--sort since: by the time itself, not by the text that shows it, across midnight too" {
	local now
	now=$(date +%s)
	canned "{\"connection.show\":[[{\"id\":1,\"time_us\":${now}000000},{\"id\":2,\"time_us\":$((now - 172800))000000},
		{\"id\":3,\"time_us\":$((now - 1))000000},{\"id\":4,\"time_us\":null}]]}"
	[ "$("$SMCRCTL" -j --sort since connection | jq -r '[.connection[].id] | join("")')" = 2314 ]
	[ "$("$SMCRCTL" -j --sort -since connection | jq -r '[.connection[].id] | join("")')" = 1324 ]
}

@test "--watch: shows the view again and again, or repaints the screen, until interrupted" {
	canned "$CONNECTIONS"
	run -0 interrupted INT 3 "$SMCRCTL" -j --watch 0.2 connection
	[ "${#lines[@]}" -ge 3 ]
	for line in "${lines[@]}"; do
		jq -e '.schema == 1 and (.connection | length == 3)' <<<"$line"
	done
	run -0 interrupted TERM 8 "$SMCRCTL" -w 0.2 --sort -pid connection
	[ "$(grep -cE '^20[0-9-]+ [0-9:]+  connection, every 0.2 s$' <<<"$output")" -ge 2 ]
	[[ "${lines[2]}" == *" 4711 "* ]]
	# five lines: the header, three of the table, and the cursor's
	run -0 interrupted TERM 8 "$BATS_TEST_DIRNAME/terminal.py" 60 5 "$SMCRCTL" -w 0.2 connection
	[[ "$output" == $'\e[H\e[J\e[H20'* ]]
	[[ "${lines[1]}" == LOCAL* ]]
	[[ "${lines[3]}" == "(3 more lines)"* ]]
	[[ "${lines[4]}" == $'\e[J\e[H20'* ]]
	run -2 "$SMCRCTL" -w 0 connection
	[[ "$output" == *"--watch: '0' is no number of seconds from 0.1 to 86400"* ]]
	run -2 "$SMCRCTL" -w 1 link delete 1/1
	run -2 "$SMCRCTL" -w 1 monitor
}

@test "--watch paints a terminal of another size anew at once" {
	local out=$BATS_TEST_TMPDIR/screen pid
	canned "$CONNECTIONS"
	# shellcheck disable=SC2317
	shows() {
		grep -q "$1" "$out"
	}
	setpriv --pdeathsig KILL "$BATS_TEST_DIRNAME/terminal.py" 60 5 "$SMCRCTL" -w 600 connection >"$out" 3>&- &
	pid=$!
	until_true 10 shows '3 more lines'
	[ "$(grep -c '10.77.0.9:40000' "$out")" = 0 ]
	kill -USR1 "$pid"
	until_true 10 shows '10.77.0.9:40000'
	kill -TERM "$pid"
	wait "$pid"
}

@test "--watch ends when nobody reads what it prints, not only when it is time for the next" {
	canned "$CONNECTIONS"
	# shellcheck disable=SC2016
	run -0 timeout 120 bash -c '"$0" -j -w 600 connection | head -n 1' "$SMCRCTL"
	jq -e '.connection | length == 3' <<<"$output"
}

@test "with standard output closed, output does not go to smcrd" {
	canned "$CONNECTIONS"
	# shellcheck disable=SC2016
	for words in "connection" "-j connection" "-j -w 600 connection"; do
		# shellcheck disable=SC2086
		run -1 timeout 120 bash -c '"$0" "$@" 2>&1 >&-' "$SMCRCTL" $words
		[ "$output" = "smcrctl: cannot write the output: Bad file descriptor" ]
	done
	# shellcheck disable=SC2016
	run -1 bash -c '"$0" connection <&- >&- 2>&-' "$SMCRCTL"
	[ "$(jq -r .method "$BATS_TEST_TMPDIR/asked" | sort | uniq -c | tr -s ' ')" = ' 4 connection.show' ]
	# Nothing of the output has gone to the daemon, which still answers.
	run -0 "$SMCRCTL" -j connection
	jq -e '.connection | length == 3' <<<"$output"
}

@test "--watch ends when smcrd does" {
	canned '{"device.show":[[],[],"end"]}'
	run -3 "$SMCRCTL" -j -w 0.1 device
	[ "$(grep -c '{"schema":1,"device":\[\]}' <<<"$output")" = 2 ]
	[[ "$output" == *'"code":"no-daemon"'* ]]
}

EVENTS='"events":[{"id":6,"time_us":1763885473250000,"event":"link-failed","text":"link 3/1 has failed"}]'
NOW='{"schema":1,"result":{"events":[],"lost":0},"next":"event:5"}'

@test "monitor goes on where it was, and tells what it has missed" {
	canned "{\"event.wait\":[$NOW,{\"schema\":1,\"result\":{$EVENTS,\"lost\":0},\"next\":\"event:6\"},
		{\"schema\":1,\"result\":{\"events\":[],\"lost\":2},\"next\":\"event:8\"},\"end\"]}"
	run -3 "$SMCRCTL" monitor peer 192.0.2.1
	[[ "${lines[0]}" == 2025-11-2*".250  link-failed   link 3/1 has failed" ]]
	[[ "${lines[1]}" == "2 events came faster "* ]]
	[[ "${lines[2]}" == *"smcrd has ended"* ]]
	[ "$(jq -c .params.after "$BATS_TEST_TMPDIR/asked" | tr '\n' ' ')" = 'null "event:5" "event:6" "event:8" ' ]
	[ "$(jq -r .params.peer "$BATS_TEST_TMPDIR/asked" | sort -u)" = 192.0.2.1 ]
}

@test "monitor --number begins earlier, as JSON line by line, and ends well when interrupted" {
	canned "{\"event.wait\":[$NOW,{\"schema\":1,\"result\":{$EVENTS,\"lost\":3},\"next\":\"event:6\"},null]}"
	ASKED=3 run -0 interrupted INT 1 "$SMCRCTL" -j monitor --number 3
	[ "${#lines[@]}" = 1 ]
	jq -e '.schema == 1 and .event.id == 6' <<<"$output"
	[ "$(jq -c .params.after "$BATS_TEST_TMPDIR/asked" | tr '\n' ' ')" = 'null "event:2" "event:6" ' ]
	run -2 "$SMCRCTL" monitor --number 0
	run -2 "$SMCRCTL" link --number 3
}

@test "monitor ends when nobody reads what it prints, not only at the next event" {
	canned "{\"event.wait\":[$NOW,{\"schema\":1,\"result\":{$EVENTS,\"lost\":0},\"next\":\"event:6\"},null]}"
	# shellcheck disable=SC2016
	run -0 timeout 120 bash -c '"$0" monitor | head -n 1' "$SMCRCTL"
	[[ "$output" == *"link-failed   link 3/1 has failed" ]]
}

@test "a daemon that stands still is reported, also by what may wait for any time" {
	canned "{\"event.wait\":[$NOW,null],\"drain.begin\":[null]}"
	kill -STOP "$CANNED_PID"
	"$SMCRCTL" drain --wait 2>"$BATS_TEST_TMPDIR/drain.err" 3>&- &
	run -1 timeout 30 "$SMCRCTL" monitor
	[[ "$output" == *"smcrd does not answer in time; 'smcrctl doctor' tells what to do" ]]
	run -0 until_true 20 grep "smcrd does not answer in time; 'smcrctl doctor' tells what to do" "$BATS_TEST_TMPDIR/drain.err"
	# One that has greeted, or answered once, is waited for.
	kill -CONT "$CANNED_PID"
	timeout 12 "$SMCRCTL" drain --wait 3>&- &
	local drain=$! status=0
	run -124 timeout 12 "$SMCRCTL" monitor
	wait "$drain" || status=$?
	[ "$status" = 124 ]
}

@test "a daemon that stands still and has no place for another caller is not called absent" {
	export SMCRD_SOCKET=$BATS_TEST_TMPDIR/full.sock
	setpriv --pdeathsig KILL python3 -c 'import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(0)
waiting = socket.socket(socket.AF_UNIX)
waiting.connect(sys.argv[1])
print("full", flush=True)
time.sleep(600)' "$SMCRD_SOCKET" >"$BATS_TEST_TMPDIR/full" 3>&- &
	until_true 10 grep -q full "$BATS_TEST_TMPDIR/full"
	run -1 "$SMCRCTL" info
	[[ "$output" == *"smcrd does not answer in time; 'smcrctl doctor' tells what to do" ]]
	run -1 "$SMCRCTL" doctor
	[[ "${lines[0]}" == "problem: smcrd does not answer within 5 s"*"systemctl restart smcrd"* ]]
	kill $!
}

@test "a socket path that no socket can have is wrong usage, not a daemon that is absent" {
	run -2 "$SMCRCTL" -s "/$(printf 'x%.0s' {1..107})" info
	[[ "$output" == "smcrctl: '/xxx"*"a socket path has at most 107 bytes" ]]
	SMCRD_SOCKET=/$(printf 'x%.0s' {1..107}) run -2 "$SMCRCTL" -j doctor
	[[ "$output" == *'"code":"usage"'* ]]
}

@test "filters become parameters, and a wrong filter is refused with a sentence" {
	canned '{"link.show":[[]],"connection.show":[[]]}'
	run -0 "$SMCRCTL" link peer 192.0.2.1 state ACTIVE group 3
	run -0 "$SMCRCTL" connection show uid root port 443 pid 12 mode smcr
	[ "$(jq -cS .params "$BATS_TEST_TMPDIR/asked" | tr '\n' ' ')" = \
		'{"linkgroup":3,"peer":"192.0.2.1","state":"ACTIVE"} {"mode":"smcr","pid":12,"port":443,"uid":0} ' ]
	run -2 "$SMCRCTL" link show port 1
	[[ "$output" == *"link cannot be limited by 'port'; it can be by: peer ADDRESS, state STATE, group GROUP"* ]]
	run -2 "$SMCRCTL" connection show port
	[[ "$output" == *"'port' is not followed by its value"* ]]
	run -2 "$SMCRCTL" connection show port 80 port 81
	[[ "$output" == *"'port' is there twice"* ]]
	run -2 "$SMCRCTL" connection show port 0
	run -2 "$SMCRCTL" connection show pid x
	run -2 "$SMCRCTL" connection show uid nobody-of-that-name
	run -2 "$SMCRCTL" device show peer 192.0.2.1
}

@test "smcrd refuses: wrong values are wrong usage as those that smcrctl finds, and commands have their words" {
	# refusal CODE ERRNO: a reply
	refusal() {
		printf '[{"schema":1,"error":{"code":"%s","errno":%d,"text":"so says smcrd"}}]' "$1" "$2"
	}
	# says STATUS TEXT WORDS..
	says() {
		run "-$1" --separate-stderr "$SMCRCTL" "${@:3}"
		# shellcheck disable=SC2154 # of run
		[ "$stderr" = "smcrctl: $2" ]
		run "-$1" --separate-stderr "$SMCRCTL" -j "${@:3}"
		jq -e '.error.text == "so says smcrd"' <<<"$output"
	}
	local denied missing wrong
	denied=$(refusal not-permitted 1) missing=$(refusal not-found 2) wrong=$(refusal bad-parameter 22)
	canned "{\"config.set\":$denied,\"config.reload\":$denied,\"drain.end\":$denied,\"link.delete\":$denied}"
	says 1 'config set: so says smcrd' conf se memory 64M
	says 1 'log level: so says smcrd' log level debug
	says 1 'config reload: so says smcrd' config reload
	says 1 'drain: so says smcrd' drain --off
	says 1 'link delete: so says smcrd' link delete 1/1
	canned "{\"config.set\":$wrong,\"connection.show\":$wrong,\"event.wait\":$wrong,\"link.show\":$missing,
		\"ueid.add\":$(refusal exists 17),\"config.reload\":$(refusal bad-configuration 22)}"
	says 2 'so says smcrd' config set memory lots
	says 2 'so says smcrd' connection show mode fast
	says 2 'so says smcrd' monitor
	says 4 'so says smcrd' link
	says 1 'so says smcrd' ueid add SMCLAB
	says 1 'so says smcrd' config reload
	# smcrctl is newer than smcrd
	run -1 "$SMCRCTL" policy add deny port 22
	[ "$output" = 'smcrctl: policy add: no method policy.add' ]
}

@test "peer: one row of link groups, links, events and failures" {
	canned '{"linkgroup.show":[[{"id":1,"peer":"10.77.0.2","peer_host":null,"connections":3},
			{"id":2,"peer":"10.77.0.2","peer_host":"beta","connections":1},
			{"id":3,"peer":"10.77.0.3","peer_host":null,"connections":0}]],
		"link.show":[[{"peer":"10.77.0.2","tx_bytes":5000000,"rx_bytes":1},
			{"peer":"10.77.0.2","tx_bytes":5000000,"rx_bytes":1}]],
		"policy.show":[{"rules":[],"failed":[
			{"peer":"10.77.0.9","port":null,"uid":0,"kind":"path","text":"the path is dead","seconds_left":57},
			{"peer":"10.77.0.3","port":80,"uid":0,"kind":"reset","text":"a reset","seconds_left":2},
			{"peer":null,"port":80,"uid":0,"kind":"reset","text":"a reset","seconds_left":2}]}],
		"event.show":[[{"id":1,"time_us":1763885473250000,"event":"group-up","peer":"10.77.0.2","text":"up"},
			{"id":2,"time_us":1763885473250000,"event":"group-down","peer":"10.77.0.2","text":"it has ended"},
			{"id":3,"time_us":1763885473250000,"event":"command","peer":null,"text":"x"}]]}'
	run -0 "$SMCRCTL" peer
	[ "${#lines[@]}" = 4 ]
	[[ "${lines[1]}" =~ ^10\.77\.0\.2\ +beta\ +2\ +2\ +4\ +9\.5M\ +2\ +no\ +2025.*\ \ it\ has\ ended$ ]]
	[[ "${lines[2]}" =~ ^10\.77\.0\.3\ .*\ port\ 80\ 2\ s\ +-\ +a\ reset$ ]]
	[[ "${lines[3]}" =~ ^10\.77\.0\.9\ .*\ 57\ s\ +-\ +the\ path\ is\ dead$ ]]
	run -0 "$SMCRCTL" -j peer peer ::ffff:10.77.0.9
	jq -e '.peer | length == 1 and .[0].skipped_seconds_left == 57 and .[0].failures[0].kind == "path"' <<<"$output"
	run -0 "$SMCRCTL" -j --sort -connections peer
	[ "$(jq -r '.peer[0].peer' <<<"$output")" = 10.77.0.2 ]
}

@test "doctor: memory that ran out is a problem while it is short, and a warning when more was given" {
	local now last
	now=$(date +%s)
	last='{"event":"fallback","reason":"no-memory","text":"x","time_us":'
	# says LEVEL USED EVENTS: does doctor say this about memory, when USED of 100 KiB are in use?
	says() {
		canned "{\"info.show\":[{\"engine\":{\"memory_used_bytes\":$2,\"memory_budget_bytes\":102400,
			\"memory_refused_total\":3}}],\"event.show\":[[$3]]}"
		run "$SMCRCTL" doctor
		[ "$status" -le 1 ] # other findings about this machine do not matter
		[[ "$output" == *"$1: memory for buffers ran out for 3 connections since smcrd was started"*"; raise 'memory' in smcrd.conf(5), then 'smcrctl config reload'"* ]]
		kill "$CANNED_PID"
		wait "$CANNED_PID" || true
	}
	says problem 0 "${last}${now}000000}"
	says warning 0 "${last}$((now - 3600))000000}"
	says problem 102400 "${last}$((now - 3600))000000}"
	says warning 0 "${last}${now}000000},{\"event\":\"command\",\"text\":\"config.reload {} by uid 0, pid 1: done\"}"
	says warning 0 "${last}${now}000000},{\"event\":\"command\",
		\"text\":\"config.set {\\\"name\\\":\\\"memory\\\",\\\"value\\\":\\\"1G\\\"} by uid 0, pid 1: done\"}"
	says problem 0 "${last}${now}000000},{\"event\":\"command\",
		\"text\":\"config.set {\\\"name\\\":\\\"log_level\\\",\\\"value\\\":\\\"debug\\\"} by uid 0, pid 1: done\"}"
}

@test "doctor says that smcrd is drained" {
	canned '{"info.show":[{"draining":{"age_ms":5000,"connections":1}},{"draining":null}]}'
	run -1 "$SMCRCTL" doctor
	[[ "$output" == *"problem: smcrd is drained: no new connection uses SMC-R; 'smcrctl drain --off' ends that"* ]]
	run "$SMCRCTL" doctor
	[ "$status" -le 1 ]
	[[ "$output" == *"smcrd"* && "$output" != *"is drained"* ]]
}

# without_users: the rules on standard input, without the users of this machine
without_users() {
	sed -E 's/(skuid != ).* drop$/\1.. drop/'
}

RULES='"device.show":[[{"name":"soft:eth0","kind":"soft","netdev":"eth0","gids":["::ffff:192.0.2.1"]},
	{"name":"verbs:mlx5_0/1","kind":"verbs","netdev":"ens1","gids":[]}]],
"linkgroup.show":[[{"id":1,"peer":"192.0.2.7"},{"id":2,"peer":"fd00::3"}]],
"link.show":[[{"peer":"192.0.2.7","peer_gid":"::ffff:192.0.2.7"},{"peer":"192.0.2.7","peer_gid":"::ffff:192.0.2.17"},
	{"peer":"fd00::3","peer_gid":"fe80::1"}]],
"policy.show":[{"rules":[],"paths":[{"peer":"fd00::3","peer_gid":"::ffff:192.0.2.33"}]}],
"config.show":[[{"key":"capable_subnet","value":"10.1.0.0/16"},{"key":"capable_subnet","value":"10.2.0.1/32"},
	{"key":"memory","value":"1G"}]]'

@test "doctor --rules: a table for nft of the RNICs and peers that smcrd knows" {
	canned "{\"host.show\":[{\"uid\":4711,\"missing_rnics\":[{\"name\":\"soft:later0\"},{\"name\":\"verbs:x/1\"}]}],$RULES}"
	run -0 "$SMCRCTL" doctor --rules
	diff <(without_users <<<"$output") - <<'END'
# UDP port 4791 (RoCEv2) for smcrd and its peers only: docs/security.md of smcrd.
# smcrctl doctor --rules | nft -f -     loads this, in place of what it has loaded before
table inet smcrd
delete table inet smcrd
table inet smcrd {
	# The peers that smcrd knows now. SMC-R with others fails: see that all are here, with
	# the IPv4 addresses of all their RNICs, and nobody else. One more:
	# nft add element inet smcrd peers { ADDRESS }
	set peers {
		type ipv4_addr; flags interval; auto-merge
		elements = { 192.0.2.7, 192.0.2.17, 192.0.2.33, 10.1.0.0/16, 10.2.0.1 }
	}
	# RNIC verbs:x/1: it is not there now; name its interface below
	# RNIC verbs:mlx5_0/1: if it is hardware its packets do not pass here, and the switch has to keep strangers out
	chain input {
		type filter hook input priority filter
		udp dport 4791 iifname != { "later0", "eth0", "ens1" } drop
		udp dport 4791 ip saddr != @peers drop
		udp dport 4791 meta nfproto ipv6 drop
		# Only if all peers have software RNICs of smcrd, which smcrd does not tell: hardware and
		# rdma_rxe send from other ports.
		# udp dport 4791 udp sport != 4791 drop
	}
	chain output {
		type filter hook output priority filter
		udp dport 4791 meta skuid != .. drop
	}
	chain forward { # containers and virtual machines behind this host
		type filter hook forward priority filter
		udp dport 4791 drop
	}
}
END
	text=$output
	run -0 "$SMCRCTL" -j doctor --rules
	jq -e --arg text "$text" '.schema == 1 and (.rules | .nft == $text + "\n" and .interfaces == ["later0", "eth0", "ens1"] and
		.peers == ["192.0.2.7", "192.0.2.17", "192.0.2.33", "10.1.0.0/16", "10.2.0.1"] and
		.users[0] == "root" and (.users | index("4711")))' <<<"$output"
}

@test "doctor --rules: without a peer the rule about peers is a comment, which keeps nobody out" {
	canned '{"host.show":[{"uid":0}],"device.show":[[{"name":"soft:eth0","kind":"soft","netdev":"eth0"}]],
		"linkgroup.show":[[]],"link.show":[[]],"policy.show":[{}],"config.show":[[]]}'
	run -0 "$SMCRCTL" doctor --rules
	[[ "$output" == *"# smcrd knows no peer now. Write the IPv4 addresses"*"# elements = { }"* ]]
	[[ "$output" == *$'\n\t\t# udp dport 4791 ip saddr != @peers drop\n'* ]]
	[[ "$output" == *$'\n\t\tudp dport 4791 iifname != { "eth0" } drop\n'* ]]
	run -0 "$SMCRCTL" -j doctor --rules
	jq -e '.rules | .peers == [] and .users[0] == "root"' <<<"$output"
}

@test "doctor --rules prints nothing for nft where something is missing, and says what to do" {
	# refuses STATUS TEXT: is nothing printed for nft, and this said?
	refuses() {
		run "-$1" --separate-stderr "$SMCRCTL" doctor --rules
		[ -z "$output" ]
		# shellcheck disable=SC2154 # of run
		[[ "$stderr" == "smcrctl: $2" ]]
		run "-$1" --separate-stderr "$SMCRCTL" -j doctor --rules
		jq -e --arg text "$stderr" '.error.text == ($text | ltrimstr("smcrctl: "))' <<<"$output"
	}
	SMCRD_SOCKET=/nowhere refuses 3 "the rules need the RNICs and peers that smcrd knows: no smcrd answers on /nowhere: No such file or directory; start it: systemctl start smcrd ('smcrctl doctor' tells more)"
	canned "{\"host.show\":[{\"uid\":0,\"netns_cookie\":1234567}],$RULES}"
	refuses 1 "smcrd runs in another network namespace than this command, and the rules belong there; as root: nsenter --net=/proc/$CANNED_PID/ns/net smcrctl doctor --rules"
	canned '{"host.show":[{"uid":0}],"device.show":[[]]}'
	refuses 1 "smcrd has no RNIC, so that no interface can be named in the rules; 'smcrctl doctor' says why"
	canned '{"host.show":[{"uid":0}],"device.show":[[{"name":"soft:e\"h0","kind":"soft","netdev":"e\"h0"}]]}'
	refuses 1 "nft cannot be told of the interface 'e\"h0' by its name; rename it: ip link set DEVICE name NAME"
	canned '{"host.show":[{"uid":0}],"device.show":[[{"name":"soft:eth0","kind":"soft","netdev":"eth0"}]]}'
	refuses 1 "the rules need the RNICs and peers that smcrd knows: no method linkgroup.show; 'smcrctl doctor' tells more"
	canned "{\"host.show\":[{\"uid\":0},\"end\"],$RULES}"
	run -0 "$SMCRCTL" doctor --rules
	run -3 --separate-stderr "$SMCRCTL" doctor --rules
	[ -z "$output" ]
	run -2 "$SMCRCTL" doctor --rules please
	[[ "$output" == "smcrctl: doctor takes no argument; 'please' is one" ]]
	run -2 "$SMCRCTL" check --rules 192.0.2.1
	[[ "$output" == "smcrctl: --rules goes with 'doctor' only" ]]
}

@test "help at every level" {
	run -0 "$SMCRCTL" help
	[ "$output" = "$("$SMCRCTL" --help)" ]
	for words in "help link" "link help"; do
		# shellcheck disable=SC2086
		run -0 "$SMCRCTL" $words
		[[ "$output" == *"link delete GROUP/NUMBER"* ]]
		[[ "$output" == *"peer ADDRESS, state STATE, group GROUP"* ]]
		[[ "$output" == *"Columns: LINK, PEER, STATE"* ]]
		[[ "$output" == *"With -d also: "*"LAST-ERROR"* ]]
		[[ "$output" != *"ueid"* ]]
	done
	for words in "help link delete" "link delete help"; do
		# shellcheck disable=SC2086
		run -0 "$SMCRCTL" $words
		[[ "$output" == *"link delete GROUP/NUMBER"* ]]
		[[ "$output" != *"link add"* ]]
	done
	run -0 "$SMCRCTL" help monitor
	[[ "$output" == *"peer ADDRESS, group GROUP"* ]]
	# of each object and command
	while read -r object command _; do
		case $command in
		add | delete | test | disable | enable | remove | forget) run -0 "$SMCRCTL" help "$object" "$command" ;;
		*) run -0 "$SMCRCTL" "$object" help ;;
		esac
		[[ "$output" == *"  $object"* ]]
	done < <("$SMCRCTL" help | sed -n 's/^  \([a-z]\)/\1/p')
	run -2 "$SMCRCTL" help nothing
	run -2 "$SMCRCTL" help link nothing
	run -2 "$SMCRCTL" help link delete 1
}

@test "for a wrong word or option smcrctl suggests a similar one, or lists all" {
	run -2 "$SMCRCTL" lnik
	[ "$output" = "smcrctl: there is no object 'lnik': 'smcrctl help' lists them; did you mean 'link'?" ]
	run -2 "$SMCRCTL" nonsense
	[[ "$output" != *"did you mean"* ]]
	run -2 "$SMCRCTL" link delte 1/1
	[[ "$output" == *"it has: show, add, delete, test, disable, enable; did you mean 'delete'?" ]]
	run -2 "$SMCRCTL" connection show prot 80
	[[ "$output" == *"; did you mean 'port'?" ]]
	run -2 "$SMCRCTL" --jsno link
	[ "${lines[0]}" = "smcrctl: there is no option '--jsno'; did you mean '--json'?" ]
	[ "${lines[1]}" = "usage: smcrctl [OPTIONS] OBJECT [COMMAND] [ARGUMENTS]; see 'smcrctl help'" ]
	[ "${#lines[@]}" = 2 ]
	run -2 "$SMCRCTL" -x link
	[ "${lines[0]}" = "smcrctl: there is no option '-x'" ]
	run -2 "$SMCRCTL" link --watch
	[ "${lines[0]}" = "smcrctl: option '--watch' is not followed by its value" ]
	run -2 "$SMCRCTL" --json=1 link
	[ "${lines[0]}" = "smcrctl: option '--json' takes no value" ]
}

@test "with -j wrong usage is told as JSON too, wherever -j stands" {
	for words in "-j" "-j lnik" "link delte -j" "-x -j link" "link -j --watch 0" "--sort x link -j" "-p help nothing"; do
		# shellcheck disable=SC2086
		run -2 --separate-stderr "$SMCRCTL" $words
		jq -e '.schema == 1 and .error.code == "usage" and (.error.text | length > 10)' <<<"$output"
		# shellcheck disable=SC2154
		[[ "$stderr" == "smcrctl: "* ]]
	done
}

@test "an argument that is no UTF-8 is refused as JSON all the same" {
	run -2 --separate-stderr "$SMCRCTL" -j link peer $'\xff\xfe'
	[ "$(jq -r .error.text <<<"$output")" = "peer: '??' is not UTF-8" ]
}

# completes LINE: print in one line what bash offers at the end of LINE
completes() {
	PATH=$HOSTS_BUILD/bin:$PATH bash -c '
		. "$0"
		complete -p smcrctl >&2
		COMP_LINE=$1 COMP_POINT=${#1}
		_smcrctl
		echo "${COMPREPLY[*]}"' "$HOSTS_ROOT/etc/completion/smcrctl.bash" "$1" 2>/dev/null
}

TO_COMPLETE='{"device.show":[[{"name":"soft:eth0"},{"name":"soft:eth1"}]],
"linkgroup.show":[[{"id":1,"peer":"10.77.0.2"},{"id":2,"peer":"10.77.0.2"},{"id":12,"peer":"fd00::3"}]],
"link.show":[[{"linkgroup":1,"number":1},{"linkgroup":1,"number":2},{"linkgroup":12,"number":1}]],
"ueid.show":[[{"name":"LAB"}]],"policy.show":[{"rules":[{"rule":"deny port 22"}]}],
"config.show":[[{"key":"socket","settable":false},{"key":"log_level","settable":true},{"key":"max_links","settable":true}]]}'

@test "completion in bash knows objects, commands, options, and what smcrd has" {
	canned "$TO_COMPLETE"
	[ "$(completes "smcrctl li")" = "linkgroup link" ]
	[ "$(completes "smcrctl link ")" = "show add delete test disable enable help peer state group" ]
	[ "$(completes "smcrctl link delete ")" = "1/1 1/2 12/1" ]
	[ "$(completes "smcrctl link delete 12")" = "12/1" ]
	[ "$(completes "smcrctl linkgroup delete ")" = "1 2 12" ]
	[ "$(completes "smcrctl failover 1 ")" = "from to" ]
	[ "$(completes "smcrctl failover 1 from ")" = "1/1 1/2" ]
	[ "$(completes "smcrctl link show state ")" = "activating active deactivating failed" ]
	[ "$(completes "smcrctl connection mode smcr s")" = "state" ]
	[ "$(completes "smcrctl top ")" = "peer port pid uid mode group" ]
	[ "$(completes "smcrctl top --sort -tx/")" = "-tx/s" ]
	[ "$(completes "smcrctl monitor peer ")" = "10.77.0.2 fd00::3" ]
	[ "$(completes "smcrctl link peer fd00:")" = ":3" ] # bash keeps the part up to the colon
	[ "$(completes "smcrctl check 10.")" = "10.77.0.2" ]
	[ "$(completes "smcrctl check 10.77.0.2 80 p")" = "program" ]
	[ "$(completes "smcrctl check 10.77.0.2 80 --cm")" = "--cm" ]
	[ "$(completes "smcrctl cm ")" = "show help peer port state" ]
	[ "$(completes "smcrctl cm show state e")" = "ending ended" ]
	[ "$(completes "smcrctl ueid remove ")" = "LAB" ]
	[ "$(completes "smcrctl policy delete ")" = 'deny\ port\ 22' ]
	[ "$(completes "smcrctl config set ")" = "log_level max_links" ]
	[ "$(completes "smcrctl config set log_level ")" = "error warning notice info debug" ]
	[ "$(completes "smcrctl config set log_trace ")" = "none all clc llc cdc rnic cm smbdirect ipc" ]
	[ "$(completes "smcrctl log level ")" = "error warning notice info debug" ]
	[ "$(completes "smcrctl log trace clc ")" = "clc llc cdc rnic cm smbdirect ipc all off" ]
	[ "$(completes "smcrctl config set max_links ")" = "" ]
	[ "$(completes "smcrctl config set log_level debug ")" = "" ]
	[ "$(completes "smcrctl --wat")" = "--watch" ]
	[ "$(completes "smcrctl doctor --ru")" = "--rules" ]
	[ "$(completes "smcrctl doctor --rules ")" = "" ]
	[ "$(completes "smcrctl smbdirect ")" = "show disconnect help peer port state" ]
	[ "$(completes "smcrctl smbdirect show state ")" = "connecting negotiating open draining ended" ]
	[ "$(completes "smcrctl device drain soft:")" = "eth0 eth1" ] # bash keeps the part up to the colon
	[ "$(completes "smcrctl link --sort -tx")" = "-tx-bytes" ]
	[ "$(completes "smcrctl -jw 2 dev")" = "device" ]
	[ "$(completes "smcrctl help ueid ")" = "show add remove help" ]
	[ "$(completes "smcrctl --socket $BATS_TEST_TMPDIR/cann")" = "$SMCRD_SOCKET" ]
	socket=$SMCRD_SOCKET
	[ "$(SMCRD_SOCKET=/nowhere completes "smcrctl --socket=$socket ueid remove ")" = "LAB" ]
	kill "$CANNED_PID"
	wait "$CANNED_PID" || true
	[ "$(completes "smcrctl link delete ")" = "" ]
	[ "$(completes "smcrctl lin")" = "linkgroup link" ]
}

# zsh_completes LINE LATER OFFERED..: a tab at the end of LINE turns it into LATER, and zsh offers these words
zsh_completes() {
	local IFS=$'\t'
	ZSH_LINES+=("$1")
	shift
	printf '%s\n' "$*" >>"$BATS_TEST_TMPDIR/expected"
}

@test "completion in zsh knows the same words, and keeps quotes as they were typed" {
	command -v zsh >/dev/null || skip "zsh is not installed (make check-deps)"
	canned "$TO_COMPLETE"
	ZSH_LINES=()
	zsh_completes "smcrctl li" "smcrctl link" link linkgroup
	zsh_completes "smcrctl capt" "smcrctl capture " capture
	zsh_completes "smcrctl lxnk" "smcrctl lxnk" ""
	zsh_completes "smcrctl link delete " "smcrctl link delete 1" 1/1 1/2 12/1
	zsh_completes "smcrctl link delete 12" "smcrctl link delete 12/1 " 12/1
	zsh_completes "sudo smcrctl link delete 12" "sudo smcrctl link delete 12/1 " 12/1
	zsh_completes "smcrctl failover 1 from " "smcrctl failover 1 from 1/" 1/1 1/2
	zsh_completes "smcrctl top --sort byt" "smcrctl top --sort bytes/s " bytes/s
	zsh_completes "smcrctl link peer fd00:" "smcrctl link peer fd00::3 " fd00::3
	zsh_completes "smcrctl device drain soft:" "smcrctl device drain soft:eth" soft:eth0 soft:eth1
	zsh_completes "smcrctl policy delete " 'smcrctl policy delete deny\ port\ 22 ' "deny port 22"
	zsh_completes 'smcrctl policy delete deny\ po' 'smcrctl policy delete deny\ port\ 22 ' "deny port 22"
	zsh_completes "smcrctl policy delete 'deny po" "smcrctl policy delete 'deny port 22' " "deny port 22"
	zsh_completes "smcrctl config set log_level d" "smcrctl config set log_level debug " debug
	zsh_completes "smcrctl --wat" "smcrctl --watch " --watch
	zsh_completes "smcrctl doctor --ru" "smcrctl doctor --rules " --rules
	zsh_completes "smcrctl link --sort -tx" "smcrctl link --sort -tx-bytes " -tx-bytes
	zsh_completes "smcrctl -jw 2 dev" "smcrctl -jw 2 device " device
	zsh_completes "smcrctl --socket $BATS_TEST_TMPDIR/cann" "smcrctl --socket $SMCRD_SOCKET " canned.sock
	zsh_completes "smcrctl --socket=$BATS_TEST_TMPDIR/cann" "smcrctl --socket=$SMCRD_SOCKET " canned.sock
	zsh_completes "smcrctl capture -w $BATS_TEST_TMPDIR/repl" "smcrctl capture -w $BATS_TEST_TMPDIR/replies.json " replies.json
	zsh_completes "smcrctl -s \"$SMCRD_SOCKET\" ueid remove " "smcrctl -s \"$SMCRD_SOCKET\" ueid remove LAB " LAB
	PATH=$HOSTS_BUILD/bin:$PATH "$BATS_TEST_DIRNAME/complete_zsh.py" "$HOSTS_ROOT/etc/completion" "${ZSH_LINES[@]}" \
		>"$BATS_TEST_TMPDIR/completed"
	diff "$BATS_TEST_TMPDIR/expected" "$BATS_TEST_TMPDIR/completed"
}

@test "completion is installed where the shells look for it" {
	install=$(make -C "$HOSTS_ROOT" -n install PREFIX=/usr DESTDIR=/nowhere)
	[[ "$install" == *"etc/completion/smcrctl.bash"*"/nowhere/usr/share/bash-completion/completions/smcrctl"* ]]
	[[ "$install" == *"etc/completion/_smcrctl /nowhere/usr/share/zsh/site-functions/"* ]]
}

@test "make install and the package put the completion where zsh of Debian looks" {
	command -v zsh >/dev/null || skip "zsh is not installed (make check-deps)"
	[ -e /etc/debian_version ] || skip "this is no Debian"
	places=$(zsh -f -c 'print -l $fpath')
	local_install=$(make -C "$HOSTS_ROOT" -n install PREFIX=/usr/local)
	[[ "$local_install" == *"etc/completion/_smcrctl /usr/local/share/zsh/site-functions/_smcrctl"* ]]
	grep -qx /usr/local/share/zsh/site-functions <<<"$places"
	of_package=$(sed -n 's/.*\(ZSHDIR=[^ ]*\).*/\1/p' "$HOSTS_ROOT/debian/rules")
	package=$(make -C "$HOSTS_ROOT" -n install PREFIX=/usr DESTDIR=/nowhere "$of_package")
	[[ "$package" == *"etc/completion/_smcrctl /nowhere${of_package#*=}/_smcrctl"* ]]
	grep -qx "${of_package#*=}" <<<"$places"
}

# flooded MODE: start a daemon that fills the ring of a capture as MODE says (capture_smcrd.py)
flooded() {
	canned_down
	export SMCRD_SOCKET=$BATS_TEST_TMPDIR/flood.sock
	rm -f "$SMCRD_SOCKET"
	setpriv --pdeathsig KILL "$BATS_TEST_DIRNAME/capture_smcrd.py" "$SMCRD_SOCKET" "$1" 3>&- &
	CANNED_PID=$!
	until_true 10 canned_listens
}

# begins_capture ARGUMENTS..: start a capture, process $CAPTURE_PID, with standard output to $DEVICE if set. The output
# of the capture before is removed first, so that its "capturing" is not taken for that of this one.
begins_capture() {
	rm -f "$BATS_TEST_TMPDIR/err"
	setpriv --pdeathsig KILL "$SMCRCTL" capture "$@" \
		>"${DEVICE:-$BATS_TEST_TMPDIR/out}" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	CAPTURE_PID=$!
}

# ends_with STATUS: does the capture end with this status?
ends_with() {
	local ended=0
	wait "$CAPTURE_PID" || ended=$?
	[ "$ended" = "$1" ]
}

has_ended() {
	[ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}

@test "a capture that is slower than smcrd ends by its time, a signal, and an error" {
	flooded flood
	run -0 timeout -s KILL 120 "$SMCRCTL" capture --data --seconds 0.3 -w "$BATS_TEST_TMPDIR/x"
	[[ "$output" == *" messages captured, "* ]]
	flooded flood
	begins_capture --data -w /dev/null
	until_true 10 grep -q capturing "$BATS_TEST_TMPDIR/err"
	kill -INT "$CAPTURE_PID"
	until_true 20 has_ended "$CAPTURE_PID"
	wait "$CAPTURE_PID"
	flooded flood
	run -1 --separate-stderr timeout -s KILL 120 "$SMCRCTL" -j capture --data -w /dev/full
	# shellcheck disable=SC2154
	[ "$(grep -c "No space left on device" <<<"$stderr")" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[ "$(jq -r .error.code <<<"$output")" = failed ]
}

@test "a capture's file tells for each RNIC what was lost, however it ends" {
	for signal in INT TERM HUP; do
		flooded lose
		begins_capture -w "$BATS_TEST_TMPDIR/x"
		until_true 10 grep -q capturing "$BATS_TEST_TMPDIR/err"
		kill "-$signal" "$CAPTURE_PID"
		until_true 20 has_ended "$CAPTURE_PID"
		ends_with 0
		diff <("$BATS_TEST_DIRNAME/pcapng_statistics.py" "$BATS_TEST_TMPDIR/x") \
			<(printf '%s\n' "eth0 1 3" "unknown 0 2")
		grep -qx "smcrctl: 1 message captured, 5 lost" "$BATS_TEST_TMPDIR/err"
	done
	flooded lose
	run -0 --separate-stderr "$SMCRCTL" -j capture --count 1 -w "$BATS_TEST_TMPDIR/x"
	[ "$(jq -r '.capture | "\(.messages) \(.lost) \(.end)"' <<<"$output")" = "1 5 count" ]
	diff <("$BATS_TEST_DIRNAME/pcapng_statistics.py" "$BATS_TEST_TMPDIR/x") <(printf '%s\n' "eth0 1 3" "unknown 0 2")
}

@test "a capture ends well with its link group, and says so" {
	flooded ends
	run -0 --separate-stderr "$SMCRCTL" -j capture group 5 -w "$BATS_TEST_TMPDIR/x"
	grep -qx "smcrctl: link group 5 has ended, and the capture with it" <<<"$stderr"
	grep -qx "smcrctl: 1 message captured, 0 lost" <<<"$stderr"
	[ "$(jq -r .capture.end <<<"$output")" = linkgroup ]
	[ "$("$BATS_TEST_DIRNAME/pcapng_statistics.py" "$BATS_TEST_TMPDIR/x")" = "eth0 1 0" ]
}

@test "a signal ends a capture that waits for a reader of its FIFO, or for one that takes nothing" {
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	flooded flood
	begins_capture -w "$BATS_TEST_TMPDIR/fifo"
	until_true 10 handles_signals
	kill -TERM "$CAPTURE_PID"
	until_true 10 has_ended "$CAPTURE_PID"
	ends_with 1
	grep -q "nobody reads this FIFO" "$BATS_TEST_TMPDIR/err"
	flooded flood
	exec 4<>"$BATS_TEST_TMPDIR/fifo"
	begins_capture --data -w "$BATS_TEST_TMPDIR/fifo" 4>&-
	until_true 10 grep -q capturing "$BATS_TEST_TMPDIR/err"
	kill -INT "$CAPTURE_PID"
	until_true 20 has_ended "$CAPTURE_PID"
	ends_with 1
	exec 4>&-
	[ "$(grep -c "its reader takes nothing" "$BATS_TEST_TMPDIR/err")" = 1 ]
}

# Signal 15 (SIGTERM) is bit 14. The name comes first: the shell that becomes smcrctl handles signals of its own.
handles_signals() {
	local caught
	[ "$(cat "/proc/$CAPTURE_PID/comm")" = smcrctl ] || return 1
	caught=$(awk '/^SigCgt:/ { print $2 }' "/proc/$CAPTURE_PID/status")
	((0x${caught: -4} & 0x4000))
}

@test "errors of a capture to standard output are on standard error, in JSON too" {
	flooded refuse
	run -1 --separate-stderr "$SMCRCTL" -j capture -w -
	[ -z "$output" ]
	[ "$(grep '^{' <<<"$stderr" | jq -r .error.code)" = busy ]
	flooded flood
	DEVICE=/dev/full begins_capture --data -w -
	until_true 20 has_ended "$CAPTURE_PID"
	ends_with 1
	grep -q "^smcrctl: standard output: No space" "$BATS_TEST_TMPDIR/err"
}
