#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcrctl doctor and smcrctl check: what they say about healthy hosts, and what each check finds.
# stories.bats shows failures as an operator sees them.
bats_require_minimum_version 1.5.0
load common
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent # so that the machine's own bus has no effect

# as_user UID HOST WORD..: run smcrctl as this user of the host
as_user() {
	local uid=$1 host=$2
	shift 2
	on "$host" setpriv --reuid "$uid" --regid "$uid" --clear-groups "$HOSTS_BUILD/bin/smcrctl" "$@"
}

# well HOST: make the host healthy: users can reach smcrd, and each NIC answers ARP only for its own address. How many
# files may be open depends on the machine.
well() {
	chmod 755 "$HOSTS_DIR"
	arp_own_only "$1"
}

# found LEVEL CHECK TEXT: is this among the findings in the JSON in $output?
found() {
	jq -e --arg level "$1" --arg check "$2" --arg text "$3" '.doctor |
		map(select(.level == $level and .check == $check and (.text | contains($text)))) |
		length > 0' <<<"$output"
}

not_found() {
	if found "$@"; then return 1; fi
}

# silent_server PORT [COMMAND..]: start a server that sends nothing, and prints how many bytes each connection brought
silent_server() {
	local port=$1
	shift
	cat >"$HOSTS_DIR/server.py" <<-'EOF'
	import socket, sys
	with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
	    while True:
	        connection, _ = server.accept()
	        with connection:
	            print("bytes", len(connection.recv(100)))
	EOF
	start_on a "$@" python3 -u "$HOSTS_DIR/server.py" "$SERVER" "$port" >"$HOSTS_DIR/server.out"
	until_true 10 tcp_listens a "$port"
}

@test "doctor finds nothing on a host that is well, and exits 0" {
	two_daemons
	well a
	run -0 smcrctl_on a doctor
	[[ "$output" != *problem:* ]]
	warnings=$(grep '^warning:' <<<"$output" | grep -v 'files open' || true)
	[ -z "$warnings" ]
	[[ "$output" == *"ok: smcrd "*"answers, on $HOSTS_DIR/a.sock"* ]]
	[[ "$output" == *"ok: RNIC soft:eth0 is active, at eth0 (1500) with 10.77.0.1, MTU of RoCE 1024"* ]]
	[[ "$output" == *"ok: no rule of nftables is seen to drop UDP port 4791"* ]]
	run -0 smcrctl_on a -j doctor
	jq -e '.schema == 1 and (.doctor | length > 7 and all((.level == "ok" or .check == "limits") and
		(.check | length > 3)))' <<<"$output"
	run -2 smcrctl_on a doctor please
}

@test "doctor says where users are not kept from port 4791" {
	hosts_up 1500
	chmod 755 "$HOSTS_DIR"
	: >"$HOSTS_DIR/a.conf"
	start_on a setpriv --bounding-set=-bpf,-sys_admin "$HOSTS_BUILD/bin/smcrd" --foreground \
		--config "$HOSTS_DIR/a.conf" --socket "$HOSTS_DIR/a.sock" >"$HOSTS_DIR/a.log" 2>&1
	until_true 10 answers a
	run -1 smcrctl_on a -j doctor # connections stay TCP
	found problem tcp-option 'smcrd cannot use BPF'
	found warning guard 'any user of this host can send RoCEv2 packets in its name: the kernel does not let us load BPF'
	jq -e '.doctor[] | select(.check == "guard") | .advice | contains("'"'smcrctl doctor --rules'"' prints rules")' <<<"$output"
	grep -q 'any user of this host can send RoCEv2 packets in its name (UDP port 4791): ' "$HOSTS_DIR/a.log"
	# a reload tries again, and tells the result
	run -0 smcrctl_on a config reload
	[[ "$output" == *'egress_guard: any user of this host can send RoCEv2 packets'* ]]
	smcrctl_on a config set egress_guard no
	run -1 smcrctl_on a -j doctor
	found warning guard 'egress_guard is no'
}

@test "doctor is for ordinary users too, and says what needs root" {
	two_daemons
	well a
	run -0 as_user 65534 a -j doctor
	found warning firewall 'needs root'
	found ok daemon "process $SMCRD_PID_a, answers"
	found ok namespace 'serves the network namespace'
	jq -e '.doctor | map(select(.level != "ok" and .check != "limits")) | length == 1' <<<"$output"
}

@test "doctor: two interfaces on one network" {
	two_daemons
	run -0 smcrctl_on a -j doctor
	found warning subnets 'eth0 and eth1 are on one network and answer ARP for each other'
	arp_own_only a
	on a sysctl -qw net.ipv4.conf.eth1.rp_filter=1
	ip -n "$HOSTS_ID-a" link set eth1 mtu 1400
	run -0 smcrctl_on a -j doctor
	not_found warning subnets 'answer ARP'
	found warning subnets 'rp_filter of eth1 is strict'
	not_found warning subnets 'rp_filter of eth0'
	found warning subnets 'with different MTUs, 1500 and 1400'
}

@test "doctor: RNICs that are down, that are missing, and that cannot be used" {
	hosts_up 1500
	arp_own_only a
	talk_start holder a python3 -c '
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("10.77.0.11", 4791))
for line in sys.stdin:
    print("ok", flush=True)'
	tell holder there
	smcrd_start a
	run -0 smcrctl_on a -j doctor
	found warning rnics 'RNIC soft:eth1 is not used: '
	found warning rnics 4791
	found ok rnics 'soft:eth0 is active'
	ip -n "$HOSTS_ID-a" link set eth0 down
	until_true 5 shows a device '[.[] | select(.state == "active" and .name == "soft:eth0")] | length == 0'
	run -1 smcrctl_on a -j doctor
	found warning rnics 'RNIC soft:eth0 is down: eth0 is'
	found problem rnics "none of smcrd's RNICs is active"
	talk_kill holder
	daemon_ends a || false
	smcrd_start a --rnic soft:eth1 --rnic soft:later0
	run -0 smcrctl_on a -j doctor
	found warning rnics 'RNIC soft:later0 is wanted, but not there'
}

@test "doctor: few open files, and a configuration that the service cannot read" {
	hosts_up 1500
	arp_own_only a
	: >"$HOSTS_DIR/a.conf"
	start_on a prlimit --nofile=1024 "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/a.conf" \
		--socket "$HOSTS_DIR/a.sock" >"$HOSTS_DIR/a.log" 2>&1
	SMCRD_PID_a=$!
	until_true 10 answers a
	run -0 smcrctl_on a -j doctor
	found warning limits 'may have 1024 files open, enough for some 256 connections'
	# service_host runs smcrctl on a host that has the service's user and a configuration
	mkdir "$HOSTS_DIR/etc"
	echo 'memory = 1G' >"$HOSTS_DIR/etc/smcrd.conf"
	chmod 600 "$HOSTS_DIR/etc/smcrd.conf"
	{
		cat /etc/passwd
		echo 'smcrd:x:64999:64999::/:/usr/sbin/nologin'
	} >"$HOSTS_DIR/passwd"
	mkdir -p "$HOSTS_DIR/upper"
	service_host() { # MODE_OF_ETC_SMCRD [COMMAND..]
		# shellcheck disable=SC2016 # the other shell expands
		on a unshare -m sh -c '
			mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work &&
			mount -t overlay none -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work /etc &&
			cp "$1/passwd" /etc/passwd && rm -rf /etc/smcrd && cp -a "$1/etc" /etc/smcrd &&
			chown 0:64999 /etc/smcrd /etc/smcrd/smcrd.conf && chmod "$2" /etc/smcrd &&
			shift 2 && exec "$@"' - "$HOSTS_DIR" "$@" "$HOSTS_BUILD/bin/smcrctl" -j doctor
	}
	run -1 service_host 755
	found problem configuration 'user smcrd cannot read /etc/smcrd/smcrd.conf'
	chmod 640 "$HOSTS_DIR/etc/smcrd.conf"
	run -0 service_host 755
	found ok configuration 'user smcrd can read'
	run -0 service_host 750
	found ok configuration 'user smcrd can read'
	# A user who may not look does not report that the service may not read. A user who may look reports the directory,
	# not each file.
	chmod 755 "$HOSTS_DIR"
	run -0 service_host 750 setpriv --reuid 65534 --regid 65534 --clear-groups
	found warning configuration 'whether user smcrd can read /etc/smcrd/smcrd.conf was not checked'
	jq -e '[.doctor[] | select(.check == "configuration")] | length == 1' <<<"$output"
	run -1 service_host 700 setpriv --reuid 65534 --regid 65534 --clear-groups
	found problem configuration 'user smcrd cannot read and enter /etc/smcrd,'
	jq -e '[.doctor[] | select(.check == "configuration")] | length == 1' <<<"$output"
}

# smcrd reads its configuration once: a file that is written afterwards, or that smcrd does not see, changes
# nothing.
@test "doctor: a configuration that is not the one that smcrd has read" {
	hosts_up 1500
	well a
	smcrd_start a
	run -0 smcrctl_on a -j doctor
	found ok config-file "smcrd reads its configuration from $HOSTS_DIR/a.conf, as its option --config says"
	not_found warning config-file ''
	echo 'memory = 64M' >"$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a -j doctor
	found warning config-file "$HOSTS_DIR/a.conf was changed after smcrd read it"
	jq -e '.doctor[] | select(.check == "config-file" and .level == "warning") | .advice | contains("config reload")' \
		<<<"$output"
	run -0 as_user 65534 a -j doctor
	found warning config-file "$HOSTS_DIR/a.conf is not as smcrd has read it: it was changed since, or smcrd sees other files"
	smcrctl_on a config reload
	run -0 smcrctl_on a -j doctor
	not_found warning config-file ''
	mv "$HOSTS_DIR/a.conf" "$HOSTS_DIR/aside"
	run -0 smcrctl_on a -j doctor
	found warning config-file "$HOSTS_DIR/a.conf, which smcrd has read, was removed"
	run -0 as_user 65534 a -j doctor
	found warning config-file "$HOSTS_DIR/a.conf, which smcrd has read, is not there for this command"
	mv "$HOSTS_DIR/aside" "$HOSTS_DIR/a.conf"
	run -0 smcrctl_on a -j doctor
	not_found warning config-file ''
}

# in_other_mounts COMMAND HOST WORD..: smcrctl in a mount namespace of its own, where the shell has done COMMAND
in_other_mounts() {
	# shellcheck disable=SC2016 # the other shell expands
	on "$2" unshare -m sh -c 'eval "$1" && shift && exec "$@"' - "$1" "$HOSTS_BUILD/bin/smcrctl" "${@:3}"
}

@test "doctor: a configuration that is hidden from who asks, or of another mount namespace, or not the usual one" {
	local conf usual
	hosts_up 1500
	well a
	mkdir "$HOSTS_DIR/conf"
	conf=$HOSTS_DIR/conf/a.conf usual=/etc/smcrd/smcrd.conf
	: >"$conf"
	start_on a "$HOSTS_BUILD/bin/smcrd" --foreground --config "$conf" --socket "$HOSTS_DIR/a.sock" >"$HOSTS_DIR/a.log" 2>&1
	SMCRD_PID_a=$!
	until_true 10 answers a
	chmod 700 "$HOSTS_DIR/conf"
	run -0 as_user 65534 a -j doctor
	found warning config-file "whether $conf is as smcrd has read it was not checked: Permission denied"
	run -0 in_other_mounts "mount -t tmpfs none '$HOSTS_DIR/conf'" a -j doctor
	found warning config-file "smcrd, process $SMCRD_PID_a, runs in another mount namespace than this command"
	found warning config-file "there $conf is another file"
	jq -e --arg path "/proc/$SMCRD_PID_a/root$conf" '.doctor[] | select(.check == "config-file" and .level == "warning") |
		.advice | contains("write " + $path)' <<<"$output"
	run -0 in_other_mounts "mount -t tmpfs none '$HOSTS_DIR/conf' && echo >'$conf'" a -j doctor
	found warning config-file "there $conf is another file"
	# The file that everybody would look for is there, and smcrd was started with another.
	run in_other_mounts "mount -t tmpfs none /etc && mkdir /etc/smcrd && echo >$usual" a -j doctor
	found warning config-file "smcrd reads its configuration from $conf, as its option --config says: $usual has no effect"
	jq -e '.doctor[] | select(.check == "config-file" and .level == "warning") |
		.advice | contains("start smcrd without --config")' <<<"$output"
}

@test "doctor: a daemon that stands still" {
	hosts_up 1500
	smcrd_start a
	kill -STOP "$SMCRD_PID_a"
	run -1 smcrctl_on a -j doctor
	kill -CONT "$SMCRD_PID_a"
	found problem daemon "smcrd, process $SMCRD_PID_a, does not answer within"
	# nobody has taken the port of RoCE from it
	[[ "$output" != *"4791 is taken"* ]]
	kill "$SMCRD_PID_a"
	until_true 10 eval '! kill -0 "$SMCRD_PID_a" 2>/dev/null'
	start_on a python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 4791))
time.sleep(600)'
	until_true 10 eval '[ -n "$(on a ss -Hlun "sport = :4791")" ]'
	run -1 smcrctl_on a -j doctor
	found warning rnics "UDP port 4791 is taken"
}

@test "doctor: a daemon with another socket" {
	hosts_up 1500
	smcrd_start a
	run -1 on a env SMCRD_SOCKET="$HOSTS_DIR/none.sock" "$HOSTS_BUILD/bin/smcrctl" -j doctor
	found problem daemon "no smcrd answers on $HOSTS_DIR/none.sock: No such file or directory; but smcrd, process $SMCRD_PID_a, serves this network namespace, on $HOSTS_DIR/a.sock"
	jq -e --arg socket "$HOSTS_DIR/a.sock" '.doctor[] | select(.check == "daemon") |
		.advice | contains("SMCRD_SOCKET=" + $socket)' <<<"$output"
	[[ "$output" != *"4791 is taken"* ]]
	# what another user says of a socket of his is not believed
	kill "$SMCRD_PID_a"
	until_true 10 eval '! kill -0 "$SMCRD_PID_a" 2>/dev/null'
	start_on a python3 -c 'import os, socket, sys, time
held = []
for name in sys.argv[1], "\0smcrd:" + sys.argv[1]:
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind(name)
    held[-1].listen()
os.chown(sys.argv[1], 65534, 65534)
time.sleep(600)' "$HOSTS_DIR/false.sock"
	until_true 10 eval 'on a grep -q "@smcrd:.*false.sock" /proc/net/unix && [ "$(stat -c %u "$HOSTS_DIR/false.sock")" = 65534 ]'
	run -1 on a env SMCRD_SOCKET="$HOSTS_DIR/none.sock" "$HOSTS_BUILD/bin/smcrctl" -j doctor
	found problem daemon "no smcrd answers on $HOSTS_DIR/none.sock: No such file or directory"
	[[ "$output" != *false.sock* ]]
}

@test "doctor: a daemon that refuses does not stand still" {
	hosts_up 1500
	echo 'max_sessions_per_user = 1' >"$HOSTS_DIR/a.conf"
	smcrd_start a
	well a
	hold_place() {
		start_on a setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" monitor >/dev/null
		monitor=$!
	}
	# the request that tests this may have had the only session when the monitor wanted it
	refused() {
		kill -0 "$monitor" 2>/dev/null || { hold_place; return 1; }
		! as_user 65534 a device
	}
	hold_place
	until_true 10 refused
	run -1 as_user 65534 a -j doctor
	found problem daemon 'as many as it may (max_sessions_per_user)'
	jq -e '.doctor[0].advice | contains("max_sessions_per_user in smcrd.conf(5)")' <<<"$output"
	not_found problem daemon 'does not answer within'
	run -0 smcrctl_on a -j doctor
	found ok daemon "process $SMCRD_PID_a, answers"
}

@test "check: a connection that uses SMC-R is opened and closed, and brings no data" {
	two_patient_daemons
	chmod 755 "$HOSTS_DIR"
	silent_server 7001 "$RUN"
	run -0 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"ok: TCP to $SERVER port 7001 is answered"* ]]
	[[ "$output" == *"ok: both sides agree on version 1 of SMC-R, in link group 1"* ]]
	[[ "$output" == *"ok: UDP port 4791 passes: link 1/"*"on RNIC soft:eth"*" with MTU 1024"* ]]
	[[ "${lines[-1]}" == "ok: a connection to $SERVER port 7001 uses SMC-R" ]]
	until_true 5 grep -qx 'bytes 0' "$HOSTS_DIR/server.out"
	# check follows the option -s, not the environment
	run -0 on b env SMCRD_SOCKET=/nowhere SMCR_REQUIRE=1 SMCR_VERBOSE=1 setpriv --reuid 65534 --regid 65534 \
		--clear-groups "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/b.sock" -j check "$SERVER" 7001
	jq -e --arg server "$SERVER" '.check | .smcr and .reason == null and .linkgroup == 1 and .link > 0 and .version == 1 and
		.mtu_bytes == 1024 and
		.address == $server and .port == 7001 and (.rnic | startswith("soft:eth"))' <<<"$output"
	until_true 5 eval '[ "$(grep -c "bytes 0" "$HOSTS_DIR/server.out")" = 2 ]'
	until_true 5 shows b connection '[.[] | select(.ended == false)] | length == 0'
	[ "$(sort -u "$HOSTS_DIR/server.out")" = 'bytes 0' ]
	# not of a link: a busy machine may be silent for too long
	shows b event 'all(.event | startswith("link-") or (. != "fallback" and . != "reset"))'
	shows b info '.connections | .failed_total == 0 and .resets_total == 0 and .fallbacks_total == 0'
}

@test "check: a link group that was there before is tested, over RoCE" {
	two_patient_daemons
	chmod 755 "$HOSTS_DIR"
	silent_server 7001 "$RUN"
	run -0 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"ok: UDP port 4791 passes: link 1/"*" is up, on RNIC "* ]]
	run -0 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"ok: UDP port 4791 passes: link 1/"*" answers, on RNIC "*" with MTU 1024"* ]]
	run -0 as_user 65534 b check "$SERVER" 7001
	[[ "$output" == *"ok: UDP port 4791 passes: link 1/"*" answers, on RNIC "*" with MTU 1024"* ]]
	on b nft 'add table inet dead; add chain inet dead in { type filter hook input priority 0; };
		add rule inet dead in udp dport 4791 drop'
	run -1 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"problem: link 1/"*" was up before, and RoCE, UDP port 4791, does not pass now between this host and $SERVER"* ]]
	[[ "$output" == *"problem: the firewall drops UDP port 4791"* ]]
	[[ "${lines[-1]}" == "problem: "*"does not use SMC-R"* ]]
}

@test "check: where one link of a group is dead, the connection goes on on the other" {
	local host rnic link other
	two_patient_daemons
	for host in a b; do arp_own_only "$host"; done
	silent_server 7001 "$RUN"
	run -0 smcrctl_on b check "$SERVER" 7001
	until_true 20 shows b link '[.[] | select(.state == "active")] | length == 2'
	read -r rnic link other <<<"$(show b link '"\(.[0].rnic) \(.[0].number) \(.[1].number)"')"
	smcrctl_on b link disable "1/$other"
	on b nft "add table inet dead; add chain inet dead in { type filter hook input priority 0; };
		add rule inet dead in iifname ${rnic#soft:} udp dport 4791 drop"
	run -0 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"warning: link 1/$link was up before, and the connection has left it for link 1/$other; "* ]]
	[[ "$output" == *"ok: UDP port 4791 passes: link 1/$other answers, on RNIC "* ]]
}

@test "check: a link group that only the server still has costs another try" {
	local host
	two_patient_daemons
	for host in a b; do arp_own_only "$host"; done
	smcrctl_on a config set test_link_interval_seconds 600 # that is not to be found out yet
	silent_server 7001 "$RUN"
	run -0 smcrctl_on b check "$SERVER" 7001
	# Host a must not miss an answer, or it finds out sooner: so all is done before RoCE is cut.
	for host in a b; do
		until_true 20 shows "$host" link '[.[] | select(.state == "active")] | length == 2'
		until_true 5 shows "$host" connection '[.[] | select(.ended == false)] | length == 0'
	done
	on a nft 'add table inet dead; add chain inet dead in { type filter hook input priority 0; };
		add rule inet dead in udp dport 4791 drop'
	smcrctl_on b linkgroup delete 1 || true
	until_true 15 shows b linkgroup 'length == 0'
	shows a linkgroup 'length == 1'
	on a nft delete table inet dead
	run -0 smcrctl_on b check "$SERVER" 7001
	[ "$(grep -c 'TCP to' <<<"$output")" = 1 ]
	run -0 smcrctl_on b -j event
	[[ "$output" == *out-of-sync* ]]
}

@test "check: names, ports, and words that are wrong" {
	two_daemons
	run -2 smcrctl_on b check
	run -2 smcrctl_on b check "$SERVER" 0
	run -2 smcrctl_on b check "$SERVER" 65536
	run -2 smcrctl_on b check "$SERVER" 80 program
	run -2 smcrctl_on b check "$SERVER" 80 81
	run -2 smcrctl_on b -j check $'\xff\xfe'
	run -1 smcrctl_on b check no-such-host.invalid
	[[ "$output" == *"problem: no-such-host.invalid has no address"* ]]
	run -1 smcrctl_on b check "$SERVER" 7999
	[[ "$output" == *"problem: nobody listens at $SERVER port 7999"* ]]
	run -1 smcrctl_on b -j check "$SERVER"
	jq -e '.check | .smcr == false and .port == 443 and .reason == null' <<<"$output"
	run -1 smcrctl_on b check 10.99.0.1 80
	[[ "$output" == *"problem: TCP to 10.99.0.1 port 80 fails: Network is unreachable"* ]]
}

@test "check: rules, the host itself, and a peer that failed, without a connection" {
	two_daemons
	chmod 755 "$HOSTS_DIR"
	silent_server 7001 "$RUN"
	smcrctl_on b policy add deny port 7001 uid 65534
	smcrctl_on b policy add deny program /usr/bin/curl
	run -0 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"warning: there are rules for single programs, which were not checked"* ]]
	run -1 as_user 65534 b check "$SERVER" 7001
	[[ "$output" == *"the rule \"deny uid 65534 port 7001\" keeps the connection on TCP; 'smcrctl policy delete deny uid 65534 port 7001' removes the rule"* ]]
	run -1 smcrctl_on b -j check "$SERVER" 7001 program /usr/bin/curl
	jq -e '.check | .smcr == false and .reason == "local-policy"' <<<"$output"
	run -0 smcrctl_on b check "$SERVER" 7001 program /usr/bin/wget
	run -1 smcrctl_on a -j check "$SERVER" 7001
	jq -e '.check.reason == "own-host"' <<<"$output"
	smcrctl_on b policy add allow port 80
	run -1 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"rules allow SMC-R to some connections, and none of them to this one; "* ]]
}

@test "check: what keeps a peer from answering, when RoCE with it had failed and passes again" {
	two_daemons
	silent_server 7001 "$RUN"
	on a nft 'add table inet wall; add chain inet wall in { type filter hook input priority 0; };
		add rule inet wall in udp dport 4791 drop'
	run -1 smcrctl_on b check "$SERVER" 7001
	on a nft delete table inet wall
	smcrctl_on b policy forget "$SERVER"
	# the server's host leaves this one alone still
	run -1 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"problem: the peer did not offer SMC-R: "*"'smcrctl policy forget' there"* ]]
	smcrctl_on a policy forget 10.77.0.2
	run -0 smcrctl_on b check "$SERVER" 7001
}

@test "check: a server that does not accept" {
	local program
	two_daemons
	program='import socket, time
server = socket.create_server(("'$SERVER'", 7001))
while True: time.sleep(1)'
	start_on a "$RUN" python3 -c "$program"
	until_true 10 tcp_listens a 7001
	run -1 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"ok: TCP to $SERVER port 7001 is answered"* ]]
	[[ "$output" == *"problem: "*"does not accept connections"* ]]
	# Now only that port is left to TCP.
	until_true 5 shows b info ".skipped_peers | length == 1 and .[0].port == 7001"
	run -1 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *"problem: SMC-R with $SERVER port 7001 has failed ("*"), and connections with that port stay TCP for "*"; 'smcrctl policy forget $SERVER port 7001' lets SMC-R be tried at once"* ]]
	run -0 smcrctl_on b doctor
	[[ "$output" == *"warning: $SERVER port 7001 is left to TCP for "*"; see 'smcrctl check $SERVER 7001'; 'smcrctl policy forget $SERVER port 7001' lets SMC-R be tried again"* ]]
}

@test "check: all addresses of a name are tried, as programs do" {
	two_patient_daemons
	ip -n "$HOSTS_ID-a" addr add fd00:77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd00:77::2/64 dev eth0 nodad
	silent_server 7001 "$RUN"
	printf '%s both.test\n' fd00:77::1 "$SERVER" >"$HOSTS_DIR/names"
	named() {
		# shellcheck disable=SC2016 # the other shell expands
		on b unshare -m sh -c 'mount --bind "$1" /etc/hosts && shift && exec "$@"' - "$HOSTS_DIR/names" \
			"$HOSTS_BUILD/bin/smcrctl" "$@"
	}
	run -0 named check both.test 7001
	[[ "$output" == *"ok: both.test is fd00:77::1, $SERVER"* ]]
	[[ "$output" == *"warning: fd00:77::1 port 7001 does not take connections (refused); programs try it before $SERVER"* ]]
	[[ "$output" == *"ok: TCP to $SERVER port 7001 is answered"* ]]
	[[ "${lines[-1]}" == "ok: a connection to both.test port 7001 uses SMC-R" ]]
	# A rule about the address that does not answer has no effect.
	smcrctl_on b policy add deny peer fd00:77::1
	run -0 named -j check both.test 7001
	jq -e --arg server "$SERVER" '.check | .smcr and .address == $server and .reason == null' <<<"$output"
	smcrctl_on b policy add deny peer "$SERVER"
	run -1 named -j check both.test 7001
	jq -e --arg server "$SERVER" '.check | .address == $server and .reason == "local-policy"' <<<"$output"
	run -1 named check both.test 7002
	[[ "$output" == *"problem: none of the 2 places that were tried takes connections: fd00:77::1 port 7002 (refused), $SERVER port 7002 (refused); "* ]]
}

@test "check: without a port the usual ones are tried, also behind one that does not answer" {
	two_patient_daemons
	on a nft 'add table inet dead; add chain inet dead in { type filter hook input priority 0; };
		add rule inet dead in tcp dport 22 drop'
	run -1 smcrctl_on b check "$SERVER"
	[[ "$output" == *"problem: none of the 3 places that were tried takes connections: $SERVER port 22 (no answer within 2 s), $SERVER port 80 (refused), $SERVER port 443 (refused); "*"smcrctl check $SERVER PORT"* ]]
	silent_server 80 "$RUN"
	run -0 smcrctl_on b check "$SERVER"
	[[ "$output" == *"ok: TCP to $SERVER port 80 is answered"* ]]
	[[ "$output" != *"port 22"* ]]
	[[ "${lines[-1]}" == "ok: a connection to $SERVER port 80 uses SMC-R" ]]
}

# foreign_start NAME HOST [CGROUP]: attach somebody else's BPF program, which acts on that host only
foreign_start() {
	talk_start "$1" "$2" "$HOSTS_BUILD/tests/tools/foreign_bpf" "${@:3}"
	[ "$(talk_hear "$1")" = ready ]
}

cgroup_gone() {
	rmdir "$1"
}

@test "doctor names BPF programs of others that see handshakes; check does where they take the option out" {
	local name='which is not smcrd'"'"'s, sees TCP handshakes of programs in the cgroup' cgroup
	two_daemons
	well a
	foreign_start root a
	run -0 smcrctl_on a -j doctor
	jq -e '.doctor | map(select(.check == "bpf-programs" and .level == "ok" and
		(.text | test("^BPF program [0-9]+ \\(foreign_sockops\\), '"$name"' /$")))) | length >= 1' <<<"$output"
	# a cgroup in which nothing runs
	cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	if [ -w "${cgroup:-/nonexistent}" ]; then
		guard_start CGROUP_GUARD cgroup_gone cgroup_gone "$cgroup/$HOSTS_ID"
		mkdir "$cgroup/$HOSTS_ID"
		foreign_start child sw "$HOSTS_ID"
		run -0 smcrctl_on a -j doctor
		found ok bpf-programs "(foreign_sockops), $name /$HOSTS_ID"
		talk_kill child
		exec {CGROUP_GUARD}>&-
	fi
	# smcrctl is a program that loses the option
	echo_server_on_a "$RUN"
	foreign_start client b
	tell client 'zero 8000'
	run -1 smcrctl_on b check "$SERVER" 7001
	[[ "$output" == *'problem: another BPF program of this host, or its firewall, has kept the SMC option out'* ]]
	[[ "$output" == *"(foreign_sockops), $name /"* ]]
	run -1 smcrctl_on b -j doctor
	found problem bpf-programs 'has taken the SMC option out of their handshakes'
	found warning bpf-programs "(foreign_sockops), $name /"
	# a user is told that there is more to see
	well b
	run -1 as_user 12345 b -j doctor
	found warning bpf-programs 'which BPF programs of others see TCP handshakes was not looked at'
}
