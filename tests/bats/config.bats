#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The configuration: checked before smcrd starts, read again while connections check every byte, and shown with the
# origin of each value. Also what the user sees who starts smcrd in the background. Host a is the server of the link
# group, host b the client.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

# conf HOST LINE..: write the configuration file of a host.
conf() {
	local host=$1
	shift
	printf '%s\n' "$@" >"$HOSTS_DIR/$host.conf"
}

# links_of HOST: print its links, such as "1/1 1/2"
links_of() {
	json "$1" link '[.link[] | "\(.linkgroup)/\(.number)"] | sort | join(" ")'
}

# setting HOST KEY: print the key's values and their origins.
setting() {
	# shellcheck disable=SC2016
	json "$1" config --arg key "$2" '[.config[] | select(.key == $key) |
		"\(.value) \(.origin)\(if .line then ":\(.line)" else "" end)"] | join(", ")'
}

has_setting() {
	[ "$(setting "$1" "$2")" = "$3" ]
}

# gone: does no smcrd answer on host a?
gone() {
	! answers a
}

# told_more_often N: has the log told more than N times that the third line is wrong?
told_more_often() {
	[ "$(grep -c 'a.conf:3: memory: ' "$HOSTS_DIR/a.log")" -gt "$1" ]
}

log_says() {
	grep -q -e "$2" "$HOSTS_DIR/$1.log"
}

@test "--check-config says OK, or everything that is wrong" {
	file=$BATS_TEST_TMPDIR/smcrd.conf
	printf 'max_links = 3\ndeny = port 22\n' >"$file"
	run -0 "$HOSTS_BUILD/bin/smcrd" --config "$file" --check-config
	[ "$output" = OK ]
	printf 'max_links = 99\n\nmemory = lots\nwhat\n' >"$file"
	mkdir "$BATS_TEST_TMPDIR/smcrd.conf.d"
	printf 'no_such_key = 1\n' >"$BATS_TEST_TMPDIR/smcrd.conf.d/50-more.conf"
	run -1 "$HOSTS_BUILD/bin/smcrd" --config "$file" --check-config --rnic eth0
	[ "${#lines[@]}" = 5 ]
	[[ "$output" == *"$file:1: max_links: "*"$file:3: memory: "*"$file:4: this is not"* ]]
	[[ "$output" == *"50-more.conf:1: no_such_key: "*"--rnic: 'eth0' is not"* ]]
	# the same when smcrd is started
	run -1 "$HOSTS_BUILD/bin/smcrd" --foreground --config "$file" --rnic eth0
	[ "${#lines[@]}" = 5 ]
	run -1 "$HOSTS_BUILD/bin/smcrd" --config "$BATS_TEST_TMPDIR/none.conf" --check-config
	[[ "$output" == *"none.conf: No such file"* ]]
	rm -r "$BATS_TEST_TMPDIR/smcrd.conf.d"
	# no Unix socket can be there, and the start would find that out
	local long
	long=/$(printf 'x%.0s' {1..107})
	printf 'socket = %s\nmetrics_socket = %s\n= 3\n' "$long" "$long" >"$file"
	run -1 "$HOSTS_BUILD/bin/smcrd" --config "$file" --check-config
	[ "${#lines[@]}" = 3 ]
	[[ "${lines[0]}" == *"$file:1: socket: '/xxx"*"is too long: a socket path has at most 107 bytes" ]]
	[[ "${lines[1]}" == *"$file:2: metrics_socket: '/xxx"*"is too long"* ]]
	[[ "${lines[2]}" == *"$file:3: this is not 'key = value'" ]]
	printf 'socket = %s\n' "${long%x}" >"$file"
	run -0 "$HOSTS_BUILD/bin/smcrd" --config "$file" --check-config
}

@test "where smcrd may open too few files it does not start, and says what to raise" {
	file=$BATS_TEST_TMPDIR/smcrd.conf
	: >"$file"
	run -1 prlimit --nofile=9 "$HOSTS_BUILD/bin/smcrd" --foreground --config "$file" --socket "$BATS_TEST_TMPDIR/sock"
	[ "${#lines[@]}" = 1 ]
	[[ "$output" == *"may open 9 files, which is too few"*"LimitNOFILE="* ]]
	run -1 prlimit --nofile=127 "$HOSTS_BUILD/bin/smcrd" --foreground --config "$file" --socket "$BATS_TEST_TMPDIR/sock"
	[[ "$output" == *"may open 127 files, which is too few: let it open 128 or more"* ]]
}

@test "--check-config tells root which files the service's user cannot read" {
	file=$BATS_TEST_TMPDIR/smcrd.conf
	# another list of users, in a separate mount namespace
	cp /etc/passwd "$BATS_TEST_TMPDIR/passwd"
	grep -q '^smcrd:' /etc/passwd || echo 'smcrd:x:64999:64999::/:/usr/sbin/nologin' >>"$BATS_TEST_TMPDIR/passwd"
	echo 'max_links = 3' >"$file"
	chmod 644 "$file"
	check() {
		# shellcheck disable=SC2016
		unshare --mount sh -c 'mount --bind "$1" /etc/passwd && exec "$2" --config "$3" --check-config' - \
			"$BATS_TEST_TMPDIR/passwd" "$HOSTS_BUILD/bin/smcrd" "$file"
	}
	path=$BATS_TEST_TMPDIR # users must be able to reach the file
	while [ "$path" != / ]; do
		chmod o+x "$path"
		path=$(dirname "$path")
	done
	run -0 check
	[ "$output" = OK ]
	chmod 600 "$file"
	run -0 check
	[[ "$output" == *"warning: $file: the user smcrd, as which the service runs, cannot read it"*OK* ]]
	# an unreadable directory is named once, not each file in it
	mkdir "$file.d"
	echo 'max_links = 4' >"$file.d/50-more.conf"
	chmod 700 "$BATS_TEST_TMPDIR"
	run -0 check
	[ "${#lines[@]}" = 2 ]
	[[ "$output" == *"warning: $BATS_TEST_TMPDIR: the user smcrd, as which the service runs, cannot enter it"*OK* ]]
}

@test "a reload under traffic changes what it can, and loses and resets nothing" {
	busy_pair
	links=$(links_of a)
	groups=$(json a linkgroup '.linkgroup | length')
	peer_id=$(json a info .info.peer_id)
	ctl a ueid add MINE
	ctl a policy add deny port 9
	conf a 'log_level = debug' 'memory = 64M' 'element_size = 64K' 'max_links = 2' 'dialect = deployed' \
		'versions = 1' 'ueid = A' 'link_timeout_milliseconds = 5000' 'last_link_timeout_milliseconds = 5000' \
		'test_link_interval_seconds = 1' 'busy_poll_microseconds = 0' 'shared_memory = no' \
		'linkgroup_idle_seconds = 30' 'rmb_idle_seconds = 5' 'connect_wait_milliseconds = 20' \
		'skip_seconds = 5' 'short_connection_rate = 0' 'tcp_keepalive_min_seconds = 3' \
		'deny = port 7999' 'capable_subnet = 10.9.0.0/16' 'max_connections_per_user = 500' \
		'max_sessions_per_user = 600' 'admin_group = root' 'egress_guard = no'
	run -0 ctl a config reload
	[[ "$output" == *"log_level: info -> debug"* ]]
	[[ "$output" == *"egress_guard: yes -> no"* ]]
	[[ "$output" == *"memory: 1G -> 64M"* ]]
	[[ "$output" == *"deny: now also port 7999"* ]]
	[[ "$output" != *"Not yet"* ]]
	has_setting a memory '64M file:2'
	has_setting a ueid 'A file:7, MINE run-time'
	has_setting a deny 'port 9 run-time, port 7999 file:19'
	has_setting a add_link_retry_seconds '2 default'
	shows a info '.engine.memory_budget_bytes == 67108864'
	log_says a 'log_level: info -> debug'
	run -0 ctl a config reload
	[ "$output" = "No value has changed." ]
	ctl a event >"$HOSTS_DIR/events"
	grep -q 'config.reload' "$HOSTS_DIR/events"
	[ "$(links_of a)" = "$links" ]
	[ "$(json a linkgroup '.linkgroup | length')" = "$groups" ]
	shows a info ".peer_id == \"$peer_id\""
	# back to the defaults, by a signal
	conf a 'link_timeout_milliseconds = 4000'
	kill -HUP "$SMCRD_PID_a"
	until_true 5 has_setting a memory '1G default'
	has_setting a ueid 'MINE run-time'
	has_setting a deny 'port 9 run-time'
	[ "$(links_of a)" = "$links" ]
	busy_end
	shows a info '.connections.resets_total == 0'
	proves PEER-3
}

@test "reloads without end while connections come and go: every byte arrives" {
	busy_pair
	steady_start visitor b "$RUN" --require -- visit "$SERVER" 7100 --count 100
	for _ in $(seq 20); do
		for host in a b; do
			conf "$host" 'memory = 256M' 'busy_poll_microseconds = 0' 'shared_memory = no' 'element_size = 64K' \
				'test_link_interval_seconds = 1' 'rmb_idle_seconds = 1' 'link_timeout_milliseconds = 500' \
				'max_connections_per_user = 5000' 'deny = port 9' 'ueid = A' 'log_level = debug'
			ctl "$host" config reload >/dev/null
		done
		for host in a b; do
			conf "$host" ''
			kill -HUP "$(json "$host" info .info.pid)"
		done
	done
	steady_stop visitor
	busy_end
	for host in a b; do
		shows "$host" info '.connections.resets_total == 0'
		until_true 5 has_setting "$host" memory '1G default'
	done
}

# reads_files: is the daemon of host a reading its files now?
reads_files() {
	[[ "$(readlink "/proc/$SMCRD_PID_a/fd/"* 2>/dev/null)" == *"$HOSTS_DIR/"*.conf* ]]
}

reloaded() {
	[ "$(json a event '[.event[] | select(.text | contains("config.reload by a signal"))] | length')" = "$1" ]
}

@test "a hangup while smcrd starts or stops ends nothing, and is no error" {
	hosts_up 1500
	# so many lines, in files of 1 MiB at most, that the start takes a while
	local n
	mkdir "$HOSTS_DIR/smcrd.conf.d"
	yes '#' | head -n 500000 >"$HOSTS_DIR/a.conf" || true
	for ((n = 100; n < 140; n++)); do ln "$HOSTS_DIR/a.conf" "$HOSTS_DIR/smcrd.conf.d/$n.conf"; done
	start_on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock" \
		>>"$HOSTS_DIR/a.log" 2>&1
	SMCRD_PID_a=$!
	until_true 10 eval 'reads_files || answers a'
	kill -HUP "$SMCRD_PID_a"
	until_true 10 answers a
	until_true 10 reloaded 1
	# SIGTERM comes while the daemon reads the files again
	kill -HUP "$SMCRD_PID_a"
	until_true 10 eval 'reads_files || reloaded 2'
	kill -TERM "$SMCRD_PID_a"
	kill -HUP "$SMCRD_PID_a" || true
	until_true 10 gone
	run ! grep -e 'error: ' -e 'the configuration has' "$HOSTS_DIR/a.log"
}

@test "a pipe among the files is an error, and later reloads work" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	smcrd_start a
	mkdir "$HOSTS_DIR/smcrd.conf.d"
	mkfifo "$HOSTS_DIR/smcrd.conf.d/50-pipe.conf"
	run -1 ctl a config reload
	[[ "$output" == *"50-pipe.conf: this is no regular file"* ]]
	rm "$HOSTS_DIR/smcrd.conf.d/50-pipe.conf"
	run -0 ctl a config reload
	[ "$output" = "No value has changed." ]
}

@test "a rule that a reload brings holds for new connections, and goes with the next one" {
	two_patient_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001 >"$HOSTS_DIR/server.log" 2>&1
	until_true 10 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	conf b 'connect_wait_milliseconds = 20000' 'deny = port 7001'
	ctl b config reload
	run ! on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	conf b 'connect_wait_milliseconds = 20000'
	ctl b config reload
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
}

@test "a value that was set holds until the files are read again" {
	hosts_up 1500
	conf a 'memory = 64M' 'deny = port 22'
	smcrd_start a
	run -0 ctl a config set memory 32M
	[ "$output" = "memory: 64M -> 32M" ]
	has_setting a memory '32M run-time'
	shows a info '.engine.memory_budget_bytes == 33554432'
	# a rule that was deleted at run time does not come back with the reload
	ctl a policy delete deny port 22
	ctl a config set log_level debug
	has_setting a deny 'null default'
	run -2 ctl a config set memory lots
	[[ "$output" == *"memory: 'lots' is not a size"* ]]
	run -0 ctl a config reload
	[[ "$output" == *"log_level: debug -> info"* && "$output" == *"memory: 32M -> 64M"* ]]
	[[ "$output" == *"deny: now also port 22"* ]]
	has_setting a deny 'port 22 file:2'
}

@test "wrong files change nothing, and every error is told" {
	busy_pair
	conf a 'log_level = debug' 'max_links = 99' 'memory = lots' 'no_such_key = 1'
	run -1 ctl a config reload
	[[ "$output" == *"nothing was changed: the configuration has 3 errors"* ]]
	[[ "$output" == *"a.conf:2: max_links: "*"a.conf:3: memory: "*"a.conf:4: no_such_key: "* ]]
	has_setting a log_level 'info default'
	ctl a -j config reload >"$HOSTS_DIR/reply" 2>/dev/null || true
	jq -e '.error.code == "bad-configuration" and (.error.errors | length) == 3' "$HOSTS_DIR/reply"
	before=$(grep -c 'a.conf:3: memory: ' "$HOSTS_DIR/a.log")
	kill -HUP "$SMCRD_PID_a"
	until_true 5 told_more_often "$before"
	has_setting a log_level 'info default'
	# a missing file is an error too
	rm "$HOSTS_DIR/a.conf"
	run -1 ctl a config reload
	[[ "$output" == *"a.conf: No such file"* ]]
	# users who are no administrators may not reload
	chmod o+x "$HOSTS_DIR"
	conf a 'log_level = debug'
	run -1 on a setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" config reload
	[[ "$output" == "smcrctl: config reload: this is for root: run it as root, or name an admin_group in smcrd.conf"* ]]
	has_setting a log_level 'info default'
	busy_end
}

@test "values that take a restart are named, and shown with what they will be" {
	hosts_up 1500
	conf a "socket = $HOSTS_DIR/a.sock"
	start_on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" >>"$HOSTS_DIR/a.log" 2>&1
	SMCRD_PID_a=$!
	until_true 10 answers a
	conf a "socket = $HOSTS_DIR/other.sock" 'max_links = 3'
	run -0 ctl a config reload
	[[ "$output" == *"max_links: 4 -> 3"*"Not yet:"*"socket: stays $HOSTS_DIR/a.sock until a restart; then $HOSTS_DIR/other.sock"* ]]
	[[ "$(ctl a config)" == *"socket: a restart makes it $HOSTS_DIR/other.sock."* ]]
	answers a
	# the command line has precedence over the file, also at a reload
	smcrd_start b --rnic soft:eth0
	conf b 'rnic = soft:eth1' 'socket = /nowhere'
	run -0 ctl b config reload
	[ "$output" = "No value has changed." ]
	has_setting b rnic 'soft:eth0 command-line'
}

has_devices() {
	[ "$(show "$1" device '[.[].name] | sort | join(" ")')" = "$2" ]
}

@test "RNICs that a reload names are opened; others are closed when no link uses them" {
	hosts_up 1500
	conf a 'rnic = soft:eth0'
	smcrd_start a
	smcrd_start b
	has_devices a soft:eth0
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1 --pingpong 1
	conf a 'rnic = soft:eth0' 'rnic = soft:eth1'
	run -0 ctl a config reload
	[[ "$output" == *"rnic: now also soft:eth1"* ]]
	has_devices a "soft:eth0 soft:eth1"
	until_true "$FAILOVER_PATIENCE" symmetric
	# the RNIC is in use: its link is deleted in order, and connections do not notice
	conf a 'rnic = soft:eth0'
	run -0 ctl a config reload
	[[ "$output" == *"rnic: no longer soft:eth1"*"Not yet:"*"rnic soft:eth1: stays until the links that use it have ended"* ]]
	until_true 20 has_devices a soft:eth0
	# the same by commands, until the files are read again
	run -0 ctl a device add soft:eth1
	[ "$output" = "rnic soft:eth1 is in use, until the configuration is read again" ]
	has_setting a rnic 'soft:eth0 file:1, soft:eth1 run-time'
	until_true "$FAILOVER_PATIENCE" symmetric
	run -1 ctl a device add soft:eth1
	[[ "$output" == *"rnic soft:eth1 is named already"* ]]
	run -2 ctl a device add eth1
	[[ "$output" == *"'eth1' is not soft:INTERFACE"* ]]
	run -4 ctl a device remove soft:eth9
	[[ "$output" == *"no rnic soft:eth9 is named"* ]]
	run -0 ctl a device remove soft:eth1
	[[ "$output" == *"stays until the links that use it have ended"* ]]
	until_true 20 has_devices a soft:eth0
	run -1 ctl a device remove soft:eth0
	[[ "$output" == *"the only one that is named"* ]]
	# An RNIC that is open only for its links is not used again.
	ctl a device add soft:late0
	ctl a device remove soft:eth0
	run -1 ctl a device enable soft:eth0
	[[ "$output" == *"rnic soft:eth0 is not configured, and closed when its links have ended"* ]]
	shows a device 'any(.name == "soft:eth0" and .drained)'
	ctl a device add soft:eth0
	ctl a device remove soft:late0
	has_devices a soft:eth0
	shows a device 'any(.name == "soft:eth0" and (.drained | not))'
	ctl a device add soft:eth1
	run -0 ctl a config reload
	[[ "$output" == *"rnic: no longer soft:eth1"* ]]
	until_true 20 has_devices a soft:eth0
	busy_end
	shows a info '.connections.resets_total == 0'
	# smcrd waits for an RNIC that is missing; with one that cannot be used the reload changes nothing
	conf a 'rnic = soft:eth0' 'rnic = soft:eth7'
	run -0 ctl a config reload
	[[ "$output" == *"eth7"*"waiting for it"* ]]
	conf a 'rnic = soft:eth0' 'rnic = soft:eth1' 'rnic = verbs:none9/1' 'max_links = 3'
	run ctl a config reload
	if [ "$status" = 0 ]; then
		[[ "$output" == *"none9"*"waiting for it"* ]]
	else
		has_setting a max_links '4 default'
		has_devices a soft:eth0
	fi
}

@test "a reload that names an RNIC closes all others of a host with many interfaces" {
	hosts_up 1500
	for i in $(seq 70); do
		cat <<-EOF
		link add many$i type veth peer name other$i
		link set other$i up
		addr add 10.90.$i.1/24 dev many$i
		link set many$i up
		EOF
	done | ip -n "$HOSTS_ID-a" -batch -
	conf a
	smcrd_start a
	until_true 10 shows a device 'length == 72'
	conf a 'rnic = soft:eth0'
	ctl a config reload
	has_devices a soft:eth0
}

@test "a reload changes limits of users at once" {
	hosts_up 1500
	smcrd_start a
	conf a 'max_sessions_per_user = 1'
	ctl a config reload
	shows a info '.pid > 0' # smcrd still serves administrators
	has_setting a max_sessions_per_user '1 file:1'
}

@test "whoever starts smcrd in the background is told of warnings" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	# without BPF everything stays TCP, which the user who starts smcrd has to see
	run -0 on a setpriv --bounding-set=-bpf,-sys_admin "$HOSTS_BUILD/bin/smcrd" \
		--config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock"
	[[ "$output" == *"smcrd: warning: the SMC-R TCP option cannot be used, connections stay TCP"* ]]
	answers a
	kill "$(json a info .info.pid)"
	until_true 10 gone
}

# with_syslog COMMAND..: run it on host a without a journal, where /dev/log is the socket $HOSTS_DIR/syslog.
with_syslog() {
	# shellcheck disable=SC2016
	on a unshare --mount bash -c '
		set -e
		dir=$1 && shift
		mkdir "$dir/dev"
		mount -t tmpfs tmpfs "$dir/dev"
		for name in null zero urandom random; do
			touch "$dir/dev/$name"
			mount --bind "/dev/$name" "$dir/dev/$name"
		done
		ln -s "$dir/syslog" "$dir/dev/log"
		mount --rbind "$dir/dev" /dev
		[ ! -e /run/systemd ] || mount -t tmpfs tmpfs /run/systemd
		exec "$@"' - "$HOSTS_DIR" "$@"
}

@test "in the background without a journal the log goes to syslog" {
	hosts_up 1500
	: >"$HOSTS_DIR/a.conf"
	hear_datagrams a syslog lines
	# nothing is wrong: no output
	run -0 with_syslog "$HOSTS_BUILD/bin/smcrd" --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock"
	[ -z "$output" ]
	until_true 5 grep -q '^<29>.* smcrd\[[0-9]*\]: smcrd [0-9.]* serves on ' "$HOSTS_DIR/lines"
	kill "$(json a info .info.pid)"
	until_true 10 gone
	# without syslog too
	rm "$HOSTS_DIR/syslog"
	rmdir "$HOSTS_DIR/dev"
	run -0 with_syslog "$HOSTS_BUILD/bin/smcrd" --config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock"
	[[ "$output" == "smcrd: warning: neither the journal nor syslog runs"* && "${#lines[@]}" = 1 ]]
	kill "$(json a info .info.pid)"
	until_true 10 gone
}

@test "a line of the log tells version, RNICs and limits of smcrd" {
	hosts_up 1500
	conf a 'memory = 128M' 'max_connections_per_user = 77'
	smcrd_start a
	grep -q 'notice: smcrd [0-9.]* serves on .*/a.sock; RNICs: soft:eth0 soft:eth1; TCP option in use; limits: 128 MiB of buffers, [0-9]* connections, 77 of a user, 4 links of a group' "$HOSTS_DIR/a.log"
}

told() {
	grep -q -e "$1" "$HOSTS_DIR/told"
}

ready_twice() {
	[ "$(grep -cx READY=1 "$HOSTS_DIR/told")" = 2 ]
}

@test "the service manager is told of a reload, and what there is when that has changed" {
	hosts_up 1500
	hear_datagrams a notify told
	NOTIFY_SOCKET=$HOSTS_DIR/notify smcrd_start a
	until_true 5 told '^STATUS=2 RNICs, TCP option in use; 0 link groups, 0 connections over SMC-R$'
	ctl a config reload
	until_true 5 ready_twice
	told '^RELOADING=1$'
	told '^MONOTONIC_USEC=[1-9][0-9]*$'
	smcrd_start b
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --pingpong 2
	until_true 20 told '^STATUS=2 RNICs, TCP option in use; 1 link group, 2 connections over SMC-R$'
	ctl a drain
	until_true 5 told '^STATUS=draining; 2 RNICs, TCP option in use; 1 link group, 2 connections over SMC-R$'
	busy_end
}

# told_in_order HOST PATTERN..: does the log have lines with these patterns, each behind the one before?
told_in_order() {
	local file=$HOSTS_DIR/$1.log line=0 pattern
	shift
	for pattern; do
		line=$(awk -v from="$line" -v pattern="$pattern" 'NR > from && $0 ~ pattern { print NR; exit }' "$file")
		[ -n "$line" ] || return 1
	done
}

traces_of() {
	grep -c 'smcrd: trace: ' "$HOSTS_DIR/$1.log" || true
}

@test "a trace shows each message in the log while it is on, and none when it is off" {
	two_patient_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001 >"$HOSTS_DIR/server.log" 2>&1
	until_true 10 tcp_listens a 7001
	[ "$(ctl b -j log | jq -c .log.trace)" = '[]' ]
	for host in a b; do
		ctl "$host" log level error
		run -0 ctl "$host" log trace llc clc cdc
		[ "$output" = "log_trace: none -> clc llc cdc" ]
		[ "$(ctl "$host" -j log | jq -c .log)" = '{"level":"error","trace":["clc","llc","cdc"]}' ]
	done
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	until_true 10 told_in_order b 'clc: sent to .*: Proposal, ' 'clc: received from .*: Accept, .*, first contact' \
		'clc: sent to .*: Confirm, ' 'llc: received from .*: CONFIRM LINK request' \
		'llc: sent to .*: CONFIRM LINK reply' 'cdc: sent to .*: CDC 1, '
	until_true 10 told_in_order a 'clc: received from .*: Proposal, ' 'clc: sent to .*: Accept, .*, first contact' \
		'clc: received from .*: Confirm, ' 'llc: sent to .*: CONFIRM LINK request' \
		'llc: received from .*: CONFIRM LINK reply' 'cdc: received from .*: CDC 1, '
	for host in a b; do
		ctl "$host" log trace off
	done
	before="$(traces_of a) $(traces_of b)"
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	[ "$(traces_of a) $(traces_of b)" = "$before" ]
	# one category alone, and the requests of programs and tools
	ctl b log trace ipc
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	until_true 10 told_in_order b 'ipc: session .*, uid .*: request HANDOVER, a socket that is connected' \
		'ipc: session .*: reply RESULT, a pair end'
	ctl b ueid remove NOBODY || true
	until_true 10 told_in_order b 'request CONTROL, {"method":"ueid.remove"' 'reply CONTROL_REPLY, {"code":'
	ctl b log trace off
}
