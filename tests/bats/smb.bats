#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Samba over SMB Direct: smbd on one host and smbclient on another, which only know TCP, with a gateway on either side.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/smb.bash
. "$HOSTS_ROOT/scripts/smb.bash"

setup() {
	local why
	why=$(smb_can) || skip "$why"
}

# two_gateways [LINES..]: both hosts, smbd, and smcrd with these lines of configuration.
two_gateways() {
	hosts_up 1500
	smb_gateways "$@"
	smb_share
	smbd_start
	cd "$HOSTS_DIR" || return
}

sum_of() {
	sha256sum <"$1"
}

# same FILE..: have all of them the same contents?
same() {
	local file
	for file; do
		[ "$(sum_of "$file")" = "$(sum_of "$1")" ] || return
	done
}

# round_trip [OPTIONS..]: put a file, get it again, both with checksums. SIZE MiB.
round_trip() {
	random_file sent "$SIZE"
	smb "$@" 'put sent; get sent back'
	same sent share/sent back
}

# bytes HOST: SEND, READ and WRITE bytes of its last connection, in MiB.
bytes() {
	show "$1" smbdirect '.connections[0] | [.tx_bytes + .rx_bytes, .rdma_read_bytes, .rdma_write_bytes] | map(. / 1048576 | floor) |
		join(" ")'
}

all_ended() {
	shows "$1" smbdirect '.connections | all(.state == "ended")'
}

# descriptors HOST: how many smcrd has.
descriptors() {
	local name=SMCRD_PID_$1
	find "/proc/${!name}/fd" -mindepth 1 | wc -l
}

# nothing_left HOST DESCRIPTORS: no connection, no memory, and as many descriptors as before.
nothing_left() {
	until_true 20 all_ended "$1"
	[ "$(show "$1" stats '.smbdirect | "\(.connections_now) \(.memory_bytes)"')" = '0 0' ]
	[ "$(show "$1" info .cm.connections)" = 0 ]
	until_true 10 eval '[ "$(descriptors '"$1"')" = '"$2"' ]'
}

@test "64 MiB each way go by RDMA READ and WRITE, and smcrctl shows it" {
	two_gateways
	SIZE=64
	before_a=$(descriptors a) before_b=$(descriptors b)
	round_trip

	# the data went by RDMA, and nothing but heads by SEND
	until_true 10 all_ended a
	until_true 10 all_ended b
	[ "$(bytes a)" = '0 64 64' ]
	[ "$(bytes b)" = '0 64 64' ]
	[ "$(show a smbdirect '.connections[0] | "\(.side) \(.rnic) \(.tcp) \(.channels_refused)"')" = "server soft:eth0 127.0.0.1:$SMB_PORT 0" ]
	[ "$(show b smbdirect '.connections[0] | "\(.side) \(.peer | split(":")[0]) \(.tcp | split(":")[0]) \(.channels_refused)"')" = \
		"client $SERVER 127.0.0.1 0" ]
	[ "$(show a stats '.smbdirect | "\(.established) \(.ended) \(.refused) \(.rdma_read_rx_bytes) \(.rdma_write_tx_bytes)"')" = \
		'1 1 0 67108864 67108864' ]
	[ "$(show b stats '.smbdirect | "\(.rdma_read_tx_bytes) \(.rdma_write_rx_bytes)"')" = '67108864 67108864' ]
	smcrctl_on a metrics | grep -qx 'smcrd_smbdirect_bytes_total{operation="read",direction="received"} 67108864'
	[ "$(show a smbdirect '[.listeners[] | "\(.side) \(.listens) \(.leads_to) \(.error)"] | join(", ")')" = \
		"server 0.0.0.0:5445 127.0.0.1:$SMB_PORT null, server 0.0.0.0:445 127.0.0.1:$SMB_PORT null" ]
	[ "$(show b smbdirect '[.listeners[] | "\(.side) \(.listens) \(.leads_to) \(.taken)"] | join(", ")')" = \
		"client 127.0.0.1:$SMB_DOOR $SERVER 1" ]
	shows a event 'any(.event == "smbdirect-up" and .peer == "'"$CLIENT"'")'
	shows b event 'any(.event == "smbdirect-down" and .peer == "'"$SERVER"'")'
	nothing_left a "$before_a"
	nothing_left b "$before_b"
}

@test "signed and encrypted files pass whole, in messages longer than most peers take" {
	two_gateways
	SIZE=24
	for dialect in SMB3_11 SMB3_00; do
		round_trip --option='client signing=required' --option="client max protocol=$dialect"
		until_true 10 all_ended b
		[ "$(bytes b)" = '48 0 0' ]
		round_trip --client-protection=encrypt --option="client max protocol=$dialect"
		until_true 10 all_ended b
		[ "$(bytes b)" = '48 0 0' ]
	done
	[ "$(show b smbdirect '.connections[0].max_message_sent_bytes > 8388608')" = true ]
	[ "$(show a stats .smbdirect.established)" = 4 ]
}

@test "many small files go both ways; they are listed, renamed and deleted" {
	two_gateways
	mkdir many
	for n in {1..200}; do
		head -c $((n * 97)) /dev/urandom >"many/file$n"
	done
	smb 'prompt off; recurse on; mput many'
	diff -r many share/many
	mkdir back
	smb 'prompt off; recurse on; lcd back; mget many'
	diff -r many back/many
	[ "$(smb 'ls many\*' | grep -c '^  file')" = 200 ]
	smb 'rename many\file1 many\other; del many\file2; ls many\*' >list
	grep -q '^  other ' list
	[ "$(grep -cE '^  file(1|2) ' list)" = 0 ]
	[ -e share/many/other ] && [ ! -e share/many/file1 ] && [ ! -e share/many/file2 ]
}

@test "without a server the program hears so at once, and the log has a sentence" {
	two_gateways
	smbd_stop
	SECONDS=0
	run ! smb 'ls'
	[ "$SECONDS" -lt 10 ]
	until_true 5 grep -qE "SMB Direct connection 1 of client $CLIENT:[0-9]+, for the server at 127.0.0.1:$SMB_PORT was not established: cannot connect to the SMB server at 127.0.0.1:$SMB_PORT: Connection refused" "$HOSTS_DIR/a.log"
	grep -qE "SMB Direct connection 1 of program 127.0.0.1:[0-9]+, with the server $SERVER:[0-9]+ was not established: the peer has refused" "$HOSTS_DIR/b.log"
	shows b event 'any(.event == "smbdirect-refused")'
	[ "$(show a stats .smbdirect.refused)" = 1 ]
	run -1 smcrctl_on a doctor
	grep -qF "problem: nobody listens at 127.0.0.1:$SMB_PORT" <<<"$output"

	# and on the other host no smcrd at all
	smcrd_ends a
	SECONDS=0
	run ! smb 'ls'
	[ "$SECONDS" -lt 30 ]
}

@test "an address that is taken: smcrd runs without it, doctor names it, and a reload tries again" {
	hosts_up 1500
	smb_share
	smbd_start
	start_on b ncat -l 127.0.0.1 "$SMB_DOOR" >/dev/null
	other=$!
	until_true 10 tcp_listens b "$SMB_DOOR"
	smb_gateways
	grep -qF "smbdirect: cannot listen on 127.0.0.1:$SMB_DOOR: Address already in use; a reload tries again" "$HOSTS_DIR/b.log"
	run -1 smcrctl_on b doctor
	grep -qF "problem: no connections of SMB Direct at 127.0.0.1:$SMB_DOOR: cannot listen on" <<<"$output"
	smcrctl_on b smbdirect | grep -q 'Address already in use'
	[ "$(show b stats .smbdirect.listeners_now)" = 0 ]
	kill "$other"
	wait "$other" || true
	smcrctl_on b config reload
	[ "$(show b stats .smbdirect.listeners_now)" = 1 ]
	smb 'ls' >/dev/null
	run smcrctl_on a doctor
	grep -qF "ok: the server for clients of SMB Direct listens at 127.0.0.1:$SMB_PORT" <<<"$output"
	[ "$(grep -c 'SMB Direct' <<<"$(smcrctl_on b doctor)")" = 0 ]
}

@test "after a restart of the server or of smcrd the next connection works" {
	two_gateways
	SIZE=1
	round_trip
	smbd_stop
	smbd_start
	round_trip
	smcrd_ends a
	smcrd_start a
	round_trip
	smcrd_ends b
	smcrd_start b
	round_trip
	[ "$(show a stats .smbdirect.established)" = 2 ]
}

# client_starts COMMANDS: start a client in the background; $CLIENT_PID is its process.
client_starts() {
	start_on b smbclient --configfile=/dev/null -p "$SMB_DOOR" -U "$SMB_USER" //127.0.0.1/share -c "$1" \
		</dev/null >client.out 2>&1
	CLIENT_PID=$!
}

# smcrd_ends HOST: stop smcrd alone.
smcrd_ends() {
	local name=SMCRD_PID_$1
	kill "${!name}"
	wait "${!name}"
}

@test "an administrator ends a connection, others may not; and there may be two at once" {
	two_gateways
	before_b=$(descriptors b)
	echo hello >share/hello
	mkfifo gate
	client_starts 'get hello gate' # which nobody reads
	until_true 10 shows b smbdirect '.connections | any(.state == "open")'
	random_file sent 8
	smb 'put sent; get sent back'
	same sent share/sent back
	[ "$(show b smbdirect '[.connections[] | select(.state == "open")] | length')" = 1 ]
	number=$(show b smbdirect '.connections[] | select(.state == "open") | .id')
	smcrctl_on b smbdirect show state open | grep -q "^ *$number  *open  *client"
	smcrctl_on b -d smbdirect >details
	grep -q MAX-MESSAGE-SENT details

	run -1 on b setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/b.sock" smbdirect disconnect "$number"
	grep -q 'this is for root' <<<"$output"
	run -4 smcrctl_on b smbdirect disconnect 4711
	grep -q 'there is no SMB Direct connection 4711' <<<"$output"
	run -2 smcrctl_on b smbdirect disconnect
	run -2 smcrctl_on b smbdirect disconnect one
	smcrctl_on b smbdirect disconnect "$number" | grep -q "SMB Direct connection $number is ended"
	until_true 10 all_ended b
	until_true 10 all_ended a
	[ "$(show b smbdirect ".connections[] | select(.id == $number) | .text")" = 'an administrator has ended it' ]
	kill "$CLIENT_PID"
	wait "$CLIENT_PID" || true
	nothing_left b "$before_b"
}

@test "two clients at once have their own files" {
	two_gateways
	random_file first 32
	random_file second 32
	smb 'put first; get first first.back' &
	first=$!
	smb 'put second; get second second.back'
	wait "$first"
	same first share/first first.back
	same second share/second second.back
}

@test "a client that is killed in the middle of a transfer leaves nothing behind" {
	two_gateways
	before_a=$(descriptors a) before_b=$(descriptors b)
	truncate -s 4G big
	for command in 'put big' 'get big /dev/null'; do
		[ "$command" = 'put big' ] || truncate -s 4G share/big
		client_starts "$command"
		until_true 20 shows b smbdirect '.connections | any(.state == "open" and (.rdma_read_bytes + .rdma_write_bytes) > 30000000)'
		kill -KILL "$CLIENT_PID"
		wait "$CLIENT_PID" || true
		nothing_left b "$before_b"
		nothing_left a "$before_a"
	done
}

@test "the trace has the messages in words" {
	two_gateways
	smcrctl_on a log trace smbdirect >/dev/null
	smb 'ls' >/dev/null
	grep -q "smbdirect: received from $CLIENT, soft:eth0, connection 1: Negotiate Request: versions 1.0 to 1.0, wants 255 credits" "$HOSTS_DIR/a.log"
	grep -q "smbdirect: sent to $CLIENT, soft:eth0, connection 1: Negotiate Response: status 0x00000000, success" "$HOSTS_DIR/a.log"
	grep -q "smbdirect: received from $CLIENT, soft:eth0, connection 1: Data Transfer: [1-9][0-9]* bytes, 0 follow" "$HOSTS_DIR/a.log"
}
