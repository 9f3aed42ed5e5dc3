#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Version 2 of SMC-R between two hosts: chosen by UEIDs, beside version 1, and what operators see of it.
bats_require_minimum_version 1.5.0
load common

# conf HOST LINE..: write its configuration.
conf() {
	printf '%s\n' "${@:2}" >"$HOSTS_DIR/$1.conf"
}

# echo_from_b [OPTIONS..]: make a connection from b, and check that its bytes come back.
echo_from_b() {
	on b "$RUN" "$@" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000 --half-close
}

@test "with a UEID in common a link group is of version 2; operators see what was agreed on" {
	hosts_up 1500
	conf a 'ueid = OTHER' 'ueid = EXAMPLE.ORG'
	conf b 'ueid = EXAMPLE.ORG'
	smcrd_start a
	smcrd_start b
	echo_server_on_a "$RUN"
	echo_from_b --require
	echo_from_b --require
	for host in a b; do
		shows "$host" linkgroup 'length == 1'
		until_true 60 shows "$host" linkgroup '.[0].links == 2'
		shows "$host" linkgroup ".[0] | .version == 2 and .release == 1 and .eid == \"EXAMPLE.ORG\"
			and .peer_host == \"$(uname -n | cut -c1-32)\" and .peer_os == \"Linux\"
			and .direct and .max_connections == 255 and .max_links == 3
			and .dialect == \"deployed\" and .links == 2"
		shows "$host" link "all(.[]; .peer_host == \"$(uname -n | cut -c1-32)\")"
	done
	shows a ueid '. == [{"name":"OTHER","linkgroups":0},{"name":"EXAMPLE.ORG","linkgroups":1}]'
	run -0 smcrctl_on a -d linkgroup
	[[ "$output" == *EXAMPLE.ORG*Linux* || "$output" == *Linux*EXAMPLE.ORG* ]]
}

@test "without a UEID in common it is version 1; with version 2 only, TCP, and both say why" {
	hosts_up 1500
	conf a 'ueid = A'
	conf b 'ueid = B'
	smcrd_start a
	smcrd_start b
	echo_server_on_a "$RUN"
	echo_from_b --require
	for host in a b; do
		shows "$host" linkgroup 'length == 1 and .[0].version == 1 and .[0].eid == null
			and .[0].release == null and .[0].peer_os == null and .[0].max_connections == null'
	done
	hosts_down
	hosts_up 1500
	conf a 'ueid = A' 'versions = 2'
	conf b 'ueid = B' 'versions = 2'
	smcrd_start a
	smcrd_start b
	echo_server_on_a "$RUN"
	echo_from_b
	until_true 5 shows a connection '[.[] | select(.fallback_reason == "ueid-mismatch")] | length == 1'
	shows b connection '[.[] | select(.fallback_reason == "peer-declined" and .peer_fallback_reason == "no-device"
		and .peer_fallback_code == 50528256 and (.peer_fallback_text | contains("EID")))] | length == 1'
	run -0 smcrctl_on b -d connection
	[[ "$output" == *05000000/03030000* ]]
}

@test "UEIDs change while smcrd runs; a peer has a group of each version" {
	two_daemons
	echo_server_on_a "$RUN"
	echo_from_b --require
	for host in a b; do
		run -0 smcrctl_on "$host" ueid add SMCLAB
		[[ "$output" == *SMCLAB* ]]
		run -1 smcrctl_on "$host" ueid add SMCLAB
		run -2 smcrctl_on "$host" ueid add smclab
		[[ "$output" == *"A-Z"* ]]
		run -2 smcrctl_on "$host" ueid add
	done
	echo_from_b --require
	for host in a b; do
		shows "$host" linkgroup '[.[].version] | sort == [1, 2]'
	done
	run -0 smcrctl_on a ueid remove SMCLAB
	run -4 smcrctl_on a ueid remove SMCLAB
	run -0 smcrctl_on a ueid
	echo_from_b --require
	for host in a b; do
		shows "$host" linkgroup 'length == 2'
	done
	# other users may look, but not change
	stranger() {
		setpriv --reuid 65534 --regid 65534 --clear-groups \
			"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/b.sock" "$@"
	}
	chmod 755 "$HOSTS_DIR"
	run -1 stranger -j ueid remove SMCLAB
	[[ "$output" == *'"code":"not-permitted"'* ]]
	run -0 stranger ueid
	[[ "$output" == *SMCLAB* ]]
}

@test "version 2 needs no common subnet" {
	hosts_up 1500
	ip -n "$HOSTS_ID-b" addr del 10.77.0.2/24 dev eth0
	ip -n "$HOSTS_ID-b" addr add 10.77.0.2/28 dev eth0
	ip -n "$HOSTS_ID-b" link set eth1 down
	conf a 'ueid = A'
	conf b 'ueid = A'
	smcrd_start a
	smcrd_start b --rnic soft:eth0
	echo_server_on_a "$RUN"
	echo_from_b --require
	shows a linkgroup 'length == 1 and .[0].version == 2'
}

@test "over IPv6 it is version 1 in spite of UEIDs" {
	hosts_up 1500
	n=1
	for host in a b; do
		conf "$host" 'ueid = A'
		ip -n "$HOSTS_ID-$host" addr add "fd00:77::$n/64" dev eth0 nodad
		smcrd_start "$host"
		n=$((n + 1))
	done
	web_server a '[::]' "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	[ "$(on b "$RUN" --require curl -gsS "http://[fd00:77::1]:8080/hello")" = hello ]
	shows a linkgroup '[.[].version] == [1]'
}
