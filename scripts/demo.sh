#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demonstration: two hosts (network namespaces) with two NICs each and an smcrd each. Unmodified
# nginx, curl and iperf3 exchange data over SMC-R, one download while a NIC goes down and comes back.
# Prints what an operator sees and what was on the wire. Needs root. Cleans up, also when interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/failover.bash
. scripts/failover.bash

SIZE_MB=${DEMO_SIZE_MB:-1024}
IPERF_SECONDS=${DEMO_IPERF_SECONDS:-5}
run=$HOSTS_BUILD/bin/smcr-run

fail() {
	trap - ERR
	echo "demo: FAILED: $*" >&2
	for host in a b; do
		if [ -s "${HOSTS_DIR:-/nonexistent}/$host.log" ]; then
			echo "--- log of smcrd on host $host" >&2
			tail -20 "$HOSTS_DIR/$host.log" >&2
		fi
	done
	exit 1
}

step() {
	printf '\n== %s\n' "$*"
}

finish() {
	local status=$?
	trap - EXIT
	hosts_down
	exit "$status"
}
trap finish EXIT
trap 'trap "" INT TERM HUP; echo "demo: interrupted" >&2; exit 130' INT TERM HUP
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

[ "$(id -u)" = 0 ] || fail "needs root: network namespaces, BPF and UDP port 4791 (sudo make demo)"

# ---- what crosses the wire between the hosts, counted on the bridge

watch_wire() {
	on sw nft -f - <<-'EOF' || fail "nftables cannot count on the bridge"
	table bridge wire {
		chain forward {
			type filter hook forward priority 0
			udp dport 4791 counter
		}
	}
	EOF
	start_on sw tcpdump -i br0 -s 128 -w "$HOSTS_DIR/tcp.pcap" --immediate-mode tcp \
		2>"$HOSTS_DIR/tcpdump.log"
	TCPDUMP_PID=$!
	until_true 10 grep -q 'listening on' "$HOSTS_DIR/tcpdump.log" || fail "tcpdump does not start"
}

roce_bytes() {
	on sw nft -j list chain bridge wire forward |
		jq '[.nftables[].rule?.expr[]?.counter?.bytes? // empty] | add'
}

# tcp_payload [FILTER]: bytes of TCP payload, of all packets or of those that a display filter selects.
tcp_payload() {
	tshark -r "$HOSTS_DIR/tcp.pcap" -Y "tcp $*" -T fields -e tcp.len 2>/dev/null |
		awk '{ sum += $1 } END { print sum + 0 }'
}

# ---- the cut

mib_copied() {
	echo $(($(stat -c %s "$HOSTS_DIR/copy" 2>/dev/null || echo 0) >> 20))
}

# copied PERCENT: has this part of the file arrived?
copied() {
	[ "$(mib_copied)" -ge $((SIZE_MB * $1 / 100)) ]
}

# The NIC of host b whose link carries the download from host a.
nic_of_download() {
	local number
	number=$(json a connection '[.connection[] | select(.state == "active")][0].link')
	json b link --argjson number "$number" '.link[] | select(.number == $number) |
		.rnic | sub("soft:"; "")'
}

# ---- the show

step "two hosts, two NICs each, smcrd on both"
hosts_up
smcrd_start a
smcrd_start b
watch_wire
echo "host a:"
smcrctl_on a device
echo "host b:"
smcrctl_on b device

step "a web server on host a sends a file of $SIZE_MB MiB to curl on host b"
mkdir "$HOSTS_DIR/www"
# Pseudo-random bytes, made faster than /dev/urandom makes them.
openssl enc -aes-128-ctr -pass pass:demo -nosalt -pbkdf2 -in /dev/zero 2>/dev/null |
	head -c $((SIZE_MB << 20)) >"$HOSTS_DIR/www/file" || true
[ "$(stat -c %s "$HOSTS_DIR/www/file")" = $((SIZE_MB << 20)) ] || fail "cannot make the file"
sed "s#@DIR@#$HOSTS_DIR#g" >"$HOSTS_DIR/nginx.conf" <<'EOF'
daemon off;
master_process off;
pid @DIR@/nginx.pid;
error_log @DIR@/nginx.log;
events { worker_connections 64; }
http {
	access_log off;
	sendfile on;
	client_body_temp_path @DIR@/t1; proxy_temp_path @DIR@/t2; fastcgi_temp_path @DIR@/t3;
	uwsgi_temp_path @DIR@/t4; scgi_temp_path @DIR@/t5;
	server { listen 10.77.0.1:8080; root @DIR@/www; }
}
EOF
start_on a "$run" nginx -c "$HOSTS_DIR/nginx.conf" -e "$HOSTS_DIR/nginx.log"
until_true 10 tcp_listens a 8080 || fail "nginx does not listen: $(cat "$HOSTS_DIR/nginx.log")"
on b "$run" --require curl -sS -o "$HOSTS_DIR/copy" \
	-w 'downloaded %{size_download} bytes in %{time_total} s: %{speed_download} bytes a second\n' \
	http://10.77.0.1:8080/file || fail "the download"
sum_a=$(sha256sum <"$HOSTS_DIR/www/file")
sum_b=$(sha256sum <"$HOSTS_DIR/copy")
[ "$sum_a" = "$sum_b" ] || fail "checksums differ: sent $sum_a received $sum_b"
echo "sha256 on both sides: ${sum_a%% *}"
rm "$HOSTS_DIR/copy"

step "the same again; in the middle of it a NIC of host b goes down and comes back"
until_true "$FAILOVER_PATIENCE" symmetric || fail "the link group is not symmetric"
on b "$run" --require curl -sS http://10.77.0.1:8080/file |
	scripts/pauses.py "$HOSTS_DIR/copy" >"$HOSTS_DIR/pause" &
download=$!
until_true "$FAILOVER_PATIENCE" copied 25 || fail "the download does not start"
nic=$(nic_of_download)
CUT_QPN_a=$(queue_pair a "${nic#eth}") CUT_QPN_b=$(queue_pair b "${nic#eth}")
ip -n "$HOSTS_ID-b" link set "$nic" down
echo "$nic, which carries it, goes down after $(mib_copied) MiB"
until_true "$FAILOVER_PATIENCE" link_is_lost || fail "the link on $nic is still in use"
smcrctl_on b link
until_true "$FAILOVER_PATIENCE" eval 'copied 60 || ! kill -0 "$download" 2>/dev/null'
copied 60 || fail "the download does not go on"
ip -n "$HOSTS_ID-b" link set "$nic" up
echo "$nic comes up after $(mib_copied) MiB"
wait "$download" || fail "the download"
sum_b=$(sha256sum <"$HOSTS_DIR/copy")
[ "$sum_a" = "$sum_b" ] || fail "checksums differ: sent $sum_a received $sum_b"
echo "sha256 on both sides: ${sum_b%% *}"
read -r length after <"$HOSTS_DIR/pause"
echo "the longest gap that curl saw: $length ms, after $after MiB"
until_true "$FAILOVER_PATIENCE" symmetric || fail "the link on $nic does not come back"
smcrctl_on b link
rm "$HOSTS_DIR/copy" "$HOSTS_DIR/www/file"

step "iperf3, both ways"
start_on a "$run" iperf3 -s -B 10.77.0.1 >"$HOSTS_DIR/iperf3.log" 2>&1
until_true 10 tcp_listens a 5201 || fail "iperf3 does not listen"
for way in "b to a:" "a to b: -R"; do
	echo "${way%%:*}:"
	# shellcheck disable=SC2086
	on b "$run" --require iperf3 -c 10.77.0.1 -t "$IPERF_SECONDS" -i 0 ${way#*:} |
		grep -E 'sender|receiver' || fail "iperf3 $way $(cat "$HOSTS_DIR/iperf3.log")"
done

step "what the operator of host b sees"
smcrctl_on b linkgroup
echo
smcrctl_on b link
echo
smcrctl_on b connection
smcrctl_on b -j linkgroup |
	jq -e '.linkgroup[] | select(.type == "symmetric" and .links == 2)' >/dev/null ||
	fail "the link group is not symmetric with two links"

step "what was on the wire between the hosts"
kill "$TCPDUMP_PID"
wait "$TCPDUMP_PID" || true
payload=$(tcp_payload)
clc=$(tcp_payload "&& tcp.payload[0:4] == e2:d4:c3:d9")
roce=$(roce_bytes)
printf 'TCP payload  %14d bytes, of them %d in CLC messages and %d of programs\n' "$payload" "$clc" \
	$((payload - clc))
printf 'RoCEv2       %14d bytes\n' "$roce"
[ "$payload" = "$clc" ] || fail "bytes of programs went over TCP"
[ "$roce" -gt $((SIZE_MB << 20)) ] || fail "the download did not go over RoCE"

printf '\ndemo: everything went over SMC-R\n'
