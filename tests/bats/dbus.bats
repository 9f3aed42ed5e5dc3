#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrd on the system bus: a real dbus-daemon with the policy that is installed, and busctl.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"
# shellcheck source=scripts/bus.bash
. "$BATS_TEST_DIRNAME/../../scripts/bus.bash"

# bus_as_nobody ARGUMENTS..
bus_as_nobody() {
	on a setpriv --reuid 65534 --regid 65534 --clear-groups busctl --system "$@"
}

# property PATH INTERFACE NAME: print the property's type and value
property() {
	bus get-property org.smcrd "/org/smcrd$1" "org.smcrd.$2" "$3"
}

lacks_name() {
	! bus_has_smcrd
}

# bus_call PATH INTERFACE METHOD ARGUMENTS..
bus_call() {
	bus call org.smcrd "/org/smcrd$1" "org.smcrd.$2" "${@:3}"
}

bus_pair() {
	local host
	hosts_up 1500
	bus_start
	for host in a b; do # the numbers of links must not depend on how busy the machine is
		echo 'link_timeout_milliseconds = 4000' >"$HOSTS_DIR/$host.conf"
	done
	smcrd_start a
	echo 'dbus = no' >>"$HOSTS_DIR/b.conf" # else both daemons would want the name on one bus
	smcrd_start b
	until_true 20 bus_has_smcrd
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --pingpong 2
	until_true "$FAILOVER_PATIENCE" symmetric
}

bus_pair_end() {
	steady_stop client
	steady_stop server
	bus_stop
}

# command_is_heard: give a command; succeeds when the monitor has seen a signal about one.
command_is_heard() {
	bus_call "" Manager1 TestLink uy 1 1
	grep -q '"member":"Command"' "$HOSTS_DIR/signals"
}

# has_heard MEMBER FILTER: has there been a signal of this name for which the jq filter is true?
has_heard() {
	jq -se --arg member "$1" "any(.[] | select(.member == \$member); $2)" "$HOSTS_DIR/signals" >/dev/null
}

link_is() {
	[ "$(property /link/1_1 Link1 "$1")" = "$2" ]
}

@test "objects, properties, methods and signals, and nobody changes anything" {
	bus_pair
	run -0 bus tree org.smcrd
	[[ "$output" == */org/smcrd/device/soft_3aeth0* && "$output" == */org/smcrd/linkgroup/1* ]]
	[[ "$output" == */org/smcrd/link/1_1* && "$output" == */org/smcrd/link/1_2* ]]
	[ "$(property "" Manager1 EngineLinkgroups)" = 'u 1' ]
	[ "$(property "" Manager1 TcpOptionAvailable)" = 'b true' ]
	[ "$(property /device/soft_3aeth0 Device1 State)" = 's "active"' ]
	[ "$(property /linkgroup/1 Linkgroup1 Peer)" = "s \"$CLIENT\"" ]
	[ "$(property /linkgroup/1 Linkgroup1 Role)" = 's "server"' ]
	link_is State 's "active"'
	run -0 bus introspect org.smcrd /org/smcrd/link/1_1
	[[ "$output" == *.Disable*method* && "$output" == *.TxBytes*property*t* ]]
	[ "$(bus -j call org.smcrd /org/smcrd org.smcrd.Manager1 ShowConnection 'a{sv}' 1 mode s smcr | jq '.data[0] | length')" = 2 ]

	# Only root may change things; all users may look.
	start_on a busctl --system monitor --json=short --match "sender='org.smcrd',type='signal'" >"$HOSTS_DIR/signals"
	monitor=$!
	until_true 10 command_is_heard
	bus_call /link/1_1 Link1 Disable
	link_is Disabled 'b true'
	until_true 20 has_heard PropertiesChanged '.path == "/org/smcrd/link/1_1" and .payload.data[1].Disabled.data'
	bus_call "" Manager1 EnableLink uy 1 1
	link_is Disabled 'b false'
	run -1 bus_as_nobody call org.smcrd /org/smcrd/link/1_1 org.smcrd.Link1 Disable
	[[ "$output" == *"this is for root"* ]]
	link_is Disabled 'b false'
	[ "$(bus_as_nobody get-property org.smcrd /org/smcrd/link/1_1 org.smcrd.Link1 State)" = 's "active"' ]
	# Names of programs and numbers of queue pairs are not shown to other users.
	bus_as_nobody -j call org.smcrd /org/smcrd org.smcrd.Manager1 ShowLink 'a{sv}' 0 |
		jq -e '.data[0] | length == 2 and all(has("local_qpn") | not)'
	bus -j call org.smcrd /org/smcrd org.smcrd.Manager1 ShowLink 'a{sv}' 0 | jq -e '.data[0] | all(has("local_qpn"))'
	run -1 bus_call "" Manager1 DeleteLinkgroup u 77
	[[ "$output" == *"there is no link group 77"* ]]
	# smcrd finds out that a caller is in the administrators' group, also among several groups.
	group=$(getent group nogroup | command cut -d: -f3)
	ctl_conf_admin
	on a setpriv --reuid 65534 --regid 12345 --groups "$group" busctl --system call org.smcrd /org/smcrd \
		org.smcrd.Manager1 TestLink uy 1 1

	# A signal tells that a link failed, and which one.
	bus_call /link/1_1 Link1 Delete 'a{sv}' 1 disorderly b true
	until_true 20 grep -qE '"member":"Link(Deleted|Failed)"' "$HOSTS_DIR/signals"
	grep -E '"member":"Link(Deleted|Failed)"' "$HOSTS_DIR/signals" | jq -se '
		.[0].payload.data[3].object.data == "/org/smcrd/link/1_1"'
	until_true 20 has_heard PropertiesChanged '.path == "/org/smcrd" and .payload.data[1].EngineLinks.data == 1'
	until_true 20 has_heard InterfacesRemoved '.payload.data[0] == "/org/smcrd/link/1_1"'
	# to the other host it is a lost link, which that host may have brought back already
	run bus_call /linkgroup/1 Linkgroup1 AddLink
	[ "$status" = 0 ] || [[ "$output" == *"has a link already"* ]]
	until_true "$FAILOVER_PATIENCE" symmetric
	until_true 20 has_heard InterfacesAdded \
		'.payload.data[1]["org.smcrd.Link1"].Linkgroup.data == 1 and .payload.data[0] != "/org/smcrd/link/1_1"'
	bus -j call org.smcrd /org/smcrd org.freedesktop.DBus.ObjectManager GetManagedObjects | jq -e '.data[0] |
		([keys[] | select(startswith("/org/smcrd/link/1_"))] | length == 2) and
		.["/org/smcrd/linkgroup/1"]["org.smcrd.Linkgroup1"].Links.data == 2 and
		.["/org/smcrd/device/soft_3aeth0"]["org.smcrd.Device1"].State.data == "active"'
	# Properties of the manager that change seldom are signalled with their values; counters are not.
	bus_call "" Manager1 BeginDrain 'a{sv}' 0
	until_true 20 has_heard PropertiesChanged '.path == "/org/smcrd" and .payload.data[1].Draining.data.connections.data == 2'
	bus_call "" Manager1 EndDrain
	until_true 20 has_heard PropertiesChanged '.path == "/org/smcrd" and .payload.data[1].Draining.data == {}'
	smcrctl_on a config set memory 64M
	until_true 20 has_heard PropertiesChanged '.payload.data[1].EngineMemoryBudgetBytes.data == 67108864'
	run ! has_heard PropertiesChanged '.payload.data[1] | has("EngineMemoryUsedBytes") or has("UptimeMs")'
	kill "$monitor"
	wait "$monitor" || true
	bus_pair_end
}

ctl_conf_admin() {
	echo 'admin_group = nogroup' >>"$HOSTS_DIR/a.conf"
	smcrctl_on a config reload
}

@test "smcrd comes back to a bus that went away, and the programs' bytes never notice" {
	bus_pair
	bus_stop
	until_true 20 grep -q 'the system bus has gone' "$HOSTS_DIR/a.log"
	shows a connection 'any(.mode == "smcr")'
	bus_start
	until_true 90 bus_has_smcrd
	# A bus that stands still delays neither smcrd's other clients nor connections.
	kill -STOP "$BUS_PID"
	for _ in 1 2 3; do
		smcrctl_on a link test 1/2
	done
	kill -CONT "$BUS_PID"
	until_true 90 bus_has_smcrd
	echo 'dbus = no' >"$HOSTS_DIR/a.conf"
	smcrctl_on a config reload
	until_true 10 lacks_name
	smcrctl_on a config set dbus yes
	until_true 20 bus_has_smcrd
	bus_pair_end
}

@test "without a system bus the log says so once, and smcrd serves" {
	hosts_up 1500
	export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$HOSTS_DIR/nothing
	smcrd_start a
	shows a info '.version != null'
	until_true 10 told_once
	smcrctl_on a config reload # smcrd tries the bus again
	told_once
}

told_once() {
	[ "$(grep -c 'the system bus cannot be reached' "$HOSTS_DIR/a.log")" = 1 ]
}

# doctor_says LEVEL TEXT: does doctor say this about the system bus?
doctor_says() {
	smcrctl_on a -j doctor | jq -e --arg level "$1" --arg text "$2" \
		'.doctor | any(.check == "system-bus" and .level == $level and (.text + "; " + .advice | contains($text)))'
}

@test "doctor says what a bus without smcrd's policy needs, and smcrd takes its name when the policy is there" {
	hosts_up 1500
	BUS_POLICY='' bus_start
	smcrd_start a
	until_true 20 doctor_says warning 'refuses smcrd the name org.smcrd'
	doctor_says warning '/etc/dbus-1/system.d'
	bus_config >"$HOSTS_DIR/bus.conf"
	kill -HUP "$BUS_PID"
	until_true 90 bus_has_smcrd
	run ! doctor_says warning ''
	# A smcrd in another network namespace has to wait for the name.
	smcrd_start b
	b_waits() {
		smcrctl_on b -j doctor | jq -e '.doctor | any(.check == "system-bus" and .level == "warning" and
			(.text | contains("another program has the name org.smcrd")))'
	}
	until_true 20 b_waits
	bus_stop
}

@test "users who flood the bus cost the data of programs little, and root is answered" {
	bus_pair
	flooders=()
	for _ in 1 2 3 4; do
		start_on a setpriv --reuid 65534 --regid 65534 --clear-groups bash -c '
			while :; do busctl --system call org.smcrd /org/smcrd org.smcrd.Manager1 ShowConnection "a{sv}" 0; done' \
			>/dev/null 2>&1
		flooders+=($!)
	done
	for _ in 1 2 3 4 5; do
		bus_call "" Manager1 TestLink uy 1 1
		smcrctl_on a link test 1/2
	done
	shows a connection 'all(.mode == "smcr")'
	kill "${flooders[@]}"
	wait "${flooders[@]}" || true
	bus_pair_end
}
