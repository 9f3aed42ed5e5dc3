#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrd as a service of systemd with all restrictions of its unit.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=tests/bats/systemd.bash
. "$BATS_TEST_DIRNAME/systemd.bash"

setup() {
	case $HOSTS_BUILD in
	*/san) skip "sanitizers need what the unit takes away" ;;
	esac
}

@test "the journal takes the catalog, and explains an event by its MESSAGE_ID" {
	root=$BATS_TEST_TMPDIR/root
	install_to "$root"
	mkdir -p "$root/var/lib/systemd/catalog"
	run -0 journalctl --root="$root" --update-catalog
	[ -z "$output" ]
	while read -r _ id; do
		journalctl --root="$root" --dump-catalog "$id" | grep -q '^Subject: '
	done < <(grep '^-- ' "$HOSTS_ROOT/systemd/smcrd.catalog")
}

@test "systemd finds nothing wrong with the unit, and little exposed" {
	unit=$BATS_TEST_TMPDIR/smcrd.service
	sed "s#@S*BINDIR@#$HOSTS_BUILD/bin#" "$HOSTS_ROOT/systemd/smcrd.service" >"$unit"
	run -0 systemd-analyze verify --man=no "$unit"
	[ -z "$output" ]
	# The threshold is in tenths. docs/privileges.md tells what remains.
	run -0 systemd-analyze security --offline=true --threshold=19 "$unit"
	# also with the drop-in for the software RNIC alone
	mkdir "$unit.d"
	cp "$HOSTS_ROOT/examples/smcrd-software-rnic.conf" "$unit.d/"
	run -0 env SYSTEMD_UNIT_PATH="$BATS_TEST_TMPDIR:" systemd-analyze verify --man=no "$unit"
	[ -z "$output" ]
	run -0 env SYSTEMD_UNIT_PATH="$BATS_TEST_TMPDIR:" systemd-analyze security --offline=true --threshold=19 "$unit"
}

main_pid() {
	inside systemctl show -P MainPID smcrd
}

is_active() {
	[ "$(inside systemctl show -P ActiveState smcrd)" = active ]
}

has_failed() {
	[ "$(inside systemctl show -P ActiveState smcrd)" = failed ]
}

# has_restarted PID: does the service run in another process than this one?
has_restarted() {
	local pid
	pid=$(main_pid) # 0: smcrd has ended
	[ "$pid" != 0 ] && [ "$pid" != "$1" ] && is_active
}

# feeds_watchdog: has smcrd fed systemd's watchdog since it started?
feeds_watchdog() {
	local told started
	told=$(inside systemctl show -P WatchdogTimestampMonotonic smcrd)
	started=$(inside systemctl show -P ActiveEnterTimestampMonotonic smcrd)
	[ "$told" -gt "$started" ]
}

service_log() {
	inside journalctl --no-pager -u smcrd
}

# no_call_refused: from now on a system call that the unit's filter forbids kills smcrd with SIGSYS.
no_call_refused() {
	inside mkdir -p /run/systemd/system/smcrd.service.d
	inside sh -c 'printf "[Service]\nSystemCallErrorNumber=kill\n" >/run/systemd/system/smcrd.service.d/kill.conf'
	inside systemctl daemon-reload
}

# status_field NAME: print this field of smcrd's /proc/PID/status
status_field() {
	inside grep "^$1:" "/proc/$(main_pid)/status" | cut -f2
}

# has_least_privileges: does smcrd have the user and the capabilities that the manual page names?
has_least_privileges() {
	local set
	[ "$(status_field Uid)" = "$(inside id -u smcrd)" ]
	[ "$(status_field Uid)" != 0 ]
	for set in CapPrm CapEff CapBnd; do
		[ "$(status_field "$set")" = 000000c000003000 ]
	done
	for set in CapInh CapAmb; do
		[ "$(status_field "$set")" = 0000000000000000 ]
	done
	[ "$(status_field NoNewPrivs)" = 1 ]
	[ "$(status_field Seccomp)" = 2 ]
}

# sees_rdma_devices_only: smcrd must see RDMA devices, also one that comes later, and no other device of the host.
sees_rdma_devices_only() {
	local dev
	dev=/proc/$(main_pid)/root/dev
	inside touch /dev/infiniband/uverbs9 /dev/other
	inside test -e "$dev/infiniband/uverbs9"
	[ "$(inside stat -c %a "$dev/infiniband")" = 755 ]
	run ! inside test -e "$dev/other"
	inside rm /dev/infiniband/uverbs9 /dev/other
}

# serves: host b, with an smcrd of its own, gets an answer over SMC-R from a program on the service's host.
serves() {
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000
}

teardown() {
	local status=0
	if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ -n "${SYSTEMD_PID:-}" ]; then
		service_log | tail -30
	fi
	[ -z "${HOSTS_ID:-}" ] || daemon_ends b || status=$?
	systemd_down || status=$?
	net_down
	return "$status"
}

@test "smcrd works as a service: notify, TCP option, transfer, stop, restart after a crash" {
	missing=$(systemd_missing)
	[ -z "$missing" ] || skip "$missing"
	hosts_up 1500
	install_to "$HOSTS_DIR/files"
	# copied, because systemd may mount something over the place of this clone
	cp "$PROGRAMS/echo_server" "$HOSTS_DIR/files/usr/bin"
	echo 'metrics_socket = /run/smcrd/metrics.sock' >>"$HOSTS_DIR/files/etc/smcrd/smcrd.conf"
	systemd_boot "$HOSTS_DIR/files"
	inside systemd-sysusers smcrd.conf
	no_call_refused
	bus_inside
	inside systemctl start smcrd
	is_active
	until_true 20 inside busctl get-property org.smcrd /org/smcrd org.smcrd.Manager1 Version
	until_true 10 manager_shows '2 RNICs, TCP option in use; 0 link groups, 0 connections over SMC-R'
	inside smcrctl -j info | jq -e '.info.tcp_option.available' >/dev/null
	until_true 5 feeds_watchdog
	has_least_privileges
	until_true 10 journal_has 'files \(restricted by Landlock\|not restricted: \(the kernel has no\|Landlock is\)\)'
	sees_rdma_devices_only
	inside smcr-run echo_server "$SERVER" 7001 >"$HOSTS_DIR/server.log" 2>&1 &
	until_true 20 tcp_listens a 7001
	smcrd_start b
	serves
	# smcrd's /proc does not show other users' processes, but the kernel tells their names
	inside smcrctl -j connection | jq -e 'any(.connection[]; .program == "echo_server")' >/dev/null
	[[ "$(inside curl -sS --unix-socket /run/smcrd/metrics.sock http://smcrd/metrics)" == *smcrd_rnic_up*'# EOF' ]]
	[ "$(inside smcrctl -j linkgroup | jq '.linkgroup | length')" = 1 ]
	inside smcrctl link test 1/1
	inside smcrctl capture --seconds 0.5 -w /run/test.pcap 2>&1 | grep -Eq '^smcrctl: [0-9]+ messages? captured, 0 lost$'
	reloads

	# an orderly stop: the peer is told, and nothing is left
	inside systemctl stop smcrd
	[ "$(inside systemctl show -P Result smcrd)" = success ]
	until_true 5 shows b linkgroup 'length == 0'
	run ! inside test -e /run/smcrd/smcrd.sock

	# a crash
	inside systemctl start smcrd
	until_true 10 serves # the program's listener has to be claimed again
	pid=$(main_pid)
	inside kill -KILL "$pid"
	until_true 10 has_restarted "$pid"
	[ "$(inside systemctl show -P NRestarts smcrd)" = 1 ]
	until_true 10 serves

	service_log >"$HOSTS_DIR/service.log"
	[ "$(grep -ciE 'denied|not permitted' "$HOSTS_DIR/service.log")" = 0 ]
}

# bus_inside: start a system bus as Debian configures it, with the policy that smcrd installs.
bus_inside() {
	inside mkdir -p /run/dbus
	inside systemd-run -q --unit=test-bus dbus-daemon --system --nofork --nopidfile
	until_true 20 inside busctl list --no-pager
}

# reloads: systemctl reload must apply the files. If the files have errors it must fail, with the errors in the journal.
reloads() {
	local pid conf=/etc/smcrd/smcrd.conf.d/10-test.conf
	pid=$(main_pid)
	inside mkdir -p /etc/smcrd/smcrd.conf.d
	inside sh -c "echo 'memory = 64M' >$conf"
	inside systemctl reload smcrd
	[ "$(inside smcrctl -j config | jq -r '.config[] | select(.key == "memory") | "\(.value) \(.file)"')" = "64M $conf" ]
	inside sh -c "echo 'memory = lots' >$conf"
	run ! inside systemctl reload smcrd
	is_active
	until_true 10 journal_has "$conf:1: memory: "
	inside rm "$conf"
	inside systemctl reload smcrd
	[ "$(main_pid)" = "$pid" ]
	until_true 10 manager_shows '2 RNICs, TCP option in use; 1 link group, '
}

journal_has() {
	service_log | grep -q -e "$1"
}

manager_shows() {
	[[ "$(inside systemctl show -P StatusText smcrd)" == "$1"* ]]
}

# capabilities PID: print the effective capabilities without CAP_IPC_LOCK, which is needed in containers
capabilities() {
	local set
	set=$(grep ^CapEff: "/proc/$1/status" | cut -f2)
	printf '%x\n' $((0x$set & ~0x4000))
}

@test "beside another smcrd the service ends with status 3, is not started again, and harms nobody" {
	missing=$(systemd_missing)
	[ -z "$missing" ] || skip "$missing"
	hosts_up 1500
	install_to "$HOSTS_DIR/files"
	cp "$PROGRAMS/echo_server" "$HOSTS_DIR/files/usr/bin"
	systemd_boot "$HOSTS_DIR/files"
	inside systemd-sysusers smcrd.conf
	no_call_refused
	inside systemd-run -q --unit=stray smcrd --foreground --socket /run/stray.sock
	until_true 20 inside smcrctl --socket /run/stray.sock info
	inside env SMCRD_SOCKET=/run/stray.sock smcr-run echo_server "$SERVER" 7001 >"$HOSTS_DIR/server.log" 2>&1 &
	until_true 20 tcp_listens a 7001
	smcrd_start b
	serves
	run ! inside systemctl start smcrd
	has_failed
	[ "$(inside systemctl show -P ExecMainStatus smcrd)" = 3 ]
	[ "$(inside systemctl show -P NRestarts smcrd)" = 0 ]
	until_true 10 journal_has 'another smcrd serves this network namespace: process [0-9]*, socket /run/stray.sock; '
	serves
	inside systemctl stop stray
	inside systemctl start smcrd
	is_active
	# a restart ends the old process before the new one asks
	for _ in 1 2 3; do inside systemctl restart smcrd; done
	is_active
	[ "$(inside systemctl show -P NRestarts smcrd)" = 0 ]
}

@test "with the drop-in for the software RNIC alone the service has no device, and serves" {
	missing=$(systemd_missing)
	[ -z "$missing" ] || skip "$missing"
	hosts_up 1500
	install_to "$HOSTS_DIR/files"
	cp "$PROGRAMS/echo_server" "$HOSTS_DIR/files/usr/bin"
	install -D -m 644 -t "$HOSTS_DIR/files/etc/systemd/system/smcrd.service.d" \
		"$HOSTS_DIR/files/usr/share/doc/smcrd/examples/smcrd-software-rnic.conf"
	systemd_boot "$HOSTS_DIR/files"
	inside systemd-sysusers smcrd.conf
	no_call_refused
	inside systemctl start smcrd
	until_true 10 manager_shows '2 RNICs, TCP option in use; 0 link groups, 0 connections over SMC-R'
	run ! inside test -e "/proc/$(main_pid)/root/dev/infiniband"
	inside smcr-run echo_server "$SERVER" 7001 >"$HOSTS_DIR/server.log" 2>&1 &
	until_true 20 tcp_listens a 7001
	smcrd_start b
	serves
}

@test "root's smcrd outside a service gives up what it does not need" {
	hosts_up 1500
	smcrd_start a
	[ "$(capabilities "$SMCRD_PID_a")" = c000003000 ]
	grep -qx 'NoNewPrivs:.1' "/proc/$SMCRD_PID_a/status"
	shows a info '.tcp_option.available'
	kill "$SMCRD_PID_a"
	wait "$SMCRD_PID_a"
	# the directory belongs to another user, as after a run of the service
	mkdir "$HOSTS_DIR/theirs"
	chown 12345:12345 "$HOSTS_DIR/theirs"
	start_on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" \
		--socket "$HOSTS_DIR/theirs/smcrd.sock"
	SMCRD_PID_a=$!
	until_true 10 on a env SMCRD_SOCKET="$HOSTS_DIR/theirs/smcrd.sock" "$HOSTS_BUILD/bin/smcrctl" info
	[ "$(capabilities "$SMCRD_PID_a")" = c000003002 ]
	kill "$SMCRD_PID_a"
	wait "$SMCRD_PID_a"
	[ ! -e "$HOSTS_DIR/theirs/smcrd.sock" ]
}

@test "smcrd gives up files that are not its own, and a reload tells what takes a restart" {
	hosts_up 1500
	smcrd_start a
	grep -q 'files restricted by Landlock (ABI [0-9]*)$' "$HOSTS_DIR/a.log" ||
		skip "$(grep -o 'files not restricted: .*' "$HOSTS_DIR/a.log")"
	# A symbolic link to a directory that had no part of the configuration when smcrd started.
	mkdir "$HOSTS_DIR/smcrd.conf.d"
	echo 'memory = 64M' >"$BATS_TEST_TMPDIR/elsewhere.conf"
	ln -s "$BATS_TEST_TMPDIR/elsewhere.conf" "$HOSTS_DIR/smcrd.conf.d/10.conf"
	run -1 smcrctl_on a config reload
	[[ "$output" == *"smcrd.conf.d/10.conf: Permission denied"* ]]
	# A new file in smcrd's own directory is read.
	rm "$HOSTS_DIR/smcrd.conf.d/10.conf"
	cp "$BATS_TEST_TMPDIR/elsewhere.conf" "$HOSTS_DIR/smcrd.conf.d/20.conf"
	run -0 smcrctl_on a config reload
	[[ "$output" == *memory*64M* ]]
	# A socket in a directory that smcrd did not use at its start.
	mkdir "$BATS_TEST_TMPDIR/metrics"
	echo "metrics_socket = $BATS_TEST_TMPDIR/metrics/sock" >"$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a config reload
	[[ "$output" == *"Not yet:"*"Permission denied"*"restart it"* ]]
	ln -s "$BATS_TEST_TMPDIR/elsewhere.conf" "$HOSTS_DIR/smcrd.conf.d/10.conf"
	daemon_ends a || false
	smcrd_start a
	on a curl -sS --max-time 10 --unix-socket "$BATS_TEST_TMPDIR/metrics/sock" http://smcrd/metrics | grep -q smcrd_rnic_up
	run -0 smcrctl_on a config reload
}

# told N: has smcrd fed the watchdog so often?
told() {
	[ "$(grep -cx WATCHDOG=1 "$HOSTS_DIR/told")" -ge "$1" ]
}

@test "a service manager that watches is told again and again that smcrd moves" {
	hosts_up 1500
	hear_datagrams a notify told
	NOTIFY_SOCKET=$HOSTS_DIR/notify WATCHDOG_USEC=2000000 smcrd_start a
	until_true 5 grep -qx READY=1 "$HOSTS_DIR/told"
	until_true 20 told 3
}

@test "a service that cannot start fails and says why" {
	missing=$(systemd_missing)
	[ -z "$missing" ] || skip "$missing"
	hosts_up 1500
	install_to "$HOSTS_DIR/files"
	echo "max_links = 99" >>"$HOSTS_DIR/files/etc/smcrd/smcrd.conf"
	systemd_boot "$HOSTS_DIR/files"
	inside systemd-sysusers smcrd.conf
	run ! inside systemctl start smcrd
	until_true 20 has_failed
	until_true 10 journal_has '/etc/smcrd/smcrd.conf:[0-9]*: max_links:'
}
