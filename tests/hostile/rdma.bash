# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests/hostile/run: RDMA connections between hosts d, e and g, beside the traffic of hosts a and b, and an attacker
# on host f. Sourced there.
# shellcheck disable=SC2154 # HOSTS_ID, HOSTS_DIR and the like are of the files that run sources too

RDMA_PORT=7300
RDMA_D=10.77.0.4 RDMA_E=10.77.0.5 RDMA_F=10.77.0.6

rdma_path() {
	echo "$HOSTS_DIR/rdma-$1.txt"
}

# rdma_start NAME HOST ARGUMENTS..: start rdma_keeper; $! is its process.
rdma_start() {
	local name=$1 host=$2
	shift 2
	start_on "$host" "$TOOLS/rdma_keeper" "$@" >"$(rdma_path "$name")" 2>&1
}

rdma_says() {
	grep -q "$2" "$(rdma_path "$1")"
}

# rdma_hosts: hosts with one NIC each. The NICs of a and b are on one LAN, so each has to answer ARP for itself.
rdma_hosts() {
	local host n=4
	for host in a b; do on "$host" sysctl -qw net.ipv4.conf.all.arp_ignore=1; done
	for host in d e f g; do
		[ -e "/run/netns/$HOSTS_ID-$host" ] || {
			hosts_join "$host" "$n"
			ip -n "$HOSTS_ID-$host" link del eth1
		}
		n=$((n + 1))
	done
}

# rdma_word WORD NAME: print the number behind this word in the last line of the program.
rdma_word() {
	tail -n 1 "$(rdma_path "$2")" | awk -v word="$1" '{ for (i = 1; i < NF; i++) if ($i == word) print $(i + 1) }'
}

# rdma_asks: host b asks the connection manager of host a again and again, where nobody listens, and gets an answer each
# time.
rdma_asks() {
	local until=$((SECONDS + $1)) asked=0 failed=0 answer
	while [ $SECONDS -lt $until ]; do
		asked=$((asked + 1))
		answer=$(on b "$HOSTS_BUILD/bin/smcrctl" check "$A" 9 --cm 2>&1)
		[[ "$answer" == *"nobody listens on that port"* ]] && continue
		failed=$((failed + 1))
		echo "$answer"
	done
	echo "asked=$asked failed=$failed"
	[ $failed -eq 0 ]
}

# rdma_counts: print what host a's smcrd has counted: requests, refusals, messages that are dropped, packets of wrong forms
# and packets without the right.
rdma_counts() {
	json a stats '.stats | [(.cm | .received.REQ, .refused, .dropped),
		(.devices | map(.drop_malformed) | add), (.devices | map(.drop_access) | add)] | join(" ")'
}

# rdma_more BEFORE AFTER: has each of the numbers grown?
rdma_more() {
	paste -d ' ' <(tr ' ' '\n' <<<"$1") <(tr ' ' '\n' <<<"$2") | awk '{ if ($2 <= $1) less = 1 } END { exit less }'
}

rdma_attacker() {
	on f nice -n 19 "$TOOLS/rdma_attacker" "$RDMA_F" "$RDMA_D" "$RDMA_PORT" "$@" "$seed" "$RDMA_E" "$RDMA_D" "$A" "$B"
}

# rdma_slow NAME: print by how much the longest round of the client was too long, if it was.
rdma_slow() {
	local longest late
	longest=$(rdma_word longest "$1")
	late=$(rdma_word late "$1")
	[ "${longest:-999999}" -le $((GAP_MS + 4 * ${late:-0})) ] ||
		echo "failed: a round of $1 took $longest ms; its timers were up to $late ms late"
}

attack_rdma() {
	local seconds server keep visit before after resident_before
	local -a knows
	seconds=$(much 8 60)
	rdma_hosts
	rdma_start server d serve soft:eth0 "$RDMA_D" "$RDMA_PORT"
	server=$!
	until_true 10 rdma_says server listening || echo "failed: no server: $(cat "$(rdma_path server)")"
	rdma_start keep e keep soft:eth0 "$RDMA_D" "$RDMA_PORT" $((seconds + 1))
	keep=$!
	until_true 10 rdma_says keep knows || echo "failed: no connection to attack: $(cat "$(rdma_path keep)")"
	read -ra knows < <(sed -n 's/^knows //p' "$(rdma_path keep)")
	rdma_start visit g visit soft:eth0 "$RDMA_D" "$RDMA_PORT" "$seconds"
	visit=$!
	before=$(rdma_counts)
	resident_before=$(resident a)
	together rdma_attacker "${knows[@]}" "$seconds" -- rdma_asks "$seconds" || in_vain
	wait "$keep" || echo "failed: $(tail -n 1 "$(rdma_path keep)")"
	wait "$visit" || echo "failed: $(tail -n 1 "$(rdma_path visit)")"
	kill -TERM "$server"
	wait "$server" || echo "failed: the server has ended: $(tail -n 1 "$(rdma_path server)")"
	rdma_slow keep
	rdma_slow visit
	[ "$(rdma_word failed visit)" = 0 ] ||
		echo "failed: $(rdma_word failed visit) of another host's connections were $(grep '^not made' "$(rdma_path visit)" | tail -n 1)"
	[ "$(sum refused)" -gt 0 ] || in_vain
	after=$(rdma_counts)
	rdma_more "$before" "$after" || echo "failed: host a counted $before before, and $after after"
	case $HOSTS_BUILD in
	*/san) ;; # sanitizers keep freed memory
	*) [ "$(resident a)" -lt $((resident_before + 100)) ] || echo "failed: $resident_before MiB became $(resident a)" ;;
	esac
	echo "$(sum mads) datagrams to queue pairs 1, $(sum forged) in the name of others, $(sum offences) offences on own" \
		"connections; $(rdma_word rounds keep) rounds of an RDMA connection, $(rdma_word rounds visit) connections of" \
		"another host"
}
