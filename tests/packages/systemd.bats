#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Debian packages of build/deb under systemd: they install, upgrade and remove the service. Host a of
# scripts/hosts.bash runs systemd over a copy of this machine's files, host b the smcrd of build/bin.
bats_require_minimum_version 1.5.0

HOSTS_PATIENCE=${HOSTS_PATIENCE:-10}
# shellcheck source=scripts/hosts.bash
. "$BATS_TEST_DIRNAME/../../scripts/hosts.bash"
# shellcheck source=tests/bats/systemd.bash
. "$BATS_TEST_DIRNAME/../bats/systemd.bash"
# shellcheck source=tests/packages/debs.bash
. "$BATS_TEST_DIRNAME/debs.bash"

PROGRAMS=$HOSTS_BUILD/tests/programs
SERVER=10.77.0.1 # host a

teardown() {
	local status=0
	if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ -n "${SYSTEMD_PID:-}" ]; then
		inside journalctl --no-pager -u smcrd | tail -30
	fi
	if [ -n "${SMCRD_PID_b:-}" ]; then
		kill "$SMCRD_PID_b" 2>/dev/null && wait "$SMCRD_PID_b" || status=$?
	fi
	systemd_down || status=$?
	hosts_down
	return "$status"
}

main_pid() {
	inside systemctl show -P MainPID smcrd
}

is_active() {
	[ "$(inside systemctl show -P ActiveState smcrd)" = active ]
}

# server_on PORT: start a server on host a, under the smcr-run that is installed there
server_on() {
	inside smcr-run /usr/bin/echo_server "$SERVER" "$1" >"$HOSTS_DIR/server-$1.log" 2>&1 &
	until_true 20 tcp_listens a "$1"
}

# asks PORT: a program on host b must get its answers over SMC-R
asks() {
	on b "$HOSTS_BUILD/bin/smcr-run" --require "$PROGRAMS/echo_client" "$SERVER" "$1" --bytes 1000000
}

# install_there FILE..: install packages on host a with dpkg
install_there() {
	inside dpkg --install --force-confold "${@/#*\///root/debs/}"
}

@test "installed the service runs, upgraded it goes on with its connections, purged it is gone" {
	missing=$(systemd_missing)
	[ -z "$missing" ] || skip "$missing"
	hosts_up 1500
	old=("$(deb smcrd)" "$(deb smcr-run)")
	new=("$(newer smcrd)" "$(newer smcr-run)")
	mkdir -p "$HOSTS_DIR/files/root/debs" "$HOSTS_DIR/files/usr/bin"
	cp "${old[@]}" "${new[@]}" "$HOSTS_DIR/files/root/debs"
	cp "$PROGRAMS/echo_server" "$HOSTS_DIR/files/usr/bin"
	systemd_boot "$HOSTS_DIR/files"
	inside rm -f /usr/sbin/policy-rc.d # which machines made from an image may have

	install_there "${old[@]}"
	is_active
	inside systemctl is-enabled smcrd
	[ "$(inside systemctl show -P StatusText smcrd)" = "2 RNICs, TCP option in use; 0 link groups, 0 connections over SMC-R" ]
	[ "$(inside systemctl show -P User smcrd)" = smcrd ]
	server_on 7001
	smcrd_start b
	asks 7001
	inside smcrctl -j linkgroup | jq -e '.linkgroup | length == 1' >/dev/null

	# An upgrade: the same process, the same link group, and the new library with the old daemon.
	pid=$(main_pid)
	run -0 install_there "${new[@]}"
	[[ $output == *"smcrd: the service goes on with the program from before"* ]]
	[ "$(main_pid)" = "$pid" ]
	is_active
	[ "$(inside systemctl show -P NeedDaemonReload smcrd)" = no ]
	asks 7001
	server_on 7002
	asks 7002
	inside smcrctl -j linkgroup | jq -e '.linkgroup | length == 1' >/dev/null
	inside systemctl reload smcrd
	# a service that the operator has stopped and disabled stays so after an upgrade
	inside systemctl restart smcrd
	[ "$(main_pid)" != "$pid" ]
	run -0 install_there "${new[@]}"
	[[ $output == *"goes on with the program from before"* ]] # the same package again installs a new file
	inside systemctl disable --now smcrd
	install_there "${new[@]}"
	run ! is_active

	inside systemctl enable --now smcrd
	inside dpkg --remove smcrd
	run ! is_active
	inside dpkg --purge smcrd smcr-run
	run ! inside getent passwd smcrd
	[ -z "$(inside sh -c 'ls -d /etc/smcrd /run/smcrd /etc/systemd/system/*/smcrd.service 2>/dev/null')" ]
}
