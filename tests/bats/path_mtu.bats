#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A device between two hosts silently drops large RoCE packets, and passes small ones (A67).
# bats file_tags=long
bats_require_minimum_version 1.5.0
load common

# jumbo_daemons: hosts with an smcrd each, whose NICs take packets of 9000 bytes.
jumbo_daemons() {
	local host nic
	hosts_up 9000
	for host in a b; do
		for nic in 0 1; do
			# No segmentation offload: the bridge sees single packets.
			ip -n "$HOSTS_ID-$host" link set "eth$nic" gso_max_segs 1
		done
		smcrd_start "$host"
	done
}

# small_roce_only [CONDITION]: the bridge drops RoCE packets that are too long for an Ethernet MTU of 1500.
small_roce_only() {
	on sw nft -f - <<-EOF
	table bridge small {
		chain forward {
			type filter hook forward priority -10
			${1:-} ip length > 1500 udp dport 4791 drop
		}
	}
	EOF
}

# download [OPTIONS OF smcr-run..]: download a file to host b and compare it.
download() {
	rm -f "$HOSTS_DIR/copy"
	on b "$RUN" "$@" curl -sS -o "$HOSTS_DIR/copy" "http://$SERVER:8080/file"
	cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
}

# all_links_take BYTES: do both hosts have two links, all with packets of this size?
all_links_take() {
	local host
	for host in a b; do
		shows "$host" link "length == 2 and all(.state == \"active\" and .path_mtu == $1)" || return 1
	done
}

setup() {
	jumbo_daemons
	web_server a "$SERVER" "$RUN"
	random_file "$HOSTS_DIR/www/file" 8
}

@test "large packets pass: links use them, and a test says so" {
	download --require
	until_true 20 all_links_take 4096
	for host in a b; do
		number=$(show "$host" link '.[0] | "\(.linkgroup)/\(.number)"')
		smcrctl_on "$host" link test "$number" | grep -q 'packets of 4096 bytes have passed from here'
	done
}

@test "large packets vanish both ways: a download is TCP, all others SMC-R with smaller packets; none is reset" {
	small_roce_only
	download
	shows b connection 'any(.mode == "tcp" and .fallback_reason == "path-mtu")'
	shows b connection 'any((.fallback_text // "") | contains("MTU of the path"))'
	grep -q 'packets of 4096 bytes do not pass' "$HOSTS_DIR/b.log"
	for _ in 1 2 3 4 5 6; do download --require; done
	# the limit has to be found for the second pair of NICs too
	until_true 30 all_links_take 1024
	for _ in 1 2 3 4 5 6; do download --require; done
	all_links_take 1024
}

@test "the MTU that was found for a path is shown, and forgotten on demand" {
	small_roce_only
	download
	shows b policy '.paths | any(.mtu == 1024 and .proven and .peer == "'"$SERVER"'" and .rnic == "soft:eth0")'
	run -0 smcrctl_on b policy
	[[ "$output" == *"Paths that packets of full size do not pass"* ]]
	on sw nft delete table bridge small
	for host in a b; do
		run -0 smcrctl_on "$host" policy
		peer=$CLIENT
		[ "$host" = a ] || peer=$SERVER
		smcrctl_on "$host" policy forget "$peer" || [ "$host" = a ] # host a may have found nothing
		shows "$host" policy '.paths == []'
	done
	download --require
	until_true 20 all_links_take 4096
}

@test "large packets vanish on the way from the server: the same" {
	small_roce_only 'iifname { "a0", "a1" }'
	download
	shows b connection 'any(.mode == "tcp" and .peer_fallback_reason == "path-mtu")'
	grep -q 'packets of 4096 bytes do not pass' "$HOSTS_DIR/a.log"
	for _ in 1 2 3 4 5 6; do download --require; done
	until_true 30 all_links_take 1024
	for _ in 1 2 3 4 5 6; do download --require; done
}

@test "large packets vanish on one of two paths: connections use the other one" {
	small_roce_only 'iifname { "a1", "b1" }'
	for _ in 1 2 3 4 5 6; do download --require; done
	until_true 30 eval "shows b link 'map(.path_mtu) | sort == [1024, 4096]'"
	shows b connection 'all(.mode == "smcr")'
	for _ in 1 2 3 4 5 6; do download --require; done
}
