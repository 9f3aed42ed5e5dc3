# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="BIRD: BGP between two hosts, routes that come and go, a session restarted, a neighbour that is gone, TTL security; sessions signed with TCP's MD5 option, with the right key and with a wrong one, which stay on TCP"
PACKAGES=(bird2)
LIMIT=60
ROUTES=500

# configure HOST OWN PEER WORDS: its routes are 10.101.x.y/32 or 10.102.x.y/32
configure() {
	local host=$1 own=$2 peer=$3 i
	cat >"$host.conf" <<-END
	router id $own;
	log "$DIR/bird.$host.log" all;
	protocol device {}
	protocol static {
		ipv4;
	$(for ((i = 0; i < ROUTES; i++)); do
		echo "route 10.10${own##*.}.$((i / 250)).$((i % 250))/32 blackhole;"
	done)
	}
	protocol bgp session {
		local $own as 6500${own##*.};
		neighbor $peer as 6500${peer##*.};
		$4
		connect retry time 1; connect delay time 1; error wait time 1, 2;
		ipv4 { import all; export where source = RTS_STATIC; };
	}
	END
}

start_bird() {
	start_under "$1" bird -f -c "$DIR/$1.conf" -s "$DIR/$1.ctl" -P "$DIR/$1.pid"
	birds+=($!)
}

# sessions WORDS_A WORDS_B: start a BIRD on each host
sessions() {
	birds=()
	configure a "$SERVER" "$CLIENT" "$1"
	configure b "$CLIENT" "$SERVER" "$2"
	start_bird a
	start_bird b
}

sessions_end() {
	local pid
	for pid in "${birds[@]}"; do stop "$pid"; done
	result "$1.ends" "$STATUS"
}

ask() {
	on "$1" birdc -s "$DIR/$1.ctl" "${@:2}" 2>/dev/null
}

# knows HOST NUMBER: has it so many routes of its neighbour?
knows() {
	[ "$(ask "$1" show route protocol session count | grep -oE '^[0-9]+ of' | head -n 1)" = "$2 of" ]
}

up() {
	right "$1.a" until_true 30 knows a "$ROUTES"
	right "$1.b" until_true 30 knows b "$ROUTES"
}

established() {
	smcrctl_on b -j info | jq .info.connections.established_total
}

plain_session() {
	sessions "" ""
	up plain
	ask a disable static1 >/dev/null
	right withdrawn until_true 20 knows b 0
	ask a enable static1 >/dev/null
	up again
	ask b restart session >/dev/null
	up restarted
	kill -KILL "${birds[0]}"
	right gone until_true 30 knows b 0
	start_bird a
	up back
	sessions_end plain
}

# wrongly_signed: has a host received segments with a wrong signature? This was the case for no earlier session.
wrongly_signed() {
	[ "$(on a nstat -asz TcpExtTCPMD5Failure | awk '/MD5Failure/ { print $2 }')" -gt 0 ]
}

# SMC-R would take a signed session past its signature.
signed_session() {
	local before
	[ "$MODE" != smcr ] || before=$(established)
	sessions 'password "secret";' 'password "secret";'
	up signed
	ask b restart session >/dev/null
	up signed.restarted
	sessions_end signed
	sessions 'password "secret";' 'password "other";'
	right refused until_true 30 wrongly_signed
	result refused.state "$(knows b 0 && echo no routes)"
	sessions_end refused
	[ "$MODE" != smcr ] || [ "$(established)" = "$before" ] || fault "a signed session went over SMC-R"
}

run() {
	local birds
	plain_session
	sessions "ttl security on;" "ttl security on;"
	up ttl
	sessions_end ttl
	signed_session
}
