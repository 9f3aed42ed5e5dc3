# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests/hostile/run: users, and users of other hosts, who make masses of connections, so that others' stay on TCP.
# Sourced there.

# set_rate HOST RATE: from how many short connections a second on its smcrd leaves them on TCP
set_rate() {
	sed -i "s/^short_connection_rate.*/short_connection_rate = $2/" "$HOSTS_DIR/$1.conf"
	ctl "$1" config reload >/dev/null || echo "failed: host $1 does not take another rate"
}

# short_ones USER HOST NUMBER: short connections to port 7001 of host a
short_ones() {
	as "$1" "$2" "$RUN" "$PROGRAMS/echo_client" "$A" 7001 --bytes 100 --repeat "$3"
}

# left_on_tcp HOST CONDITION: are connections of such a place left on TCP?
left_on_tcp() {
	json "$1" policy -e ".policy.learnt | any(.left_on_tcp and .port == 7001 and $2)" >/dev/null
}

# use_smcr NUMBER: do connections of another user of host b to that port use SMC-R, each of them? They are few, as his own
# short connections would be left on TCP too.
use_smcr() {
	local i
	for ((i = 0; i < $1; i++)); do
		as "$OTHER" b "$RUN" -v "$PROGRAMS/echo_client" "$A" 7001 --bytes 100 >"$HOSTS_DIR/other.txt" 2>&1
		# On a busy machine connect() may return before the peer has answered what was promised to it.
		grep -qE '^smcr-run\[.*: (SMC-R$|connected; )' "$HOSTS_DIR/other.txt" || {
			echo "failed: another user of host b has TCP: $(tail -n 1 "$HOSTS_DIR/other.txt")"
			return 1
		}
		sleep 0.5
	done
}

# Users of hosts b and c connect to one port without end. smcrd on host b learns, and leaves its user on TCP; on host c it
# does not, so host a leaves that host's connections on TCP.
attack_shorts() {
	local many host
	many=$(much 500 20000)
	until_true 20 uses_smcr b 7001 || echo "failed: no SMC-R before: $(tail -n 1 "$HOSTS_DIR/other.txt")"
	for host in a b; do set_rate "$host" 2; done # so few that a busy machine makes more
	together short_ones "$ATTACKER" b "$many" -- short_ones "$ATTACKER" b "$many" -- \
		short_ones "$ATTACKER" c "$many" -- short_ones "$ATTACKER" c "$many" -- use_smcr "$(much 8 40)" || in_vain
	left_on_tcp b ".uid == $ATTACKER" || echo "failed: host b has not left the attacker on TCP"
	left_on_tcp a ".peer == \"$C\"" || echo "failed: host a has not left host c on TCP"
	left_on_tcp a ".peer == \"$B\"" && echo "failed: host a has left host b on TCP"
	left_on_tcp b ".uid != $ATTACKER" && echo "failed: host b has left another user on TCP"
	use_smcr 4
	for host in a b; do set_rate "$host" 0; done
	echo "$((4 * many)) short connections"
}

# may_open HOST NUMBER: let its smcrd have so many files open
may_open() {
	local pid=SMCRD_PID_$1
	prlimit --pid "${!pid}" "--nofile=$2:"
	ctl "$1" config reload >/dev/null || echo "failed: host $1 does not take another limit of files"
}

# A user of host b takes all files that smcrd there lets him have, by connections and by requests that he begins, and a
# second one what is left to him.
attack_files() {
	local pid=SMCRD_PID_b before user got
	before=$(prlimit --pid "${!pid}" --nofile --output SOFT --noheadings | tr -d ' ')
	until_true 20 uses_smcr b 7001 || echo "failed: no SMC-R before: $(tail -n 1 "$HOSTS_DIR/other.txt")"
	may_open b 1024
	for user in "$ATTACKER" $((ATTACKER - 1)); do
		hold b setpriv --reuid "$user" --regid "$user" --clear-groups "$RUN" "$PROGRAMS/echo_client" "$A" 7001 \
			--bytes 100 --connections "$(much 400 900)" --way epoll --hold
	done
	hold b nice -n 19 python3 "$HERE/hold_files.py" "$HOSTS_DIR/b.sock" "$ATTACKER" 1000
	until_true 30 held_said 3 ready
	got=$(sed -n 's/^ready //p' "$HOSTS_DIR/held-3.txt")
	until_true 30 is_limited b "$ATTACKER" || echo "failed: user $ATTACKER of host b is at no limit"
	served b 7001 "two users have all files that they can have"
	let_go
	may_open b "$before"
	until_true 20 is_limited b "$ATTACKER" not || echo "failed: user $ATTACKER of host b stays at his limit"
	echo "$(much 800 1800) connections, ${got:-no} sessions with a descriptor each"
}

# is_limited HOST USER [not]: is the user at a limit?
is_limited() {
	json "$1" info -e ".info.limits | any(.uid == $2) | ${3:-.}" >/dev/null
}
