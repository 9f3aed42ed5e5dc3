#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# bats file_tags=long
# Operators' commands from either side of a link group, while connections check every byte. Host a is the
# server of the group, host b the client.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

group() {
	json "$1" linkgroup '.linkgroup[0].id'
}

# other_link HOST LINK: print the other one of two links.
other_link() {
	json "$1" link --argjson number "${2#*/}" '.link[] | select(.number != $number).number'
}

# connections_on HOST LINK: how many connections of that host write over the link.
connections_on() {
	json "$1" link --argjson number "${2#*/}" '.link[] | select(.number == $number).connections'
}

# bytes_on HOST LINK: how many bytes that host has written over the link.
bytes_on() {
	json "$1" link --argjson number "${2#*/}" '.link[] | select(.number == $number).tx_bytes'
}

has_connections() {
	test "$(connections_on "$1" "$2")" "$3" "$4"
}

# result HOST ARGUMENTS..: give a command, which must succeed, and print its result as JSON.
result() {
	ctl "$1" -j "${@:2}" | jq -c .result
}

has_link() {
	json "$1" link -e --argjson number "${2#*/}" 'any(.link[]; .number == $number)' >/dev/null
}

has_no_link() {
	! has_link "$@"
}

# delete_link HOST [--disorderly]: delete the link over eth1 by a command on that host, then add a link
# again; connections lose nothing.
delete_link() {
	local host=$1 link peer
	shift
	link=$(link_on "$host" 1)
	[ "$link" != null ]
	result "$host" link delete "$link" "$@" >"$HOSTS_DIR/result"
	jq -e '.requested == false and (.connections | type) == "number" and .link == null' \
		"$HOSTS_DIR/result"
	for peer in a b; do
		until_true 5 has_no_link "$peer" "$link"
		until_true 5 shows "$peer" connection 'all(.[]; .ended or .state == "active")'
	done
}

# add_link HOST
add_link() {
	result "$1" link add "$(group "$1")" >"$HOSTS_DIR/result"
	jq -e '.requested == false and (.link | type) == "number" and .connections == null' \
		"$HOSTS_DIR/result"
	until_true "$FAILOVER_PATIENCE" symmetric
	has_link "$1" "$(jq .link "$HOSTS_DIR/result")"
}

# linked_again HOST: add a link again. To the other host a disorderly deletion is a lost link, so that host may
# add a link by itself before the command on this host does.
linked_again() {
	if ctl "$1" -j link add "$(group "$1")" >"$HOSTS_DIR/result" 2>"$HOSTS_DIR/refusal"; then
		jq -e '.result.requested == false and (.result.link | type) == "number"' "$HOSTS_DIR/result"
	else
		cat "$HOSTS_DIR/result" "$HOSTS_DIR/refusal"
		grep -q 'has a link already' "$HOSTS_DIR/result" "$HOSTS_DIR/refusal"
	fi
	until_true "$FAILOVER_PATIENCE" symmetric
}

@test "link delete and link add, orderly, by the server: nothing is lost" {
	busy_pair
	delete_link a
	add_link a
	busy_end
}

@test "link delete and link add, orderly, by the client: nothing is lost" {
	busy_pair
	delete_link b
	add_link b
	busy_end
}

@test "link delete --disorderly by either side: nothing is lost" {
	busy_pair
	delete_link a --disorderly
	linked_again a
	delete_link b --disorderly
	linked_again b
	busy_end
}

@test "the last link of a group is not deleted, and no more are added than make sense" {
	two_daemons --rnic soft:eth0
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1
	for host in a b; do
		run -1 ctl "$host" link delete "$(link_on "$host" 0)"
		[[ "$output" == *"last"* ]]
		run -1 ctl "$host" -j link delete "$(link_on "$host" 0)" --disorderly
		[[ "$output" == *'"code":"busy"'* ]]
		run -1 ctl "$host" link add "$(group "$host")"
		[[ "$output" == *"no alternate path"* || "$output" == *"Every RNIC"* ]]
		run -1 ctl "$host" failover "$(group "$host")" from "$(link_on "$host" 0)"
		[[ "$output" == *"last"* ]]
	done
	busy_end
}

@test "link test tells the round trip, or that the link has failed" {
	busy_pair
	for host in a b; do
		for nic in 0 1; do
			result "$host" link test "$(link_on "$host" "$nic")" |
				jq -e '.rtt_us > 0 and .requested == false and .link == null and
					.connections == null and (.text | contains("microseconds"))'
		done
	done
	link=$(link_on b 1)
	drop_roce b 1 iifname oifname
	# either the TEST LINK or the traffic notices first that nothing passes
	run ! ctl b link test "$link"
	[[ "$output" == *failed* || "$output" == *"deleted meanwhile"* || "$output" == *"no link"* ||
		"$output" == *"not active"* ]]
	busy_end
}

@test "link disable keeps a host's writes off a link, on either side; enable brings them back" {
	busy_pair
	for host in a b; do
		link=$(link_on "$host" 1)
		until_true 5 has_connections "$host" "$link" -gt 0
		before=$(connections_on "$host" "$link")
		[ "$(result "$host" link disable "$link" | jq .connections)" = "$before" ]
		has_connections "$host" "$link" -eq 0
		shows "$host" link '.[] | select(.rnic == "soft:eth1") | .disabled and .state == "active"'
		[[ "$(ctl "$host" link)" == *"active, disabled"* ]]
		# the peer's view shows which links the peer may write over, and none is disabled there
		shows "$([ "$host" = a ] && echo b || echo a)" link 'all(.[]; .disabled | not)'
		# new connections do not use the link either
		written=$(bytes_on "$host" "$link")
		steady_start "visitor-$host" b "$RUN" --require -- visit "$SERVER" 7100 --count 10
		until_true 10 shows "$host" connection 'length > 8'
		steady_stop "visitor-$host"
		[ "$(bytes_on "$host" "$link")" = "$written" ]
		ctl "$host" link enable "$link"
		until_true 5 has_connections "$host" "$link" -gt 0
		shows "$host" link 'all(.[]; .disabled | not)'
	done
	busy_end
}

@test "failover moves a host's writes as it is told, on either side" {
	busy_pair
	for host in a b; do
		group=$(group "$host")
		link=$(link_on "$host" 1)
		number=${link#*/}
		other=$(other_link "$host" "$link")
		ctl "$host" failover "$group" from "$number"
		has_connections "$host" "$link" -eq 0
		[ "$(result "$host" failover "$group" to "$link" | jq .connections)" = 4 ]
		has_connections "$host" "$link" -eq 4
		[ "$(result "$host" failover "$group" f "$number" t "$other" | jq .connections)" = 4 ]
		has_connections "$host" "$link" -eq 0
		[ "$(result "$host" failover "$group" from "$link" | jq .connections)" = 0 ]
		[ "$(result "$host" failover "$group" | jq .connections)" = 2 ]
		has_connections "$host" "$link" -eq 2
	done
	busy_end
}

@test "linkgroup delete resets the connections on both hosts, by either side" {
	two_daemons
	start_on a "$RUN" "$PROGRAMS/reset_reader" "$SERVER" 7002 >"$HOSTS_DIR/reader.out" 2>&1
	for host in a b; do
		start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001 2>"$HOSTS_DIR/server.out"
		server=$!
		until_true 5 tcp_listens a 7001
		start_on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 10000000000 \
			2>"$HOSTS_DIR/client.out"
		client=$!
		until_true 10 shows "$host" connection 'any(.[]; .tx_bytes > 1000000 and (.ended | not))'
		until_true 10 shows "$host" linkgroup 'length == 1 and .[0].connections == 1' # the one before has gone
		result "$host" linkgroup delete "$(group "$host")" |
			jq -e '.connections == 1 and .link == null and .requested == false'
		status=0
		wait "$client" || status=$?
		[ "$status" = 1 ]
		grep -qE 'Connection reset by peer|Broken pipe' "$HOSTS_DIR/client.out"
		for peer in a b; do
			until_true 5 shows "$peer" linkgroup 'length == 0'
			until_true 5 shows "$peer" connection 'any(.[]; .error == "ECONNRESET")'
		done
		# the next connection makes a new group
		on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
		shows "$host" linkgroup 'length == 1'
		kill "$server"
		wait "$server" || true
	done
}

@test "wrong arguments exit with status 2, objects that do not exist with status 4" {
	busy_pair
	for arguments in "link delete" "link delete 1" "link delete 0/1" "link delete 1/0" \
		"link delete 1/256" "link delete 1/1/1" "link delete 1/1 1/2" "link delete -- -1/1" \
		"link test 1/1 --disorderly" "link add" "link add x" "link add 1/1" "link d 1/1" \
		"linkgroup delete" "linkgroup delete 4294967296" "linkgroup add 1" "failover" \
		"failover 1 from" "failover 1 from 2/1" "failover 1 from 1 from 2" "failover 1 1" \
		"failover 1 show" "info delete"; do
		# shellcheck disable=SC2086
		run -2 ctl a $arguments
		[[ "$output" == "smcrctl: "* ]]
	done
	for host in a b; do
		group=$(group "$host")
		for arguments in "linkgroup delete 999" "link add 999" "link test 999/1" \
			"link delete $group/99" "link disable $group/99" "link enable $group/99" \
			"link test $group/99" "failover $group to 99" "failover 999"; do
			# shellcheck disable=SC2086
			run -4 ctl "$host" $arguments
			[[ "$output" == "smcrctl: "*"no link"* ]]
			# shellcheck disable=SC2086
			run -4 ctl "$host" -j $arguments
			[[ "$output" == *'"code":"not-found"'* ]]
		done
		run -2 ctl "$host" failover "$group" from 1 to 1
		[[ "$output" == *"same link"* ]]
	done
	busy_end
}

@test "an exact word has precedence over a prefix, and a unique prefix is enough" {
	busy_pair
	link=$(link_on a 0)
	ctl a link te "$link"
	ctl a lin en "$link" && return 1 # "lin" could be link or linkgroup
	ctl a link en "$link"
	ctl a fail "${link%/*}" fr "$link"
	busy_end
}

# links_over HOST DEVICE: how many links use that device.
links_over() {
	json "$1" link --arg device "$2" '[.link[] | select(.rnic == $device)] | length'
}

has_links_over() {
	[ "$(links_over "$1" "$2")" = "$3" ]
}

@test "device drain: its links go in good order, nothing new comes on it; device enable brings them back" {
	busy_pair
	for host in a b; do
		run -0 ctl "$host" device drain soft:eth0
		[[ "$output" == *"nothing new comes on soft:eth0; its link goes"* ]]
		until_true 20 has_links_over "$host" soft:eth0 0
		ctl "$host" device | grep -q '^soft:eth0 *active, drained '
		shows "$host" device 'any(.name == "soft:eth0" and .drained) and any(.name == "soft:eth1" and (.drained | not))'
		# draining twice is the same as once
		ctl "$host" device drain soft:eth0
		steady_start "more_$host" b "$RUN" --require -- visit "$SERVER" 7100 --count 20
		steady_stop "more_$host"
		has_links_over "$host" soft:eth0 0
		ctl "$host" device enable soft:eth0
		until_true "$FAILOVER_PATIENCE" symmetric
	done
	# the last link of a group stays for its connections; new ones are TCP
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001 >"$HOSTS_DIR/echo.log" 2>&1
	until_true 10 tcp_listens a 7001
	ctl b device drain soft:eth0
	[[ $(ctl b doctor) == *"warning: RNIC soft:eth0 is drained"* ]]
	ctl b device drain soft:eth1
	[[ $(ctl b doctor) == *"problem: every active RNIC is drained, so new connections are plain TCP; "* ]]
	until_true 20 eval '[ "$(json b link ".link | length")" = 1 ]'
	run ! on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 10
	until_true 5 shows b connection 'any(.fallback_reason == "no-device")'
	ctl b device enable soft:eth0
	ctl b device enable soft:eth1
	until_true "$FAILOVER_PATIENCE" symmetric
	run -4 ctl b device drain soft:eth7
	run -2 ctl b device drain
	# without configured RNICs smcrd uses all that it finds, so none can be added
	run -1 ctl b device add soft:eth0
	[[ "$output" == *"smcrd uses those that it finds"* ]]
	busy_end
	shows a info '.connections.resets_total == 0'
	shows b info '.connections.resets_total == 0'
}

@test "device drain holds when the interface is renamed and the files are read again" {
	hosts_up 1500
	echo >"$HOSTS_DIR/a.conf"
	smcrd_start a
	ctl a device drain soft:eth1
	ip -n "$HOSTS_ID-a" link set eth1 name lan1
	until_true 5 shows a device 'any(.name == "soft:lan1" and .state == "active" and .drained)'
	ctl a config reload
	shows a device 'any(.name == "soft:lan1" and .drained)'
	# another interface that gets the old name is not drained
	ip -n "$HOSTS_ID-a" -batch - <<-EOF
	link add eth1 type veth peer name other
	link set other up
	addr add 10.78.0.1/24 dev eth1
	link set eth1 up
	EOF
	until_true 5 shows a device 'any(.name == "soft:eth1" and .state == "active" and (.drained | not))'
	ctl a device enable soft:lan1
	shows a device 'all(.drained | not)'
}

# carries HOST NUMBER: is smcrd there drained, and would so many connections end if it stopped?
carries() {
	[ "$(json "$1" info '.info.draining.connections')" = "$2" ]
}

@test "drain: old connections go on, new ones are TCP, whoever begins them; --wait ends with the last old one" {
	busy_pair
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001 >"$HOSTS_DIR/server_a.log" 2>&1
	start_on b "$RUN" "$PROGRAMS/echo_server" "$CLIENT" 7002 >"$HOSTS_DIR/server_b.log" 2>&1
	until_true 10 tcp_listens a 7001
	until_true 10 tcp_listens b 7002
	links=$(json a link '[.link[].number] | sort | join(" ")')
	shows a info '.draining == null'
	run -0 ctl a drain
	[[ "$output" == "new connections are plain TCP; 4 that smcrd carries go on"* ]]
	carries a 4
	ctl a info | grep -q '^draining .*4 of smcrd.s are left'
	# its listeners do not promise SMC-R, and its programs get TCP
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 10000
	on a "$RUN" "$PROGRAMS/echo_client" "$CLIENT" 7002 --bytes 10000
	until_true 5 shows b connection 'any(.fallback_reason == "peer-no-smc" and (.peer // "" | endswith(":7001")))'
	until_true 5 shows a connection '[.[] | select(.fallback_reason == "draining")] | length == 2'
	run ! on a "$RUN" --require "$PROGRAMS/echo_client" "$CLIENT" 7002 --bytes 1000
	run -1 smcrctl_on a -j check "$CLIENT" 7002
	jq -e '.check.reason == "draining"' <<<"$output"
	# a reload does not end it
	ctl a config reload
	ctl a -j drain --wait >"$HOSTS_DIR/waiting" &
	waiting=$!
	ctl a -j drain --wait >"$HOSTS_DIR/waiting_too" &
	waiting_too=$!
	carries a 4
	kill -0 "$waiting" "$waiting_too"
	busy_end
	# a command that waits is told when all connections have ended, and so is one that asks afterwards; the log tells
	# that once
	run -0 ctl a drain --wait
	[[ "$output" == "no connection is left that smcrd carries"* ]]
	wait "$waiting"
	wait "$waiting_too"
	jq -e '.result.connections == 0' "$HOSTS_DIR/waiting" "$HOSTS_DIR/waiting_too"
	shows a event '[.[] | select(.text | startswith("drain: no connection is left that smcrd carries"))] | length == 1'
	[ "$(json a link '[.link[].number] | sort | join(" ")')" = "$links" ]
	run -0 ctl a drain --off
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 10000
	on a "$RUN" --require "$PROGRAMS/echo_client" "$CLIENT" 7002 --bytes 10000
	shows a info '.draining == null and .connections.resets_total == 0'
}

@test "drain --off ends waits with a failure, and a wait can be interrupted" {
	busy_pair
	ctl a drain --wait >"$HOSTS_DIR/waiting" 2>&1 &
	waiting=$!
	until_true 10 carries a 4
	# an interrupt ends the wait, but not the draining
	run -124 timeout -s INT 1 "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" drain --wait
	carries a 4
	ctl a drain --off
	status=0
	wait "$waiting" || status=$?
	[ "$status" = 1 ]
	grep -q 'the drain was taken back (drain --off) while 4 connections of smcrd went on' "$HOSTS_DIR/waiting"
	run -2 ctl a drain --off --wait
	run -2 ctl a link --wait
	busy_end
}

@test "only root and the administrators' group may change things" {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	echo "admin_group = games" >"$HOSTS_DIR/a.conf"
	smcrd_start a
	smcrd_start b
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1
	until_true "$FAILOVER_PATIENCE" symmetric
	games=$(getent group games | awk -F: '{ print $3 }')
	as() {
		local groups=$1 host=$2
		shift 2
		setpriv --reuid 65534 --regid 65534 --groups "$groups" \
			"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/$host.sock" "$@"
	}
	link=$(link_on a 1)
	for command in "link delete $link" "link add 1" "link test $link" "link disable $link" \
		"link enable $link" "linkgroup delete 1" "failover 1" "device drain soft:eth0" drain; do
		# shellcheck disable=SC2086
		run -1 as 65534 a -j $command
		[[ "$output" == *'"code":"not-permitted"'* && "$output" == *games* ]]
		# host b has no administrators' group
		# shellcheck disable=SC2086
		run -1 as "$games" b -j $command
		[[ "$output" == *'"code":"not-permitted"'* && "$output" == *root* ]]
	done
	symmetric
	# every user may look
	as 65534 a link
	as "65534,$games" a link test "$link"
	until_true 5 grep -q 'link.test .*by uid 65534, pid' "$HOSTS_DIR/a.log"
	busy_end
}

@test "commands at the same time, and tools that end meanwhile, keep nobody waiting" {
	busy_pair
	link=$(link_on b 1)
	drop_roce b 1 iifname oifname
	pids=()
	for i in 1 2 3 4 5 6; do
		ctl b -j link test "$link" >"$HOSTS_DIR/test$i" 2>/dev/null &
		pids+=($!)
	done
	kill -KILL "${pids[0]}" "${pids[1]}"
	ctl b link test "$(link_on b 0)"
	ctl b info >/dev/null
	for i in 3 4 5 6; do
		status=0
		wait "${pids[i - 1]}" || status=$?
		[ "$status" = 1 ] || [ "$status" = 4 ]
		jq -e '.error.text | length > 10' "$HOSTS_DIR/test$i"
	done
	busy_end
}
