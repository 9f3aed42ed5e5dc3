#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demonstration of SMB Direct: Samba's server on one host (network namespace) and its client on another, both unmodified, which only
# know TCP. A gateway in the smcrd of either host puts SMB Direct between them, on software RNICs. Prints what an operator sees and what
# was on the wire. Needs root. Cleans up, also when interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash
# shellcheck source=scripts/smb.bash
. scripts/smb.bash

SIZE_MB=${DEMO_SIZE_MB:-64}

fail() {
	trap - ERR
	echo "demo-smb: FAILED: $*" >&2
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
trap 'trap "" INT TERM HUP; echo "demo-smb: interrupted" >&2; exit 130' INT TERM HUP
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

[ "$(id -u)" = 0 ] || fail "needs root: network namespaces and UDP port 4791 (sudo make demo-smb)"
why=$(smb_can) || fail "$why"

# ---- what crosses the wire between the hosts, captured on the bridge

watch_wire() {
	start_on sw tcpdump -i br0 -s 128 -B 65536 -w "$HOSTS_DIR/wire.pcap" --immediate-mode \
		'udp port 4791 or tcp' 2>"$HOSTS_DIR/tcpdump.log"
	TCPDUMP_PID=$!
	until_true 10 grep -q 'listening on' "$HOSTS_DIR/tcpdump.log" || fail "tcpdump does not start"
}

# wire: kinds of requests, their frames and bytes; 16 bytes of each are header and checksum. A frame here may be several packets for a
# real NIC, which cuts it.
wire() {
	tshark -r "$HOSTS_DIR/wire.pcap" -T fields -e infiniband.bth.opcode -e udp.length -e tcp.len 2>/dev/null |
		awk -F '\t' '
		$3 != "" { tcp += $3; next }
		$1 == "" { next }
		{ op = $1 + 0; len = $2 - 8 - 16 }
		op <= 5 || op == 22 || op == 23 { n["SEND"]++; b["SEND"] += len; next }
		op >= 6 && op <= 11 { n["RDMA WRITE"]++; b["RDMA WRITE"] += len; next }
		op == 12 { n["RDMA READ, request"]++; next }
		op >= 13 && op <= 16 { n["RDMA READ, response"]++; b["RDMA READ, response"] += len; next }
		{ n["acknowledgement and other"]++ }
		END {
			for (kind in n) printf "%-28s %8d frames %12d bytes\n", kind, n[kind], b[kind]
			printf "%-28s %8s        %12d bytes\n", "TCP", "", tcp
		}' | sort
}

# frames KIND: how many, of what wire() has printed.
frames() {
	sed -n "s/^$1  *\([0-9]*\) frames.*/\1/p" "$HOSTS_DIR/wire"
}

# ---- the show

step "two hosts: smbd on host a, a gateway in smcrd on both, smbclient on host b"
hosts_up
watch_wire
smb_gateways
smb_share
smbd_start || fail "smbd does not listen: $(cat "$HOSTS_DIR/samba/smbd.out")"
echo "host a:"
grep ^smb "$HOSTS_DIR/a.conf"
echo "host b:"
grep ^smb "$HOSTS_DIR/b.conf"

step "smbclient on host b connects to 127.0.0.1:$SMB_DOOR; it puts $SIZE_MB MiB and gets them again"
cd "$HOSTS_DIR"
head -c $((SIZE_MB << 20)) /dev/urandom >file
smb 'put file; get file back; ls' || fail "smbclient"
sum=$(sha256sum <file)
for copy in share/file back; do
	[ "$(sha256sum <"$copy")" = "$sum" ] || fail "$copy differs"
done
echo "sha256 of the file, of what smbd has stored and of what came back: ${sum%% *}"

step "the same encrypted: the data are inside the messages"
smb --client-protection=encrypt 'get file again' || fail "smbclient"
[ "$(sha256sum <again)" = "$sum" ] || fail "the copy differs"
echo "sha256 of what came back: ${sum%% *}"

step "what the operator of host a sees"
smcrctl_on a smbdirect
echo
smcrctl_on a event | grep 'SMB Direct' || fail "no event"
[ "$(smcrctl_on a -j stats | jq '.stats.smbdirect.rdma_read_rx_bytes, .stats.smbdirect.rdma_write_tx_bytes' | sort -u)" = \
	$((SIZE_MB << 20)) ] || fail "the file did not go by RDMA"

step "what was on the wire between the hosts"
kill "$TCPDUMP_PID"
wait "$TCPDUMP_PID" || true
wire | tee "$HOSTS_DIR/wire"
for kind in SEND 'RDMA WRITE' 'RDMA READ, request' 'RDMA READ, response'; do
	[ "$(frames "$kind")" -gt 0 ] || fail "no $kind on the wire"
done
grep -q '^TCP .* 0 bytes$' "$HOSTS_DIR/wire" || fail "something went over TCP"

printf '\ndemo-smb: every byte of SMB went by SMB Direct\n'
