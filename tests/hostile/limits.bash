# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests/hostile/run: a daemon that meets the limits of its process. Sourced there.

# crowd: more connections of hosts b and c than the limits allow. They must work, as plain TCP if necessary.
crowd() {
	together on b "$RUN" "$PROGRAMS/echo_client" "$A" 7001 --bytes 1000 --connections 100 -- \
		on c "$RUN" "$PROGRAMS/echo_client" "$A" 7001 --bytes 1000 --connections 100
}

# limited NAME SOFT: limit this resource of host a's daemon for a while.
limited() {
	local pid=SMCRD_PID_a before
	before=$(prlimit --pid "${!pid}" "--$1" --output SOFT --noheadings | tr -d ' ')
	prlimit --pid "${!pid}" "--$1=$2:"
	crowd || in_vain
	prlimit --pid "${!pid}" "--$1=$before:"
}

attack_limits() {
	local pid=SMCRD_PID_a i fds kib
	for ((i = 0; i < $(much 1 10); i++)); do
		fds=$(find "/proc/${!pid}/fd" -mindepth 1 | wc -l)
		limited nofile $((fds + RANDOM % 20))
		case $HOSTS_BUILD in
		*/san) ;; # sanitizers abort a program that gets no memory
		*)
			kib=$(awk '/^VmSize/ { print $2 }' "/proc/${!pid}/status")
			limited as $(((kib + RANDOM % 4096) * 1024))
			;;
		esac
	done
	echo "$i times no descriptors, and no memory"
}
