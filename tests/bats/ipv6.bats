#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# TCP connections over IPv6. The RNICs are those of the same interfaces. RoCE between them may use IPv4 or IPv6,
# whatever the TCP connection uses.
bats_require_minimum_version 1.5.0
load common

SERVER6=fd00:77::1 # host a, eth0; eth1 has fd00:77::11
CLIENT6=fd00:77::2 # host b

# addresses6 PREFIX_LEN_A PREFIX_LEN_B
addresses6() {
	local nic
	for nic in 0 1; do
		ip -n "$HOSTS_ID-a" addr add "fd00:77::${nic}1/$1" dev "eth$nic" nodad
		ip -n "$HOSTS_ID-b" addr add "fd00:77::${nic}2/$2" dev "eth$nic" nodad
	done
}

fetch() { # URL [CURL OPTIONS..]
	on b "$RUN" --require curl -gsS -o "$HOSTS_DIR/copy" "${@:2}" "$1"
}

@test "IPv6: a file comes over SMC-R, no byte of it over TCP; the program sees its addresses" {
	hosts_up 1500
	addresses6 64 64
	smcrd_start a
	smcrd_start b
	capture_start sw br0 tcp tcp port 8080
	web_server a '[::]' "$RUN"
	random_file "$HOSTS_DIR/www/file" 16
	said=$(fetch "http://[$SERVER6]:8080/file" -w '%{remote_ip} %{local_ip} %{http_code}')
	[ "$said" = "$SERVER6 $CLIENT6 200" ]
	cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
	shows b connection '[.[] | select(.mode == "smcr" and .peer == "['"$SERVER6"']:8080" and
		.rx_bytes > 16777216)] | length == 1'
	until_true 60 shows a linkgroup 'length == 1 and .[0].type == "symmetric" and .[0].links == 2'
	until_true 5 eval '[ -n "$(capture_fields tcp "ipv6 && tcp.flags.fin == 1" tcp.len)" ]'
	[ -n "$(capture_fields tcp "ipv6 && tcp.payload[0:4] == e2:d4:c3:d9" tcp.len)" ]
	[ -z "$(capture_fields tcp "tcp.len > 0 && !(tcp.payload[0:4] == e2:d4:c3:d9)" tcp.len)" ]
	proves GEN-1 GEN-3
}

@test "IPv6 with a blocking connect()" {
	hosts_up 1500
	addresses6 64 64
	smcrd_start a
	smcrd_start b
	web_server a '[::]' "$RUN"
	echo hello >"$HOSTS_DIR/www/hello"
	on b "$RUN" --require /usr/bin/python3 - "$SERVER6" "$CLIENT6" <<-'EOF'
	import socket, sys
	with socket.create_connection((sys.argv[1], 8080)) as connection:
	    assert connection.getpeername()[:2] == (sys.argv[1], 8080)
	    assert connection.getsockname()[0] == sys.argv[2]
	    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET6
	    connection.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
	    assert connection.makefile("rb").read().endswith(b"\r\n\r\nhello\n")
	EOF
	[ "$(show b info .connections.established_total)" = 1 ]
	proves GEN-1
}

@test "connections over IPv4 and IPv6 share a link group, whichever came first; IPv4 to a dual listener" {
	for first in "$SERVER" "[$SERVER6]"; do
		hosts_up 1500
		addresses6 64 64
		smcrd_start a
		smcrd_start b
		web_server a '[::]' "$RUN"
		sed -i 's/listen \[::\]:8080/listen [::]:8080 ipv6only=off/' "$HOSTS_DIR/nginx.conf"
		kill "$WEB_PID"
		wait "$WEB_PID" || true
		start_on a "$RUN" nginx -c "$HOSTS_DIR/nginx.conf" -e "$HOSTS_DIR/nginx.log"
		until_true 10 tcp_listens a 8080
		random_file "$HOSTS_DIR/www/file" 1
		for address in "$first" "$SERVER" "[$SERVER6]" "$SERVER"; do
			fetch "http://$address:8080/file"
			cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
		done
		shows a linkgroup 'length == 1'
		shows b linkgroup 'length == 1'
		[ "$(show b info .connections.established_total)" = 4 ]
		hosts_down
	done
	proves GEN-1
}

@test "addresses that come later count; without a common prefix: declined, plain TCP" {
	hosts_up 1500
	smcrd_start a
	smcrd_start b
	web_server a '[::]' "$RUN"
	random_file "$HOSTS_DIR/www/file" 1
	addresses6 64 64
	until_true 5 fetch "http://[$SERVER6]:8080/file"
	hosts_down
	hosts_up 1500
	addresses6 64 120
	smcrd_start a
	smcrd_start b
	web_server a '[::]' "$RUN"
	random_file "$HOSTS_DIR/www/file" 1
	run ! fetch "http://[$SERVER6]:8080/file"
	on b "$RUN" curl -gsS -o "$HOSTS_DIR/copy" "http://[$SERVER6]:8080/file"
	cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy"
	shows a connection '[.[] | select(.fallback_reason == "prefix-mismatch")] | length >= 1'
	proves GEN-1 RV-3
}
