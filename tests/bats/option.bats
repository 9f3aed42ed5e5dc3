#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# The SMC-R TCP option on the wire (RFC 7609 3.5.1.1): which sockets send it, and what programs and
# the daemon learn. On each host option_holder stands in for the daemon; programs are plain TCP programs.

load proves
load net
load handshakes

@test "claimed client, claimed server: SYN and SYN-ACK carry the option, the ACK does not" {
	capture_start b eth0 wire tcp port 7001
	serve 7001 claim
	meet 7001 claim
	both 'ok yes'
	tell client 'send hello'
	tell server receive 'ok hello'
	tell server 'send world'
	tell client receive 'ok world'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	carry wire syn
	carry wire synack
	[ -z "$(capture_fields wire 'tcp.flags.syn == 0 && tcp.option_kind == 254' frame.number)" ]
	proves TCPO-1 TCPO-2 TCPO-3 TCPO-4
}

@test "claimed client, unclaimed server: no option on the SYN-ACK" {
	capture_start b eth0 wire tcp port 7002
	serve 7002
	meet 7002 claim
	tell client negotiated 'ok no'
	tell server negotiated 'ok unknown'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	carry wire syn
	[ -z "$(capture_fields wire 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
	proves TCPO-6
}

@test "unclaimed client, claimed server: no option anywhere" {
	capture_start b eth0 wire tcp port 7003
	serve 7003 claim
	meet 7003
	tell client negotiated 'ok unknown'
	tell server negotiated 'ok no'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	bare wire syn
	bare wire synack
	proves TCPO-3 TCPO-6
}

@test "unclaimed on both sides: no option anywhere" {
	capture_start b eth0 wire tcp port 7004
	serve 7004
	meet 7004
	both 'ok unknown'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	bare wire syn
	bare wire synack
}

@test "repeated SYNs carry the option" {
	capture_start a eth0 wire tcp port 7005
	on b nft -f - <<-'END'
		table ip filter { chain in {
			type filter hook input priority 0; tcp dport 7005 drop; }; }
	END
	serve 7005 claim
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7005'
	until_true 10 at_least 2 wire syn
	on b nft delete table ip filter
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok yes'
	capture_stop wire
	carry wire syn
	proves TCPO-2
}

@test "repeated SYN-ACKs carry the option" {
	capture_start b eth0 wire tcp port 7006
	hold_synacks
	serve 7006 claim
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7006'
	until_true 10 at_least 3 wire synack
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok yes'
	capture_stop wire
	carry wire synack
	proves TCPO-2 TCPO-3
}

@test "a middlebox that strips the option from the SYN: plain TCP on both sides" {
	capture_start b eth0 wire tcp port 7007
	on a nft -f - <<-'END'
		table ip filter { chain out {
			type filter hook output priority 0; tcp dport 7007 reset tcp option 254; }; }
	END
	serve 7007 claim
	meet 7007 claim
	both 'ok no'
	tell client 'send hello'
	tell server receive 'ok hello'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	bare wire syn
	bare wire synack
	proves TCPO-7
}

@test "kind 254 with another ExID or another length is not the option; the right one behind it is" {
	serve 7008 claim
	capture_start b eth0 wire tcp port 7008
	raw_syn 40001 fe06e2d4c3d8
	raw_syn 40002 fe08e2d4c3d90000
	raw_syn 40003 fe04e2d4
	raw_syn 40004 fd06e2d4c3d9
	raw_syn 40005 fe06e2d4c3d80101fe06e2d4c3d9
	until_true 5 at_least 5 wire synack
	capture_stop wire
	[ "$(capture_fields wire "tcp.flags.ack == 1 && tcp.options contains fe:06:e2:d4:c3:d9" \
		tcp.dstport | sort -u)" = 40005 ]
	proves TCPO-7
}

# raw_syn SOURCE_PORT OPTIONS [KEY]: send a SYN to the server's port 7008 with these options.
raw_syn() {
	on a python3 "$BATS_TEST_DIRNAME/raw_syn.py" 10.77.0.1 "$1" 10.77.0.2 7008 "${@:2}"
}

@test "SYN cookies: the server does not answer the option" {
	on b sysctl -qw net.ipv4.tcp_syncookies=2
	capture_start b eth0 wire tcp port 7009
	serve 7009 claim
	meet 7009 claim
	both 'ok no'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	carry wire syn
	[ -z "$(capture_fields wire 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
	proves TCPO-6
}

@test "TCP Fast Open: neither the cookie request nor the SYN with data carries the option" {
	on b sysctl -qw net.ipv4.tcp_fastopen=3
	capture_start b eth0 wire tcp port 7010
	tell server 'socket tcp'
	tell server claim
	tell server 'bind 10.77.0.2 7010'
	tell server fastopen-listen
	tell server listen
	for data in first second; do
		tell client 'socket tcp'
		tell client claim
		tell client "fastopen-connect 10.77.0.2 7010 $data"
		tell server accept
		tell server receive "ok $data"
		both 'ok no'
		part
	done
	until_true 5 at_least 2 wire synack
	capture_stop wire
	bare wire syn
	# The second SYN carried data.
	[ "$(capture_fields wire 'tcp.flags.syn == 1 && tcp.len > 0' frame.number | wc -l)" = 1 ]
	proves TCPO-8
}

@test "segments are signed with MD5: neither side sends the option, because RDMA would not be signed" {
	# The kernel may lack this option.
	tell client 'socket tcp'
	tell client 'sign 10.77.0.2 secret' || skip
	tell client close
	capture_start b eth0 wire tcp port 7008
	tell server 'socket tcp'
	tell server claim
	tell server 'bind 10.77.0.2 7008'
	tell server 'sign 10.77.0.1 secret'
	tell server listen
	tell client 'socket tcp'
	tell client claim
	tell client 'sign 10.77.0.2 secret'
	tell client 'connect 10.77.0.2 7008'
	tell server accept
	both 'ok no'
	tell client 'send hello'
	tell server receive 'ok hello'
	until_true 5 at_least 1 wire synack
	bare wire syn
	# A peer that offers SMC-R all the same gets no such answer.
	raw_syn 40001 fe06e2d4c3d9 secret
	until_true 5 at_least 2 wire synack
	capture_stop wire
	carry_some=$(capture_fields wire 'tcp.flags.syn == 1 && tcp.option_kind == 254' tcp.srcport)
	[ "$(sort -u <<<"$carry_some")" = 40001 ]
}

@test "an MPTCP socket cannot be claimed and carries no option" {
	tell client 'socket mptcp'
	tell client claim EOPNOTSUPP
	serve 7011 claim
	capture_start b eth0 wire tcp port 7011
	tell client 'connect 10.77.0.2 7011'
	tell server accept
	tell server negotiated 'ok no'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	bare wire syn
	proves TCPO-8
}

@test "a claim before connect() tells what the socket is, and leaves a listener alone" {
	for kind in mptcp 'mptcp 6' udp 'udp 6' unix; do
		tell client "socket $kind"
		tell client claim-to-connect EOPNOTSUPP
		tell client close
	done
	serve 7026
	tell server claim-to-connect EISCONN
	for family in '' 6; do
		tell client "socket tcp $family"
		tell client claim-to-connect
		tell client close
	done
	tell client 'socket tcp'
	tell client claim-to-connect
	tell client 'connect 10.77.0.2 7026'
	tell client claim-to-connect EISCONN
	tell server accept
	# nobody has claimed the listener
	tell server negotiated 'ok unknown'
	tell client negotiated 'ok no'
	part
	tell server claim
	tell client 'socket tcp'
	tell client claim-to-connect
	tell client 'connect 10.77.0.2 7026'
	tell server accept
	both 'ok yes'
}

@test "a claim before connect() holds for one connect(): the next one without a claim sends no option" {
	serve 7027 claim
	tell client 'socket tcp'
	tell client claim-to-connect
	tell client 'connect 10.77.0.2 7028' ECONNREFUSED
	capture_start b eth0 wire tcp port 7027
	tell client 'connect 10.77.0.2 7027'
	tell server accept
	tell server negotiated 'ok no'
	tell client negotiated 'ok unknown'
	# the connection before was answered
	tell client disconnect
	tell server parent
	tell client claim-to-connect
	tell client 'connect 10.77.0.2 7027'
	tell server accept
	both 'ok yes'
	tell client disconnect
	tell server parent
	tell client 'connect 10.77.0.2 7027'
	tell server accept
	tell server negotiated 'ok no'
	tell client negotiated 'ok unknown'
	until_true 5 at_least 3 wire syn
	capture_stop wire
	[ "$(options wire syn | grep -c "$OPTION")" = 1 ]
}

# counter_start HOST: count how often the kernel calls BPF programs for sockets of this host.
counter_start() {
	talk_start counter "$1" "$HOSTS_BUILD/tests/tools/callback_count"
	[ "$(talk_hear counter)" = ready ]
}

# callbacks: how often that was so far.
callbacks() {
	talk_send counter count
	talk_hear counter
}

# quiet_stream: packets of the connection of client and server call no BPF program at that host.
quiet_stream() {
	local before i
	before=$(callbacks)
	for i in 1 2 3 4 5 6 7 8; do
		tell client 'send hello'
		tell server receive 'ok hello'
	done
	[ "$(callbacks)" = "$before" ]
}

@test "packets of a connection call no BPF program, also after a connect() that failed" {
	counter_start a
	serve 7036
	for claim in claim claim-to-connect; do
		for before in nothing failed unclaimed; do
			for again in 'claim 0' claim-to-connect; do
				tell client 'socket tcp'
				if [ "$before" != nothing ]; then
					tell client "$claim"
					tell client 'connect 10.77.0.2 7037' ECONNREFUSED
					[ "$before" = failed ] || tell client 'claim 0'
				fi
				tell client "$again"
				tell client 'connect 10.77.0.2 7036'
				tell server accept
				quiet_stream
				part
			done
		done
	done
	[ "$(callbacks)" -gt 0 ]
}

# quiet_child: packets of a connection that the listener accepts call no BPF program.
quiet_child() {
	meet 7038
	quiet_stream
	part
}

@test "packets of an accepted connection call no BPF program, whatever became of the listener's claim" {
	counter_start b
	serve 7038 claim
	quiet_child
	[ "$(callbacks)" -gt 0 ]
	tell server 'claim 0'
	quiet_child
	tell server claim
	quiet_child
	tell server bar
	quiet_child
	tell server 'claim 0' # while it is barred
	quiet_child
	tell server 'bar 0'
	quiet_child
	tell server claim
	tell server bar
	tell server 'bar 0'
	quiet_child
	tell server close
}

@test "a claim for connect() does not hold for listen(), nor a listener's claim for connect()" {
	tell server 'socket tcp'
	tell server claim-to-connect
	tell server 'bind 10.77.0.2 7029'
	tell server listen
	meet 7029 claim
	tell server negotiated 'ok unknown'
	tell client negotiated 'ok no'
	part
	tell server claim
	meet 7029 claim
	both 'ok yes'
	part
	# The listener becomes a client, first without a claim for that.
	tell client 'socket tcp'
	tell client claim
	tell client 'bind 10.77.0.1 7030'
	tell client listen
	tell server disconnect
	tell server 'connect 10.77.0.1 7030'
	tell client accept
	tell client negotiated 'ok no'
	tell server negotiated 'ok unknown'
	tell server disconnect
	tell client parent
	tell server claim-to-connect
	tell server 'connect 10.77.0.1 7030'
	tell client accept
	both 'ok yes'
}

@test "a skipped peer: no option sent or answered until the time is over or it is taken back" {
	serve 7012 claim
	capture_start b eth0 wire tcp port 7012
	tell daemon_a 'skip 10.77.0.2 600 UDP 4791 is dropped on the way'
	tell daemon_a skipped '1 [10.77.0.2,0 600 UDP 4791 is dropped on the way]'
	meet 7012 claim
	both 'ok no'
	until_true 5 at_least 1 wire syn
	capture_stop wire
	bare wire syn
	part

	tell daemon_a 'unskip 10.77.0.2'
	tell daemon_a 'unskip 10.77.0.2' failed
	meet 7012 claim
	both 'ok yes'
	part

	tell daemon_b 'skip 10.77.0.1 600 it does not answer'
	meet 7012 claim
	both 'ok no'
	part

	tell daemon_b 'unskip 10.77.0.1'
	tell daemon_b 'skip 10.77.0.1 1 it does not answer'
	until_true 5 negotiates 7012
	tell daemon_b skipped 0
}

@test "a skipped port of a peer: connections to that port only, and none that come from it" {
	serve 7022 claim
	tell daemon_a 'skip 10.77.0.2,7022 600 no CLC message came'
	tell daemon_a skipped '1 [10.77.0.2,7022 600 no CLC message came]'
	meet 7022 claim
	both 'ok no'
	part
	tell daemon_a 'unskip 10.77.0.2' failed
	tell server close
	serve 7023 claim
	meet 7023 claim
	both 'ok yes'
	part
	tell server close
	# b is the client now, from the same port
	tell client 'socket tcp'
	tell client claim
	tell client 'bind 10.77.0.1 7024'
	tell client listen
	tell server 'socket tcp'
	tell server claim
	tell server 'bind 10.77.0.2 7022'
	tell server 'connect 10.77.0.1 7024'
	tell client accept
	both 'ok yes'
	tell client parent
	tell client close
	tell server close
	tell daemon_a 'unskip 10.77.0.2,7022'
	serve 7025 claim
	meet 7025 claim
	both 'ok yes'
}

# negotiates PORT: does a new connection get SMC-R?
negotiates() {
	local result=1
	meet "$1" claim
	if tell client negotiated 'ok yes' 2>/dev/null; then result=0; fi
	part
	return $result
}

@test "local policy: excluded prefixes on either side, and a daemon that holds the option back" {
	serve 7013 claim
	meet 7013 claim
	both 'ok yes'
	part
	for prefix in 10.77.0.2/32 10.77.0.0/24 0.0.0.0/0; do
		tell daemon_a "exclude $prefix"
		meet 7013 claim
		both 'ok no'
		part
		tell daemon_a "include $prefix"
	done
	tell daemon_a 'include 10.77.0.0/24' failed
	tell daemon_a 'exclude 10.77.0.0/33' failed
	tell daemon_b 'exclude 10.77.0.2/32'
	meet 7013 claim
	both 'ok no'
	part
	tell daemon_b 'include 10.77.0.2/32'
	tell daemon_b 'hold 0x03030000'
	meet 7013 claim
	both 'ok no'
	part
	tell daemon_b 'hold 0'
	meet 7013 claim
	both 'ok yes'
	proves TCPO-8
}

@test "a namespace without a daemon: claims fail, other namespaces' daemons leave it alone" {
	talk_start stranger sw "$HOSTS_BUILD/tests/programs/tcp_claim"
	tell stranger 'socket tcp'
	tell stranger claim ENOPROTOOPT
	talk_send stranger negotiated
	[ "$(talk_hear stranger)" != 'ok unknown' ]
	# Other socket options pass unchanged, also when they are larger than BPF programs can see.
	tell stranger 'setsockopt 1 8 4'
	tell stranger 'getsockopt 1 8 4' 'ok 4'
	tell stranger 'setsockopt 1 8 16384'
	tell stranger 'getsockopt 1 8 16384' 'ok 4'
	tell client 'socket tcp'
	tell client 'setsockopt 1 8 16384'
	tell client 'getsockopt 1 8 16384' 'ok 4'
}

@test "the death of the daemon removes its programs, and only its own" {
	serve 7014 claim
	meet 7014 claim
	both 'ok yes'
	part
	talk_kill daemon_a KILL
	tell client 'socket tcp'
	tell client claim ENOPROTOOPT
	capture_start b eth0 wire tcp port 7014
	tell client 'connect 10.77.0.2 7014'
	tell server accept
	tell server negotiated 'ok no'
	until_true 5 at_least 1 wire syn
	capture_stop wire
	bare wire syn
	part
	holder_start a
	meet 7014 claim
	both 'ok yes'
}

# A claim that cannot be taken back any more must not send the option. So when the daemon dies, the BPF program for
# setsockopt must be detached last. The test notices that by the program for getsockopt, which is detached together
# with the one that sends the option.
@test "the death of the daemon ends the taking back of claims last" {
	tell client 'socket tcp'
	for _ in {1..10}; do
		talk_send client negotiated-as-claims-end
		talk_kill daemon_a KILL
		[ "$(talk_hear client)" = EOPNOTSUPP ]
		holder_start a
	done
}

# second: another daemon starts on host a, and is refused
second() {
	run on a "$HOSTS_BUILD/tests/tools/option_holder"
	[[ "$status" = 1 && "$output" == *"another smcrd serves this network namespace" ]]
}

@test "a second daemon in a namespace takes its programs back, and the first one's stay" {
	capture_start b eth0 wire tcp port 7015
	serve 7015 claim
	meet 7015 claim
	both 'ok yes'
	second
	both 'ok yes'
	part
	meet 7015 claim
	both 'ok yes'
	until_true 5 at_least 2 wire syn
	capture_stop wire
	carry wire syn
	carry wire synack
}

@test "a listener older than the daemon is plain TCP until it is claimed again" {
	serve 7016 claim
	meet 7016 claim
	both 'ok yes'
	part
	talk_kill daemon_b KILL
	holder_start b
	capture_start b eth0 wire tcp port 7016
	meet 7016 claim
	tell client negotiated 'ok no'
	tell server negotiated 'ok unknown'
	until_true 5 at_least 1 wire synack
	capture_stop wire
	[ -z "$(capture_fields wire 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
	part
	# The server claims its listener during a handshake that was answered without the option: that is too late.
	hold_synacks
	capture_start b eth0 late tcp port 7016
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7016'
	until_true 10 at_least 1 late synack
	tell server claim
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok no'
	capture_stop late
	part
	meet 7016 claim
	both 'ok yes'
}

@test "a listener claimed while a handshake runs that nobody saw answered: unknown, and no option later" {
	serve 7024 claim
	for repeat in no yes; do
		talk_kill daemon_b KILL
		on b nft -f - <<-'END'
			table ip filter { chain in { type filter hook input priority 0;
				tcp dport 7024 tcp flags & (syn | ack) == ack drop; }; }
		END
		capture_start b eth0 "wire_$repeat" tcp port 7024
		tell client 'socket tcp'
		tell client claim
		tell client 'connect 10.77.0.2 7024'
		tell client negotiated 'ok no'
		holder_start b
		tell server claim
		[ $repeat = no ] || until_true 10 at_least 2 wire_yes synack
		on b nft delete table ip filter
		tell client 'send hello'
		tell server accept
		tell server negotiated 'ok unknown'
		tell server receive 'ok hello'
		capture_stop "wire_$repeat"
		[ -z "$(capture_fields "wire_$repeat" 'tcp.flags.ack == 1 && tcp.option_kind == 254' frame.number)" ]
		part
	done
	meet 7024 claim
	both 'ok yes'
}

@test "a promise that is repeated before the listener is claimed with the next daemon: unknown, not plain TCP" {
	serve 7025 claim
	for claims in 'claim' 'claim,claim 0'; do
		on b nft -f - <<-'END'
			table ip filter { chain in { type filter hook input priority 0;
				tcp dport 7025 tcp flags & (syn | ack) == ack drop; }; }
		END
		tell client 'socket tcp'
		tell client claim
		tell client 'connect 10.77.0.2 7025'
		tell client negotiated 'ok yes'
		talk_kill daemon_b KILL
		holder_start b
		capture_start b eth0 "wire_${#claims}" tcp port 7025
		until_true 20 at_least 1 "wire_${#claims}" synack
		capture_stop "wire_${#claims}"
		while read -rd, claim; do
			tell server "$claim"
		done <<<"$claims,"
		on b nft delete table ip filter
		tell server accept # the next SYN-ACK has the client repeat its ACK
		tell server negotiated 'ok unknown'
		part
		tell server claim
	done
	meet 7025 claim
	both 'ok yes'
}

@test "a listener that was never claimed may be, since kernel 6.12; before, it stays plain TCP" {
	local answer='ok no'
	if [ "$(printf '%s\n' 6.12 "$(uname -r)" | sort -V | head -1)" = 6.12 ]; then answer='ok yes'; fi
	serve 7020
	meet 7020 claim
	tell server negotiated 'ok unknown'
	part
	tell server claim
	meet 7020 claim
	both "$answer"
}

@test "a listener whose claim is taken back is plain TCP; what it has promised before holds" {
	serve 7021 claim
	hold_synacks
	capture_start b eth0 wire tcp port 7021
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7021'
	until_true 10 at_least 1 wire synack
	capture_stop wire
	tell server 'claim 0'
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok yes'
	part
	meet 7021 claim
	tell client negotiated 'ok no'
	tell server negotiated 'ok unclaimed'
	part
	tell server claim
	meet 7021 claim
	both 'ok yes'
}

@test "a barred listener is plain TCP and cannot be claimed until that is over" {
	tell server 'socket tcp'
	tell server bar EINVAL
	serve 7022 claim
	hold_synacks
	capture_start b eth0 wire tcp port 7022
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7022'
	until_true 10 at_least 1 wire synack
	capture_stop wire
	tell server bar
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok yes' # promised before the listener was barred
	tell server bar EISCONN
	part
	tell server bar EALREADY
	tell server claim EPERM
	tell server listen
	tell server 'claim 0'
	meet 7022 claim
	both 'ok no'
	part
	# While the listener was barred its claim was taken back.
	tell server 'bar 0'
	meet 7022 claim
	tell server negotiated 'ok unclaimed'
	part
	tell server claim
	tell server bar
	tell server 'bar 0'
	meet 7022 claim
	both 'ok yes'
	part
	# Of two listeners at an address one is barred; the other is not.
	tell server bar
	talk_start other b "$HOSTS_BUILD/tests/programs/tcp_claim"
	tell other 'socket tcp'
	tell other claim
	tell other 'bind 0.0.0.0 7023'
	tell other listen
	serve 7024 claim
	tell server bar
	meet 7024 claim
	both 'ok no'
	tell client close
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7023'
	tell other accept
	tell other negotiated 'ok yes'
	tell client negotiated 'ok yes'
}

# share NAME ADDR [claim]: the program listens at port 7041, where others do too.
share() {
	tell "$1" 'socket tcp'
	tell "$1" share-port
	[ -z "${3:-}" ] || tell "$1" claim
	tell "$1" "bind $2 7041"
	tell "$1" listen
}

# other_serves: a claimed client connects to the other listener and agrees on SMC-R.
other_serves() {
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7041'
	tell other accept
	tell other negotiated 'ok yes'
	tell client negotiated 'ok yes'
	tell client close
	tell other parent
}

@test "a barred listener answers nothing for another one at its port that is claimed" {
	talk_start other b "$HOSTS_BUILD/tests/programs/tcp_claim"
	share other 0.0.0.0 claim
	other_serves
	# The kernel prefers a listener at the address itself.
	share server 10.77.0.2 claim
	tell server bar
	meet 7041 claim
	both 'ok no'
	tell server reason 'ok a000022'
	part
	tell server 'bar 0'
	meet 7041 claim
	both 'ok yes'
	part
	tell server bar
	tell server 'claim 0'
	meet 7041 claim
	both 'ok no'
	part
	tell server 'bar 0'
	tell server claim
	tell server bar
	tell server close
	other_serves
	# The same address, where the kernel chooses.
	share server 0.0.0.0 claim
	tell server bar
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7041'
	tell client negotiated 'ok no'
	tell client close
	tell server close
	tell other close
	# Barred again with the next daemon, as its programs do.
	share server 10.77.0.2 claim
	tell server bar
	talk_kill daemon_b KILL
	holder_start b
	tell server bar
	share other 0.0.0.0 claim
	meet 7041 claim
	both 'ok no'
	part
	tell server close
	other_serves
}

# answers_nothing: a claimed client's handshake with the server at port 7041 ends without SMC-R.
answers_nothing() {
	meet 7041 claim
	tell client negotiated 'ok no'
	tell server negotiated "ok $1"
	part
}

@test "a listener without its claim answers nothing for another one at its port that is claimed" {
	talk_start other b "$HOSTS_BUILD/tests/programs/tcp_claim"
	share other 0.0.0.0 claim
	share server 10.77.0.2 claim
	tell server 'claim 0'
	answers_nothing unclaimed
	tell server claim
	meet 7041 claim
	both 'ok yes'
	part
	tell server 'claim 0'
	answers_nothing unclaimed
	# It listens again, and is claimed again.
	tell server shutdown
	tell server listen
	answers_nothing unknown
	tell server shutdown
	tell server claim
	tell server listen
	meet 7041 claim
	both 'ok yes'
	part
	tell server 'claim 0'
	tell server close
	other_serves
}

@test "a barred listener that listens again answers nothing for another one at its port" {
	talk_start other b "$HOSTS_BUILD/tests/programs/tcp_claim"
	share other 0.0.0.0 claim
	share server 10.77.0.2 claim
	tell server bar
	tell server shutdown
	other_serves
	tell server listen
	answers_nothing no
	tell server 'bar 0'
	meet 7041 claim
	both 'ok yes'
	part
	tell server bar
	tell server shutdown
	tell server close
	other_serves
}

@test "one claimed socket in several roles: refused, connected, disconnected, listening" {
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7017' ECONNREFUSED
	tell client negotiated 'ok unknown'
	serve 7017 claim
	tell client 'connect 10.77.0.2 7017'
	tell server accept
	both 'ok yes'
	tell client claim EISCONN
	tell client 'claim 0' EISCONN
	tell server parent
	tell client disconnect
	tell client 'bind 10.77.0.1 7018'
	tell client listen
	tell server close
	tell server 'socket tcp'
	tell server claim
	tell server 'connect 10.77.0.1 7018'
	tell client accept
	both 'ok yes'
	tell client parent
	tell server close
	# The socket does not listen any more, and its claim is taken back.
	tell client disconnect
	tell client 'claim 0'
	tell client listen
	tell server 'socket tcp'
	tell server claim
	tell server 'connect 10.77.0.1 7018'
	tell client accept
	tell client negotiated 'ok unknown'
	tell server negotiated 'ok no'
}

@test "a listener on every address, and on IPv6 for both families" {
	ip -n "$HOSTS_ID-a" addr add fd77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd77::2/64 dev eth0 nodad
	tell server 'socket tcp'
	tell server claim
	tell server 'bind 0.0.0.0 7019'
	tell server listen
	meet 7019 claim
	both 'ok yes'
	part
	tell server close
	tell server 'socket tcp 6'
	tell server claim
	tell server 'bind :: 7019'
	tell server listen
	meet 7019 claim
	both 'ok yes'
	part
	tell client 'socket tcp 6'
	tell client claim
	tell client 'connect fd77::2 7019'
	tell server accept
	both 'ok yes'
	part
	tell client 'socket tcp 6'
	tell client claim
	tell client 'connect ::ffff:10.77.0.2 7019'
	tell server accept
	both 'ok yes'
	part
	tell daemon_a 'skip fd77::2 600 no path'
	tell client 'socket tcp 6'
	tell client claim
	tell client 'connect fd77::2 7019'
	tell server accept
	both 'ok no'
}

# standing HOST: stop the holder, and wait until the BPF programs know that it stands still.
standing() {
	kill -STOP "${TALK_PID[daemon_$1]}"
	talk_start asker "$1" "$HOSTS_BUILD/tests/programs/tcp_claim"
	tell asker 'socket unix'
	until_true 10 tell asker stands-still 'ok 1' 2>/dev/null
	talk_kill asker
}

# moving HOST: let the holder go on.
moving() {
	kill -CONT "${TALK_PID[daemon_$1]}"
	tell "daemon_$1" skipped 0
}

@test "a daemon that stands still sends no option, until it goes on" {
	serve 7027 claim
	tell client 'socket udp'
	tell client stands-still 'ok 0'
	standing a
	capture_start b eth0 wire tcp port 7027
	meet 7027 claim
	both 'ok no'
	tell client reason 'ok a000012' # no-daemon
	until_true 5 at_least 1 wire synack
	capture_stop wire
	bare wire syn
	part
	# sockets can still be claimed, and claims taken back
	tell client 'socket tcp'
	tell client claim
	tell client 'claim 0'
	tell client 'connect 10.77.0.2 7027'
	tell server accept
	tell client negotiated 'ok unknown'
	part
	moving a
	meet 7027 claim
	both 'ok yes'
}

@test "a daemon that stands still answers no option, until it goes on" {
	serve 7028 claim
	standing b
	for claimed in before meanwhile; do
		capture_start b eth0 "wire_$claimed" tcp port 7028
		meet 7028 claim
		both 'ok no'
		tell server reason 'ok a000012'
		until_true 5 at_least 1 "wire_$claimed" synack
		capture_stop "wire_$claimed"
		carry "wire_$claimed" syn
		bare_answer "wire_$claimed"
		part
		[ $claimed = meanwhile ] || {
			tell server close
			serve 7028 claim
		}
	done
	moving b
	meet 7028 claim
	both 'ok yes'
}

@test "what a daemon has promised before it stands still holds; what it has only offered does not" {
	serve 7029 claim
	hold_synacks
	capture_start b eth0 wire tcp port 7029
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7029'
	until_true 10 at_least 1 wire synack
	standing b
	release_synacks
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok yes'
	capture_stop wire
	carry wire synack
	part
	moving b

	on b nft -f - <<-'END'
		table ip filter { chain in {
			type filter hook input priority 0; tcp dport 7029 drop; }; }
	END
	capture_start b eth0 late tcp port 7029
	tell client 'socket tcp'
	tell client claim
	talk_send client 'connect 10.77.0.2 7029'
	until_true 10 at_least 1 late syn
	standing a
	until_true 10 repeated_bare
	on b nft delete table ip filter
	[ "$(talk_hear client)" = ok ]
	tell server accept
	both 'ok no'
	capture_stop late
}

# repeated_bare: does the first SYN have the option, and the last one not?
repeated_bare() {
	options late syn | head -1 | grep -q "$OPTION" && ! options late syn | tail -1 | grep -q "$OPTION"
}

@test "a second daemon in a namespace is refused also while the first one stands still" {
	tell client 'socket unix'
	standing a
	second
	tell client stands-still 'ok 1'
	moving a
	tell client stands-still 'ok 0'
	second
	talk_kill daemon_a KILL
	holder_start a
}

@test "a daemon in a time namespace of its own, whose clock is behind, does not stand still" {
	[ -e /proc/self/timens_offsets ] || skip "the kernel has no time namespaces"
	talk_kill daemon_a KILL
	talk_start daemon_a a unshare --time --monotonic -10 --fork --kill-child \
		"$HOSTS_BUILD/tests/tools/option_holder"
	[ "$(talk_hear daemon_a)" = ready ]
	tell client 'socket udp'
	tell client stands-still 'ok 0'
	serve 7031 claim
	meet 7031 claim
	both 'ok yes'
}

# told HOST LINE: is this what the holder of the host has learnt about plain connections since the last time?
told() {
	local line
	talk_send "daemon_$1" plain
	line=$(talk_hear "daemon_$1")
	[ "$line" = "${2:+$2 }ok" ] || {
		echo "host $1 was told '$line', not '${2:-nothing}'" >&2
		return 1
	}
}

@test "plain connections of claimed sockets are told, with reason and program; others are not" {
	local uid
	uid=$(id -u)
	serve 7032
	meet 7032 claim
	told a "[client 10.77.0.2,7032 03010000 tcp_claim uid $uid]"
	told b
	part
	meet 7032 # neither side claims its socket
	told a
	told b
	part
	tell server close

	serve 7033 claim
	meet 7033
	told a
	told b "[server 10.77.0.1,7033 03010000 tcp_claim uid $uid]"
	part
	meet 7033 claim
	both 'ok yes'
	told a
	told b
	part
	tell daemon_a 'skip 10.77.0.2 600 no path'
	tell daemon_b 'exclude 10.77.0.2/32'
	meet 7033 claim
	told a "[client 10.77.0.2,7033 0a000003 tcp_claim uid $uid]"
	told b "[server 10.77.0.1,7033 03010000 tcp_claim uid $uid]"
	part
	tell daemon_a 'unskip 10.77.0.2'
	meet 7033 claim
	told a "[client 10.77.0.2,7033 03010000 tcp_claim uid $uid]"
	told b "[server 10.77.0.1,7033 03010001 tcp_claim uid $uid]"
	part
	tell server bar
	meet 7033 claim
	told b "[server 10.77.0.1,7033 0a000022 tcp_claim uid $uid]"
	talk_send daemon_b plain-counts
	counts=$(talk_hear daemon_b)
	[[ $counts == *"[03010000 2]"* && $counts == *"[03010001 1]"* && $counts == *"[0a000022 1]"* ]]
}

@test "a connection that never comes to be is not told as plain" {
	tell daemon_a 'hold 0x03030000'
	tell client 'socket tcp'
	tell client claim
	tell client 'connect 10.77.0.2 7034' ECONNREFUSED
	told a
	tell daemon_a plain-counts ok
}

@test "the library can report a connection that it leaves on TCP once, and only in valid forms" {
	local uid
	uid=$(id -u)
	serve 7035
	tell client 'socket tcp'
	tell client 'plain 3060000' EINVAL # not connected
	tell client 'connect 10.77.0.2 7035'
	tell client 'plain 3060001' EINVAL # no such reason
	tell client 'plain 3060000'
	tell client 'plain 3060000' EALREADY
	told a "[client 10.77.0.2,7035 03060000 tcp_claim uid $uid]"
	tell daemon_a plain-counts '[03060000 1] ok'
	tell server accept
	part
	for kind in mptcp udp unix; do
		tell client "socket $kind"
		tell client 'plain 3060000' EOPNOTSUPP
		tell client close
	done
	# a connection that was counted already
	meet 7035 claim
	tell client 'plain a000012' EALREADY
	told a "[client 10.77.0.2,7035 03010000 tcp_claim uid $uid]"
}
