#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# RDMA connections by address and port, as operators see them: smcrctl check --cm, smcrctl cm, counters, events, the trace and
# captures.
bats_require_minimum_version 1.5.0
load common

# check_cm HOST ARGUMENTS..: a JSON document of `smcrctl check --cm`, whatever its exit status.
check_cm() {
	local host=$1
	shift
	smcrctl_on "$host" -j check --cm "$@" || true
}

# metric HOST SAMPLE: the value of a sample of `smcrctl metrics`.
metric() {
	smcrctl_on "$1" metrics | awk -v sample="$2" '$1 == sample { print $2 }'
}

# two_hosts: two daemons on hosts whose NICs answer ARP for their own addresses only: unlike links of SMC-R, whose CLC messages tell
# MACs, these connections find the peer's NIC by ARP.
two_hosts() {
	hosts_up 1500
	chmod 711 "$HOSTS_DIR"
	arp_own_only a
	arp_own_only b
	printf 'rnic = soft:eth%d\n' 0 1 >"$HOSTS_DIR/a.conf" # so that one can be removed
	smcrd_start a
	smcrd_start b
}

@test "a port without a listener is refused at once, and all who look see why" {
	two_hosts
	smcrctl_on a log trace cm >/dev/null
	# It may begin after the check.
	start_on a "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" monitor --number 20 >"$HOSTS_DIR/monitor"
	monitor=$!
	start_on a "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" capture -w "$HOSTS_DIR/cm.pcapng" \
		2>"$HOSTS_DIR/capture.err"
	capture=$!
	until_true 10 grep -q capturing "$HOSTS_DIR/capture.err"

	SECONDS=0
	run -1 smcrctl_on a check --cm "$CLIENT" 7471
	[ "$SECONDS" -lt 5 ] # a repeated request would take longer
	grep -qF "ok: $CLIENT is reached over RNIC soft:eth0, from $SERVER" <<<"$output"
	grep -qF 'ok: the connection manager there answers, after ' <<<"$output"
	grep -qF 'problem: the peer has refused: nobody listens on that port (REJ 8); start the server' <<<"$output"
	grep -qF "problem: an RDMA connection to $CLIENT port 7471 cannot be made, for the reason above" <<<"$output"

	# it has ended, with its reason; administrators see the numbers of queue pairs
	[ "$(show a cm '.connections | length')" = 1 ]
	[ "$(show a cm '.connections[0] | "\(.id) \(.state) \(.direction) \(.peer) \(.rnic) \(.end) \(.reject_code) \(.reject_reason)"')" = \
		"1 ended active $CLIENT:7471 soft:eth0 no-listener 8 invalid-service-id" ]
	[ "$(show a cm '.connections[0].local_qpn > 1')" = true ]
	[ "$(on a setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" -j cm |
		jq -c '.cm.connections[0] | [.local_qpn, .local_id, .private_data]')" = '[null,null,null]' ]
	smcrctl_on a -d cm show peer "$CLIENT" port 7471 state ended | grep -qF '8 invalid-service-id'
	[ "$(smcrctl_on a cm show port 7472 | wc -l)" = 1 ] # the titles alone

	# counters of both sides
	[ "$(show a stats '.cm | "\(.connections_now) \(.failed) \(.sent.REQ) \(.received.REJ)"')" = '0 1 1 1' ]
	[ "$(show b stats '.cm | "\(.refused) \(.received.REQ) \(.sent.REJ)"')" = '1 1 1' ]
	[ "$(metric a 'smcrd_cm_messages_total{type="REJ",direction="received"}')" = 1 ]
	[ "$(metric b smcrd_cm_requests_refused_total)" = 1 ]

	# events, as they happen and later
	until_true 5 grep -q "cm-down .*RDMA connection $SERVER:[1-9][0-9]* to $CLIENT:7471 on soft:eth0 has ended: the peer has refused" \
		"$HOSTS_DIR/monitor"
	kill -INT "$monitor"
	wait "$monitor"
	shows b event 'any(.event == "cm-refused" and .peer == "'"$SERVER"'" and .rnic == "soft:eth0")'

	# the trace
	grep -q "cm: sent to $CLIENT, soft:eth0: REQ to port 7471, from $SERVER:[0-9]* to $CLIENT, " "$HOSTS_DIR/a.log"
	grep -q "cm: received from $CLIENT, soft:eth0: REJ of the REQ, reason 8: nobody listens on that port" "$HOSTS_DIR/a.log"

	# tshark reads the two messages of the capture
	kill -INT "$capture"
	wait "$capture"
	grep -qx 'smcrctl: 2 messages captured, 0 lost' "$HOSTS_DIR/capture.err"
	tshark -r "$HOSTS_DIR/cm.pcapng" -T fields -e ip.src -e ip.dst -e infiniband.deth.q_key -e infiniband.bth.destqp \
		-e _ws.col.Info -e infiniband.cm.rej.reason >"$HOSTS_DIR/tshark" 2>/dev/null
	diff "$HOSTS_DIR/tshark" - <<-END
	$SERVER	$CLIENT	0x0000000080010000	0x000001	CM: ConnectRequest	
	$CLIENT	$SERVER	0x0000000080010000	0x000001	CM: ConnectReject	0x0008
	END
}

@test "a check says how far it came: no route, no answer, and who may not ask" {
	two_hosts
	run -1 smcrctl_on a check --cm 127.0.0.1 80
	grep -q '^problem: .*ip route get' <<<"$output"
	[ "$(check_cm a 127.0.0.1 80 | jq -c '.check | [.connected, .rnic, .answer_us]')" = '[false,null,null]' ]

	# what is dropped is not answered
	block_roce b
	SECONDS=0
	[ "$(check_cm a "$CLIENT" 80 | jq -r '.check | "\(.connected) \(.rnic) \(.end) \(.answer_us)"')" = \
		'false soft:eth0 timeout null' ]
	[ "$SECONDS" -ge 5 ]

	run -1 on a setpriv --reuid 65534 --regid 65534 --clear-groups "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" check --cm "$CLIENT" 80
	grep -q 'problem: smcrd does not try it: this is for root' <<<"$output"
	run -2 smcrctl_on a check --cm "$CLIENT"
	run -2 smcrctl_on a check --cm "$CLIENT" 80 program /bin/sh
	run -2 smcrctl_on a cm --cm
}

@test "a check whose caller goes, and one whose RNIC goes, leave nothing behind" {
	two_hosts
	block_roce b
	start_on a "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" check --cm "$CLIENT" 80 >/dev/null
	caller=$!
	until_true 5 shows a cm '.connections | any(.state == "asking")'
	kill -KILL "$caller"
	wait "$caller" || true
	until_true 5 shows a cm '.connections | all(.state == "ended")'

	start_on a "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" -j check --cm "$CLIENT" 81 >"$HOSTS_DIR/check"
	caller=$!
	until_true 5 shows a cm '.connections | any(.state == "asking")'
	smcrctl_on a device remove soft:eth0
	wait "$caller" || true
	[ "$(jq -r .check.end "$HOSTS_DIR/check")" = local ]
	[ "$(show a cm '.connections | map(.state) | unique[]')" = ended ]
}
