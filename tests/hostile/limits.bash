# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests/hostile/run: a daemon that meets the limits of its process, and users and peers who meet the limits that smcrd
# sets them. Sourced there.

# crowd: more connections of hosts b and c than the limits allow. They must work, as plain TCP if necessary.
crowd() {
	together on b "$RUN" "$PROGRAMS/echo_client" "$A" 7001 --bytes 1000 --connections 100 -- \
		on c "$RUN" "$PROGRAMS/echo_client" "$A" 7001 --bytes 1000 --connections 100
}

# forget_all: have the hosts forget that SMC-R with another one has failed.
forget_all() {
	local peer
	for peer in "$B" "$C"; do ctl a policy forget "$peer"; done >/dev/null 2>&1
	for peer in b c; do ctl "$peer" policy forget "$A"; done >/dev/null 2>&1
}

# limited NAME SOFT: limit this resource of host a's daemon for a while.
limited() {
	local pid=SMCRD_PID_a before
	alive a || return 0 # judge() tells
	# After the limit before, connections may be plain TCP for a while, and then this one would try nothing.
	forget_all
	until_true 20 uses_smcr b 7001 || echo "failed: no SMC-R before the limit of $1: $(tail -n 1 "$HOSTS_DIR/other.txt")"
	before=$(prlimit --pid "${!pid}" "--$1" --output SOFT --noheadings | tr -d ' ')
	prlimit --pid "${!pid}" "--$1=$2:"
	crowd || in_vain
	prlimit --pid "${!pid}" "--$1=$before:"
}

# sessions: users who keep all sessions that they can have, and ask on each of them without end.
sessions() {
	local user
	for ((user = 0; user < $(much 2 9); user++)); do
		# With nice: it is not about users who take the processors.
		hold b nice -n 19 python3 tests/bats/ask_flood.py "$HOSTS_DIR/b.sock" $((65510 + user)) \
			"$(much 200 1000)" info.show
	done
	held_says '^ready' || echo "failed: $(held)"
	served b 7001 "$user users have all sessions"
	let_go
	session_users=$user
}

listeners_are() {
	json a info -e ".info.tcp_option.listeners == $1" >/dev/null
}

# claims: a user who claims more listeners than a user may have
claims() {
	local before server
	before=$(json a info .info.tcp_option.listeners)
	hold a python3 tests/bats/claim_flood.py "$ATTACKER" "$(much 200 5000)" "$(much 100 9000)" "$A" 7002
	held_says '^ready' || echo "failed: $(held)"
	start_on a setpriv --reuid "$OTHER" --regid "$OTHER" --clear-groups "$RUN" "$PROGRAMS/echo_server" "$A" 7003
	server=$!
	until_true 10 tcp_listens a 7003
	served b 7003 "a user claims listeners without end"
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	let_go
	until_true 20 listeners_are "$before" ||
		echo "failed: $(json a info .info.tcp_option.listeners) listeners are left of $before"
}

# proposed: has host c sent its Proposals, with an answer to each?
proposed() {
	forget_all
	let_go
	hold c python3 tests/bats/clc_attack.py "$A" 7001 propose 64
	held_says accepted
}

# proposals: Proposals that are never followed up
proposals() {
	until_true 10 proposed || echo "failed: $(held)"
	served b 7001 "host c begins link groups and does not go on"
	on c "$RUN" "$PROGRAMS/echo_client" "$A" 7001 --connections 10 >"$HOSTS_DIR/other.txt" 2>&1 ||
		echo "failed: host c has no connections"
	let_go
}

# lingerer HOST SERVER SEED: connections that are broken off in masses
lingerer() {
	as "$ATTACKER" "$1" "$RUN" python3 "$HERE/linger_flood.py" "$2" 7001 "$(much 30 100)" "$(much 2 10)" "$3"
}

lingers() {
	together lingerer a "$B" $((seed + $1)) -- lingerer b "$A" $((seed + $1 + 100)) || in_vain
	[ "$(sum closed)" -gt 0 ] || in_vain
	lingering=$((lingering + $(sum closed)))
}

attack_limits() {
	local pid=SMCRD_PID_a i fds kib session_users=0 lingering=0
	for ((i = 0; i < $(much 1 20); i++)); do
		fds=$(find "/proc/${!pid}/fd" -mindepth 1 | wc -l)
		limited nofile $((fds + RANDOM % 20))
		# Shorter than the log, which gets many lines now, and than the memory that programs map.
		ctl a log trace ipc >/dev/null
		limited fsize $((1 + RANDOM % 1000))
		ctl a log trace off >/dev/null
		case $HOSTS_BUILD in
		*/san) ;; # sanitizers abort a program that gets no memory
		*)
			kib=$(awk '/^VmSize/ { print $2 }' "/proc/${!pid}/status")
			limited as $(((kib + RANDOM % 4096) * 1024))
			;;
		esac
	done
	echo "$i times no descriptors, no file of any length, and no memory"
	for ((i = 0; i < $(much 1 6); i++)); do
		if ! alive a || ! alive b; then break; fi
		sessions
		claims
		proposals
		lingers "$i"
	done
	echo "$i times sessions of $session_users users, listeners, and Proposals; $lingering connections broken off"
}
