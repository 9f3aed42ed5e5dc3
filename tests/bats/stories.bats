#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# Failures as an operator meets them: one command tells what is wrong, where, and what to do. Each test is one
# story. In all of them connections are plain TCP, and lose no byte.
bats_require_minimum_version 1.5.0
load common

# check [WORD..]: run smcrctl check on host b, which must find that the connection stays TCP. Its findings go to
# $output, its reason to $reason, and the peer's reason to $peer_reason.
check() {
	local json
	run -1 smcrctl_on b -j check "${@:-$SERVER 7001}"
	# shellcheck disable=SC2154 # bats sets it
	json=$output
	reason=$(jq -r .check.reason <<<"$json")
	peer_reason=$(jq -r .check.peer_reason <<<"$json")
	output=$(jq -r '.check.findings[] | "\(.level): \(.text); \(.advice)"' <<<"$json")
	echo "$reason, $peer_reason"
	echo "$output"
}

# works_as_tcp: a program under smcr-run must work all the same.
works_as_tcp() {
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
}

@test "the peer has no SMC-R" {
	hosts_up 1500
	smcrd_start b
	echo_server_on_a
	check "$SERVER" 7001
	[ "$reason" = peer-no-smc ]
	[[ "$output" == *"ok: TCP to $SERVER port 7001 is answered"* ]]
	[[ "$output" == *"problem: "*"start smcrd there, and the server under smcr-run"* ]]
	works_as_tcp
}

@test "the peer's smcrd runs, but its server is not under smcr-run" {
	two_daemons
	echo_server_on_a
	check "$SERVER" 7001
	[ "$reason" = peer-no-smc ]
	[[ "$output" == *"the server under smcr-run"* ]]
	works_as_tcp
}

@test "UDP port 4791 is dropped, on the way there, on the way back, both" {
	local dead host
	for dead in a b 'a b'; do
		two_daemons
		for host in $dead; do block_roce "$host"; done
		echo_server_on_a "$RUN"
		check "$SERVER" 7001
		[[ " $reason $peer_reason " == *" confirm-link-failed "* ]]
		[[ "$output" == *"ok: the peer answers with the SMC option"* ]]
		[[ "$output" == *"problem: RoCE, UDP port 4791, does not pass between this host and $SERVER"*"; let UDP port 4791 pass both ways"* ]]
		for host in $dead; do
			run -1 smcrctl_on "$host" doctor
			[[ "$output" == *"problem: the firewall drops UDP port 4791"*"comes in at eth0: rule "*" of chain in, table inet dead; let it pass: nft insert rule inet dead in udp dport 4791 accept"* ]]
		done
		works_as_tcp
		if [ "$dead" != a ]; then # this host's own firewall: check has found it already
			check "$SERVER" 7001
		fi
		hosts_down
	done
}

@test "a device between the hosts drops large packets silently" {
	local host nic
	hosts_up 9000
	for host in a b; do
		# No segmentation offload: the bridge sees single packets.
		for nic in 0 1; do ip -n "$HOSTS_ID-$host" link set "eth$nic" gso_max_segs 1; done
		smcrd_start "$host"
	done
	on sw nft -f - <<-'EOF'
	table bridge small {
		chain forward {
			type filter hook forward priority -10
			ip length > 1500 udp dport 4791 drop
		}
	}
	EOF
	echo_server_on_a "$RUN"
	check "$SERVER" 7001
	[[ " $reason $peer_reason " == *" path-mtu "* ]]
	[[ "$output" == *"problem: "*"; let the path carry the MTU of the RNICs' interfaces"* ]]
	works_as_tcp
	# The next connection uses smaller packets.
	run -0 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"UDP port 4791 passes: link "*"with MTU 1024"* ]]
	run smcrctl_on b doctor
	[ "$status" -le 1 ] # other findings about this machine do not matter
	[[ "$output" == *"warning: link "*" to $SERVER has packets of 1024 bytes, and RNIC soft:eth"*" could have 4096"* ]]
}

@test "a peer that failed a moment ago is left alone" {
	two_daemons
	block_roce a
	echo_server_on_a "$RUN"
	works_as_tcp
	until_true 5 shows b info '.skipped_peers | length == 1'
	check "$SERVER" 7001
	[ "$reason" = peer-skipped ]
	[[ "$output" == *"stay TCP for"*"'smcrctl policy forget $SERVER' lets SMC-R be tried at once"* ]]
	run smcrctl_on b doctor
	[ "$status" -le 1 ]
	[[ "$output" == *"warning: $SERVER is left to TCP for "* ]]
}

@test "the hosts are not in one subnet" {
	hosts_up 1500
	ip -n "$HOSTS_ID-b" addr del 10.77.0.2/24 dev eth0
	ip -n "$HOSTS_ID-b" addr add 10.77.0.2/28 dev eth0
	ip -n "$HOSTS_ID-b" link set eth1 down
	smcrd_start a
	smcrd_start b --rnic soft:eth0
	echo_server_on_a "$RUN"
	check "$SERVER" 7001
	[ "$reason $peer_reason" = 'peer-declined prefix-mismatch' ]
	[[ "$output" == *"problem: the peer declines: "*"addresses of one subnet with the same prefix length"* ]]
	works_as_tcp
}

@test "BPF is not permitted" {
	hosts_up 1500
	: >"$HOSTS_DIR/b.conf"
	start_on b capsh --drop=cap_bpf,cap_sys_admin -- -c "exec '$HOSTS_BUILD/bin/smcrd' \
		--foreground --config '$HOSTS_DIR/b.conf' --socket '$HOSTS_DIR/b.sock'" >"$HOSTS_DIR/b.log" 2>&1
	until_true 10 answers b
	smcrd_start a
	echo_server_on_a "$RUN"
	run -1 smcrctl_on b doctor
	[[ "$output" == *"problem: smcrd cannot use BPF, so connections stay TCP: "*CAP_BPF* ]]
	check "$SERVER" 7001
	[ "$reason" = no-bpf ]
	[[ "$output" == *"problem: smcrd cannot use BPF"* ]]
	works_as_tcp
}

@test "memory for buffers is too small" {
	local host
	for host in a b; do
		hosts_up 1500
		printf '%s\n' 'memory = 1M' 'element_size_min = 512K' >"$HOSTS_DIR/$host.conf"
		smcrd_start a
		smcrd_start b
		echo_server_on_a "$RUN"
		check "$SERVER" 7001
		[[ " $reason $peer_reason " =~ (no-memory|rmbe-exhausted) ]]
		[[ "$output" == *"problem: "*"raise 'memory' in smcrd.conf(5) of "* ]]
		run -1 smcrctl_on "$host" doctor
		[[ "$output" == *"problem: memory for buffers ran out for "*"raise 'memory' in smcrd.conf(5)"* ]]
		works_as_tcp
		hosts_down
	done
}

@test "not root: what smcrd lacks, and who may change things" {
	hosts_up 1500
	: >"$HOSTS_DIR/b.conf"
	chmod 777 "$HOSTS_DIR"
	start_on b setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrd" --foreground \
		--config "$HOSTS_DIR/b.conf" --socket "$HOSTS_DIR/b.sock" >"$HOSTS_DIR/b.log" 2>&1
	SMCRD_PID_b=$!
	until_true 10 answers b
	run -1 smcrctl_on b doctor
	[[ "$output" == *"problem: smcrd cannot use BPF, so connections stay TCP: "*"; run smcrd as the service or as root"* ]]
	daemon_ends b || false
	smcrd_start b
	run -1 on b setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" policy add deny port 22
	[[ "$output" == *"is for root"* ]]
}

@test "smcrd does not run" {
	hosts_up 1500
	echo_server_on_a
	run -1 smcrctl_on b doctor
	[[ "$output" == *"problem: no smcrd answers on $HOSTS_DIR/b.sock"*"start smcrd: systemctl start smcrd"* ]]
	# 'ip netns exec' hides the hierarchy from smcrctl, but a daemon that root starts finds it.
	[[ "$output" == *"warning: the cgroup2 hierarchy, "*" cannot be seen from here: 'ip netns exec' hides it"* ]]
	[[ "$output" == *"ok: 2 Ethernet interfaces are up and have an IPv4 address"* ]]
	ip -n "$HOSTS_ID-b" link set eth1 down
	run -1 smcrctl_on b doctor
	[[ "$output" == *"ok: 1 Ethernet interface is up and has an IPv4 address"* ]]
	check "$SERVER" 7001
	[ "$reason" = no-daemon ]
	[[ "$output" == *"start smcrd: systemctl start smcrd"* ]]
	works_as_tcp
}

@test "a static program behind a script" {
	hosts_up 1500
	smcrd_start b
	printf 'int main(void) { return 0; }\n' >"$HOSTS_DIR/static.c"
	gcc -static -o "$HOSTS_DIR/static" "$HOSTS_DIR/static.c"
	printf '#!/bin/sh\n%s/static\n' "$HOSTS_DIR" >"$HOSTS_DIR/script"
	chmod 755 "$HOSTS_DIR/script"
	run -0 on b "$RUN" -v "$HOSTS_DIR/script"
	[[ "$output" == *"$HOSTS_DIR/static cannot use SMC-R: "*"static"*"it runs over plain TCP"* ]]
	run -0 on b "$RUN" "$HOSTS_DIR/static"
	[[ "$output" == *"$HOSTS_DIR/static cannot use SMC-R: "*"static"*"it runs over plain TCP"* ]]
}

@test "a setuid program" {
	# not in /tmp, which may be mounted nosuid
	local dir
	dir=$(mktemp -d "$HOSTS_BUILD/stories-XXXXXX")
	cp /usr/bin/true "$dir/program"
	chown 65534 "$dir/program"
	chmod 4755 "$dir/program"
	run -0 "$RUN" "$dir/program"
	rm -rf "$dir"
	[[ "$output" == *"$dir/program cannot use SMC-R: it is setuid"*"it runs over plain TCP"* ]]
}

@test "the host has IPv6 only" {
	local host nic
	hosts_up 1500
	for host in a b; do
		for nic in eth0 eth1; do ip -n "$HOSTS_ID-$host" addr flush dev "$nic" scope global; done
	done
	ip -n "$HOSTS_ID-a" addr add fd00:77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd00:77::2/64 dev eth0 nodad
	smcrd_start a
	smcrd_start b
	web_server a '[::]' "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	run -1 smcrctl_on b doctor
	[[ "$output" == *"warning: interface eth0 has no IPv4 address, which RoCE needs also for IPv6 connections; give it one"* ]]
	[[ "$output" == *"problem: smcrd has no RNIC in use, so all connections are plain TCP"* ]]
	check fd00:77::1 8080
	[ "$reason" = no-device ]
	[[ "$output" == *"eth0 has no IPv4 address, which RoCE needs also for IPv6 connections"* ]]
	[ "$(on b "$RUN" curl -gsS "http://[fd00:77::1]:8080/hello")" = hello ]
}

@test "the program is in another network namespace than smcrd" {
	two_daemons
	echo_server_on_a "$RUN"
	hosts_join c 3
	inside() {
		on c env SMCRD_SOCKET="$HOSTS_DIR/b.sock" "$@"
	}
	run -1 inside "$HOSTS_BUILD/bin/smcrctl" doctor
	[[ "$output" == *"problem: smcrd runs in another network namespace than this command: connections from here are plain TCP; start an smcrd in this namespace"* ]]
	run -1 inside "$HOSTS_BUILD/bin/smcrctl" check "$SERVER" 7001
	[[ "$output" == *"problem: smcrd runs in another network namespace"* ]]
	inside "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
}
