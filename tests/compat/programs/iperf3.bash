# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="iperf3: several streams, reverse and both ways, sendfile (-Z) and files, block sizes, buffer sizes, segment size, congestion control, pacing, bound ports, IPv6, UDP; passwords, a busy server, time limits, an end that is stopped or killed"
PACKAGES=(iperf3 jq openssl)
LIMIT=120

# What does not depend on speed. The receiver stops reading when it is told of the end, over TCP too: it may have less
# than was sent, but it has most of it. After an omitted second it may have more, as far as that was buffered. "settings" are what iperf3 has read back from its sockets.
FACTS='def whether(f): if f then "yes" else "no" end;
	{ error: (.error // "none"), streams: (.start.connected // [] | length),
	  settings: (.start | [.tcp_mss_default // .tcp_mss, .sock_bufsize, .sndbuf_actual, .rcvbuf_actual] | map(. // "-")),
	  test: (.start.test_start // {} | [.protocol, .num_streams, .blksize, .omit, .bytes, .blocks, .reverse, .tos]),
	  congestion: [.end.sender_tcp_congestion, .end.receiver_tcp_congestion],
	  directions: (.end.streams // [] | map(.sender.sender | whether(.)) | join(" ")),
	  most: (.end | [[.sum_sent, .sum_received], [.sum_sent_bidir_reverse, .sum_received_bidir_reverse]] |
	    map(select(.[0] and .[1]) | (.[1].bytes < .[0].bytes + 20000000 and .[1].bytes > .[0].bytes / 4) | whether(.))),
	  info: (.intervals // [] | length > 0 and all(.streams | all((has("snd_cwnd") | not) or (.snd_cwnd > 0 and .rtt > 0))) | whether(.)) }
	| to_entries | map("\(.key) \(.value | if type == "array" then map(tostring) | join(",") else . end)") | join("; ")'

# measure NAME OPTIONS..: run a test, with the server that is there; its exit status and FACTS are the result.
measure() {
	local name=$1 rc=0
	shift
	under b timeout 60 iperf3 -c "$to" -J "$@" >"$name.log" 2>"$name.errors" || rc=$?
	result "$name" "$rc $(jq -r "$FACTS" "$name.log")"
	[ ! -s "$name.errors" ] || result "$name.errors" "$(cat "$name.errors")"
}

# amount NAME MIB OPTIONS..: a test that sends so much, which is more than smcrd and its pair ends buffer. iperf3 looks after every ten blocks of each stream whether it is
# enough.
amount() {
	local name=$1 mib=$2
	shift 2
	measure "$name" -n "${mib}M" "$@"
	right "$name.sent" jq -e --argjson least "$((mib << 20))" '.start.test_start as $t | .end.sum_sent.bytes |
		. >= $least and . < $least + 10 * $t.blksize * $t.num_streams' "$name.log"
}

# serve HOST OPTIONS..: start a server
serve() {
	local host=$1
	shift
	start_under "$host" iperf3 -s --forceflush "$@" >server.log 2>&1
	PID=$!
	listening "$host" 5201
}

# serves_no_more NAME [SIGNAL]: end the server; its exit status and the errors that it wrote are the result.
serves_no_more() {
	stop "$PID" "${2:-TERM}"
	result "$1" "$STATUS $(grep -oE 'iperf3: .*' server.log | sort | uniq -c)"
	cat server.log >>"$1.log"
}

streams() {
	amount one 60
	amount four 60 -P 4
	amount reverse 60 -R
	amount reverse.four 60 -R -P 4
	amount sendfile 60 -Z
	amount sendfile.reverse 60 -Z -R -P 2
	amount small.blocks 20 -l 100
	amount no.delay 60 -N -l 1000
	amount large.blocks 60 -l 1M
	amount window 60 -w 128K
	amount window.small 60 -w 4K
	amount segment 60 -M 1000
	amount congestion 60 -C reno
	amount port 60 --cport 7777
	amount address 60 -B "$CLIENT"
	amount device 60 --bind-dev eth0
	amount tos 60 -S 0x20
	amount payload 60 --repeating-payload
	amount server.output 60 --get-server-output
	measure both --bidir -t 1
	measure both.four --bidir -P 4 -t 1
	measure both.sendfile --bidir -Z -t 1
	measure time -t 1 -i 0.5
	measure omit -t 1 -O 1
	measure blocks -k 200
	measure rate -t 1 -b 20M
	measure burst -t 1 -b 20M/10
	measure paced -t 1 --fq-rate 50M
	measure udp -u -t 1 -b 5M
	measure udp.reverse -u -t 1 -b 5M -R
}

# files: the client sends a file, the server writes one. They are not compared: iperf3 3.12 begins with a block again of
# which a full socket has taken a part.
files() {
	stop "$PID"
	serve a -F "$DIR/received"
	random_file sent 4000
	measure file -F sent -n 3000K
	right file.received [ -s received ]
	serves_no_more file.server
}

# other_ends: ends other than the end of a test
other_ends() {
	local client rc
	serve a
	start_under b timeout 60 iperf3 --forceflush -c "$SERVER" -t 30 >busy.log 2>&1
	client=$!
	until_true 20 grep -q sec busy.log || fault "the first of two clients does not begin"
	measure busy
	stop "$client" INT
	result interrupted "$STATUS $(grep -oE 'iperf3: .*' busy.log)"
	measure after.interrupt -n 60M
	start_under b iperf3 --forceflush -c "$SERVER" -t 30 >killed.log 2>&1
	client=$!
	until_true 20 grep -q sec killed.log || fault "the client to be killed does not begin"
	stop "$client" KILL
	measure after.kill -n 60M
	start_under b timeout 60 iperf3 --forceflush -c "$SERVER" -R -P 2 -t 30 >orphan.log 2>&1
	client=$!
	until_true 20 grep -q sec orphan.log || fault "the client to be left does not begin"
	serves_no_more server.killed KILL
	rc=0
	wait "$client" || rc=$?
	result orphan "$rc $(grep -oE 'iperf3: .*' orphan.log)"
	measure refused
	serve a
	start_under b timeout 60 iperf3 --forceflush -c "$SERVER" -t 30 >orphan2.log 2>&1
	client=$!
	until_true 20 grep -q sec orphan2.log || fault "the second client to be left does not begin"
	serves_no_more server.stopped
	rc=0
	wait "$client" || rc=$?
	# The client says which of its connections was at an end first.
	result told "$rc $(grep -oE 'iperf3: error' orphan2.log)"
}

limits() {
	serve a --server-bitrate-limit 10M/1
	measure limit.below -b 2M -t 1
	# The client says which of its connections was at an end first.
	under b timeout 60 iperf3 -c "$to" -J -t 10 >limit.above.log 2>&1
	result limit.above "$(jq -r '.error != null' limit.above.log)"
	serves_no_more limit.server
	serve a --one-off
	measure one.off -n 60M
	rc=0
	wait "$PID" || rc=$?
	result one.off.server "$rc"
	openssl genrsa -out key.pem 2048 2>/dev/null
	openssl rsa -in key.pem -pubout -out public.pem 2>/dev/null
	echo "user,$(printf '{user}secret' | sha256sum | cut -d' ' -f1)" >users
	serve a --rsa-private-key-path key.pem --authorized-users-path users
	IPERF3_PASSWORD=secret measure password --username user --rsa-public-key-path public.pem -n 60M
	IPERF3_PASSWORD=wrong measure password.wrong --username user --rsa-public-key-path public.pem -n 60M
	serves_no_more password.server
}

run() {
	local to=$SERVER PID rc
	serve a
	streams
	files
	other_ends
	limits
	ip -n "$HOSTS_ID-a" addr add fd77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd77::2/64 dev eth0 nodad
	serve a
	to=fd77::1
	amount six 60 -6
	amount six.label 60 -6 -L 77
	measure six.both --bidir -P 2 -t 1
	serves_no_more server
}
