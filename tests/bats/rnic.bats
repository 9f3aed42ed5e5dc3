#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# RNICs whose interfaces change, go and come back, and links when a daemon does not run for a while.
# failover.bats shows how connections survive cuts.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

# steady_pair [OPTIONS..]: start streams and ping-pong between two hosts whose daemons run already.
steady_pair() {
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 2 --pingpong 2 "$@"
}

# steady_pair_ends: end the connections: no byte may be lost, doubled or wrong, and no connection may have failed.
steady_pair_ends() {
	steady_stop client || {
		cat "$HOSTS_DIR/client.out" "$HOSTS_DIR/server.out"
		return 1
	}
	! steady_errors client server
}

device_is() {
	shows "$1" device "[.[] | select(.name == \"$2\" and .state == \"$3\")] | length == 1"
}

no_device() {
	shows "$1" device "[.[] | select(.name == \"$2\")] | length == 0"
}

# qpns HOST: print the queue pair numbers of its links.
qpns() {
	json "$1" link '[.link[].local_qpn] | sort | join(" ")'
}

@test "a configured interface that is missing is waited for, and used again when it comes back" {
	hosts_up 1500
	printf 'rnic = soft:eth0\nrnic = soft:late0\nrnic = soft:eth0\n' >"$HOSTS_DIR/a.conf"
	smcrd_start a
	shows a device 'length == 1'
	for round in 1 2; do
		ip -n "$HOSTS_ID-a" link add late0 type veth peer name late1
		until_true 5 device_is a soft:late0 down
		ip -n "$HOSTS_ID-a" link set late1 up
		ip -n "$HOSTS_ID-a" addr add 10.78.0.1/24 dev late0
		ip -n "$HOSTS_ID-a" link set late0 up
		until_true 5 device_is a soft:late0 active
		# the interface goes and comes back before smcrd can look
		ip -n "$HOSTS_ID-a" -batch - <<-EOF
		link del late0
		link add late0 type veth peer name late1
		link set late1 up
		addr add 10.78.0.1/24 dev late0
		link set late0 up
		EOF
		until_true 5 device_is a soft:late0 active
		ip -n "$HOSTS_ID-a" link del late0
		until_true 5 no_device a soft:late0
	done
	# smcrd does not use interfaces that are not configured
	shows a device '[.[].name] == ["soft:eth0"]'
	[ "$(grep -c 'late0.*waiting for it' "$HOSTS_DIR/a.log")" = 1 ]

	# if none of the interfaces exists, smcrd assumes wrong names and fails
	: >"$HOSTS_DIR/none.conf"
	run -1 on b "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/none.conf" \
		--rnic soft:nosuch0 --rnic soft:nosuch1
	[[ "$output" == *nosuch*"no such network interface"* ]]
}

@test "the last RNIC goes: connections are TCP; it comes back: SMC-R" {
	hosts_up 1500
	smcrd_start a --rnic soft:eth0
	smcrd_start b
	web_server a "$SERVER" "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	on b "$RUN" --require curl -sS "http://$SERVER:8080/hello"
	cut remove-a 0
	until_true 5 shows a device 'length == 0'
	until_true 5 shows a linkgroup 'length == 0'
	shows a event 'any(.event == "rnic-down" and .text == "rnic soft:eth0: its interface is gone")'
	mend remove-a 0
	until_true 5 device_is a soft:eth0 active
	until_true 10 on b "$RUN" --require curl -sS --max-time 5 "http://$SERVER:8080/hello"
}

@test "a NIC is renamed: its RNIC follows, and its links stay" {
	two_daemons
	steady_pair
	until_true "$FAILOVER_PATIENCE" symmetric
	before_a=$(qpns a)
	before_b=$(qpns b)
	for nic in 0 1; do ip -n "$HOSTS_ID-a" link set "eth$nic" name "lan$nic"; done
	until_true 5 device_is a soft:lan0 active
	until_true 5 device_is a soft:lan1 active
	until_true 5 shows a link 'map(.rnic) | sort == ["soft:lan0", "soft:lan1"]'
	# another interface may get the old name
	ip -n "$HOSTS_ID-a" link add eth1 type veth peer name other
	ip -n "$HOSTS_ID-a" addr add 10.78.0.1/24 dev eth1
	until_true 5 device_is a soft:eth1 down
	[ "$(qpns a)" = "$before_a" ]
	[ "$(qpns b)" = "$before_b" ]
	ip -n "$HOSTS_ID-a" link del eth1
	until_true 5 no_device a soft:eth1
	for nic in 0 1; do ip -n "$HOSTS_ID-a" link set "lan$nic" name "eth$nic"; done
	until_true 5 device_is a soft:eth1 active
	steady_pair_ends
	[ "$(qpns a)" = "$before_a" ]
}

@test "an address is removed and comes back, and changes" {
	two_daemons
	steady_pair
	until_true "$FAILOVER_PATIENCE" symmetric
	for nic in 1 0; do
		addr=10.77.0.$((nic * 10 + 1))
		CUT_QPN_a=$(queue_pair a "$nic")
		CUT_QPN_b=$(queue_pair b "$nic")
		ip -n "$HOSTS_ID-a" addr del "$addr/24" dev "eth$nic"
		until_true "$FAILOVER_PATIENCE" link_is_lost
		device_is a "soft:eth$nic" down
		shows a device 'any(.name == "soft:eth'$nic'" and (.down_text | test("^its interface has no (IPv4 )?address$")))'
		shows a event 'any(.event == "rnic-down" and .rnic == "soft:eth'$nic'" and
			(.text | test("^rnic soft:eth'$nic': its port is down: its interface has no (IPv4 )?address$")))'
		shows a event 'any(.event == "link-failed" and .rnic == "soft:eth'$nic'" and
			(.text | test("has failed: .*its interface has no (IPv4 )?address")))'
		ip -n "$HOSTS_ID-a" addr add "$addr/24" dev "eth$nic"
		until_true "$FAILOVER_PATIENCE" symmetric
		shows a event '[.[] | select(.rnic == "soft:eth'$nic'" and (.event | test("^rnic-")))] | .[-1] |
			.event == "rnic-up" and (.text | endswith(": its port is active"))'
	done
	# another address
	CUT_QPN_a=$(queue_pair a 1)
	CUT_QPN_b=$(queue_pair b 1)
	ip -n "$HOSTS_ID-a" addr del 10.77.0.11/24 dev eth1
	ip -n "$HOSTS_ID-a" addr add 10.77.0.31/24 dev eth1
	until_true "$FAILOVER_PATIENCE" link_is_lost
	until_true "$FAILOVER_PATIENCE" symmetric
	shows a link 'map(.local_gid) | sort == ["::ffff:10.77.0.1", "::ffff:10.77.0.31"]'
	shows b link 'map(.peer_gid) | sort == ["::ffff:10.77.0.1", "::ffff:10.77.0.31"]'
	steady_pair_ends
}

@test "an MTU becomes too small for a link: another link takes its place" {
	two_daemons
	steady_pair
	until_true "$FAILOVER_PATIENCE" symmetric
	CUT_QPN_a=$(queue_pair a 1)
	CUT_QPN_b=$(queue_pair b 1)
	ip -n "$HOSTS_ID-a" link set eth1 mtu 600
	until_true "$FAILOVER_PATIENCE" link_is_lost
	until_true "$FAILOVER_PATIENCE" symmetric
	shows b link 'map(.path_mtu) | sort == [512, 1024]'
	steady_pair_ends
}

@test "a daemon stopped for a second: no connection is lost, with two links" {
	two_daemons
	steady_pair
	until_true "$FAILOVER_PATIENCE" symmetric
	for host in a b; do
		cut "stop-$host" 0
		until_true "$FAILOVER_PATIENCE" symmetric
	done
	steady_pair_ends
}

@test "a daemon stopped for a second: the only link is not given up" {
	hosts_up 1500
	for host in a b; do smcrd_start "$host" --rnic soft:eth0; done
	steady_pair
	before=$(qpns a)
	[ -n "$before" ]
	for host in a b; do
		pid=SMCRD_PID_$host
		kill -STOP "${!pid}"
		sleep 1 # the stop has to last a second
		kill -CONT "${!pid}"
		steady_mark client "$host" # a ping-pong goes on
	done
	steady_pair_ends
	[ "$(qpns a)" = "$before" ]
	run ! grep -q 'failed' "$HOSTS_DIR/a.log" "$HOSTS_DIR/b.log"
}

@test "a daemon stopped for a second while nothing is under way: no link is given up" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 5 tcp_listens a 7001
	start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100 --hold
	hold_pid=$!
	until_true "$FAILOVER_PATIENCE" symmetric
	before=$(qpns a)
	for host in a b; do cut "stop-$host" 0; done
	symmetric
	[ "$(qpns a)" = "$before" ]
	shows b connection '[.[] | select(.state == "active")] | length == 1'
	kill -0 "$hold_pid"
	run ! grep -q 'failed' "$HOSTS_DIR/a.log" "$HOSTS_DIR/b.log"
}

@test "a silent path: its link is given up after 300 ms, though the other one was idle" {
	two_daemons
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 0 --pingpong 1
	until_true "$FAILOVER_PATIENCE" symmetric
	nic=$(json b link '.link[] | select(.connections == 1) | .rnic[-1:]')
	CUT_QPN_a=$(queue_pair a "$nic")
	CUT_QPN_b=$(queue_pair b "$nic")
	steady_mark client before
	drop_roce a "$nic" iifname oifname
	until_true "$FAILOVER_PATIENCE" link_is_lost
	read -r gap _ late < <(steady_mark client after)
	echo "gap $gap us, of which the program itself was late by up to $late"
	[ "$gap" -ge 290000 ]
	[ "$gap" -le $((2500000 + late)) ] # the only path would have four seconds
	on sw nft delete table bridge cut
	until_true "$FAILOVER_PATIENCE" symmetric
	steady_pair_ends
	echo "# a ping-pong's gap: $((gap / 1000)) ms" >&3
}

@test "every path is silent for two seconds: no link is given up" {
	two_daemons
	steady_pair
	until_true "$FAILOVER_PATIENCE" symmetric
	before=$(qpns a)
	on sw nft -f - <<-EOF
	table bridge cut {
		chain forward {
			type filter hook forward priority -10
			udp dport 4791 drop
		}
	}
	EOF
	sleep 2 # the silence has to last two seconds
	on sw nft delete table bridge cut
	steady_mark client mended
	steady_pair_ends
	[ "$(qpns a)" = "$before" ]
	run ! grep -q 'failed' "$HOSTS_DIR/a.log" "$HOSTS_DIR/b.log"
}
