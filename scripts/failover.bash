# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Ways to cut and mend one of the links between the two hosts of scripts/hosts.bash, and the
# connections of tests/programs/steady.c that have to survive that. Sourced by the soak, the demo and
# bats tests. Host a is the server of the link group, host b the client.
#
# A cause is NAME-HOST:
#
#   carrier   the switch's port goes down: the NIC loses its carrier
#   down      the interface is set down
#   remove    the interface disappears; another one with its MAC and address comes back
#   silent    the switch drops RoCE on that port in both directions; nobody is told
#   oneway    the switch drops only RoCE from that host
#   delete, disorderly, disable, failover
#             an operator gives this command on that host
#   stop      the daemon of that host is stopped for a second

# shellcheck disable=SC2034
FAILOVER_CAUSES=(carrier-a silent-a delete-a down-b oneway-b failover-a remove-a disable-b
	carrier-b silent-b delete-b down-a oneway-a failover-b remove-b disable-a
	disorderly-a disorderly-b stop-a stop-b)
# Seconds to wait for a condition. Hosts need much less; a busy machine may need all of it.
FAILOVER_PATIENCE=${FAILOVER_PATIENCE:-60}
# Which link groups are meant, as a condition for jq, if there may be others.
FAILOVER_GROUPS=${FAILOVER_GROUPS:-true}

# ---- what smcrd says

# json HOST OBJECT [JQ OPTIONS..] FILTER: smcrctl -j through jq. It finds the socket by its path, so that no namespace
# has to be entered.
json() {
	local host=$1 object=$2
	shift 2
	"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/$host.sock" -j "$object" | jq -r "$@"
}

ctl() {
	local host=$1
	shift
	"$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/$host.sock" "$@"
}

# symmetric: is there one link group with two links that share no NIC on either side?
symmetric() {
	local host
	for host in a b; do
		symmetric_on "$host" || return 1
	done
}

# groups_meant HOST: the ids of the link groups that are meant, as a JSON array.
groups_meant() {
	json "$1" linkgroup -c "[.linkgroup[] | select($FAILOVER_GROUPS) | .id]"
}

# symmetric_on HOST: does that host say so?
symmetric_on() {
	local groups
	json "$1" linkgroup -e "[.linkgroup[] | select($FAILOVER_GROUPS)] |"' length == 1 and .[0].type == "symmetric"
		and .[0].links == 2' >/dev/null && groups=$(groups_meant "$1") || return 1
	json "$1" link -e --argjson groups "$groups" '[.link[] | select(.linkgroup | IN($groups[]))] | length == 2 and
		all(.state == "active") and ([.[].rnic] | unique | length) == 2' >/dev/null
}

# active_link HOST NIC FILTER: what FILTER says of the active link on that NIC.
active_link() {
	local groups
	groups=$(groups_meant "$1") || return 1
	json "$1" link --argjson groups "$groups" --arg rnic "soft:eth$2" '[.link[] | select(.rnic == $rnic and
		.state == "active" and (.linkgroup | IN($groups[])))][0] | '"$3"
}

# link_on HOST NIC: GROUP/NUMBER of the active link on that NIC.
link_on() {
	active_link "$1" "$2" '"\(.linkgroup)/\(.number)"'
}

# queue_pair HOST NIC: number of the queue pair of the active link on that NIC.
queue_pair() {
	active_link "$1" "$2" .local_qpn
}

# link_is_lost: is the link that CUT_QPN_a and CUT_QPN_b name gone from both hosts?
link_is_lost() {
	local host qpn
	for host in a b; do
		qpn=CUT_QPN_$host
		json "$host" link -e --argjson qpn "${!qpn}" \
			'.link | all(.local_qpn != $qpn or .state != "active")' >/dev/null || return 1
	done
}

# link_is_empty HOST LINK: does no connection of that host write over the link? True also if the link is gone.
link_is_empty() {
	json "$1" link -e --arg link "$2" '[.link[] | select("\(.linkgroup)/\(.number)" == $link) |
		.connections] | all(. == 0)' >/dev/null
}

# ---- cutting and mending

# drop_roce HOST NIC [DIRECTION..]: the switch drops RoCE on the port of that NIC, in these directions
# (iifname: from the host; oifname: to the host).
drop_roce() {
	local port=$1$2 direction
	shift 2
	{
		printf 'table bridge cut {\nchain forward {\ntype filter hook forward priority -10\n'
		for direction in "$@"; do
			echo "$direction $port udp dport 4791 drop"
		done
		printf '}\n}\n'
	} | on sw nft -f -
}

# remove_nic HOST NIC; return_nic HOST NIC
remove_nic() {
	CUT_MAC=$(ip -n "$HOSTS_ID-$1" -j link show "eth$2" | jq -r '.[0].address')
	CUT_MTU=$(ip -n "$HOSTS_ID-$1" -j link show "eth$2" | jq -r '.[0].mtu')
	CUT_ADDR=$(ip -n "$HOSTS_ID-$1" -j -4 addr show "eth$2" |
		jq -r '.[0].addr_info[0] | "\(.local)/\(.prefixlen)"')
	ip -n "$HOSTS_ID-$1" link del "eth$2"
}

return_nic() {
	ip -n "$HOSTS_ID-$1" link add "eth$2" address "$CUT_MAC" mtu "$CUT_MTU" type veth \
		peer name "$1$2" mtu "$CUT_MTU" netns "$HOSTS_ID-sw"
	ip -n "$HOSTS_ID-sw" link set "$1$2" master br0 up
	ip -n "$HOSTS_ID-$1" addr add "$CUT_ADDR" dev "eth$2"
	ip -n "$HOSTS_ID-$1" link set "eth$2" up
}

# command_on HOST ARGUMENTS..: give an operator's command; fail_over prints its output if something fails.
command_on() {
	COMMAND="smcrctl on host $*"
	ctl "$@" >"$HOSTS_DIR/command.out" 2>&1
}

command_fails() {
	echo "$COMMAND: $(cat "$HOSTS_DIR/command.out")" >&2
	return 1
}

# cut CAUSE NIC: cut the link. Returns when that is done, which the daemons may not have noticed yet.
cut() {
	local what=${1%-*} host=${1#*-} nic=$2 pid
	CUT_QPN_a=$(queue_pair a "$nic")
	CUT_QPN_b=$(queue_pair b "$nic")
	CUT_LINK=$(link_on "$host" "$nic")
	case $what in
	carrier) ip -n "$HOSTS_ID-sw" link set "$host$nic" down ;;
	down) ip -n "$HOSTS_ID-$host" link set "eth$nic" down ;;
	remove) remove_nic "$host" "$nic" ;;
	silent) drop_roce "$host" "$nic" iifname oifname ;;
	oneway) drop_roce "$host" "$nic" iifname ;;
	# On a busy machine the link may have failed by itself a moment before.
	delete) command_on "$host" link delete "$CUT_LINK" || cut_took "$1" ;;
	disorderly) command_on "$host" link delete "$CUT_LINK" --disorderly || cut_took "$1" ;;
	disable) command_on "$host" link disable "$CUT_LINK" || cut_took "$1" ;;
	failover)
		command_on "$host" failover "${CUT_LINK%/*}" from "${CUT_LINK#*/}" || cut_took "$1"
		;;
	stop)
		pid=SMCRD_PID_$host
		kill -STOP "${!pid}"
		sleep 1 # the stop has to last a second
		kill -CONT "${!pid}"
		;;
	esac
}

# cut_took CAUSE: is the link gone from both hosts, or, for disable and failover, left by its connections?
cut_took() {
	case ${1%-*} in
	disable | failover) link_is_empty "${1#*-}" "$CUT_LINK" ;;
	stop) return 0 ;;
	*) link_is_lost ;;
	esac
}

# mend CAUSE NIC: undo the cut.
mend() {
	local what=${1%-*} host=${1#*-} nic=$2
	case $what in
	carrier) ip -n "$HOSTS_ID-sw" link set "$host$nic" up ;;
	down) ip -n "$HOSTS_ID-$host" link set "eth$nic" up ;;
	remove) return_nic "$host" "$nic" ;;
	silent | oneway) on sw nft delete table bridge cut ;;
	delete | disorderly) command_on "$host" link add "${CUT_LINK%/*}" || symmetric ;;
	disable) command_on "$host" link enable "$CUT_LINK" || link_is_lost ;;
	failover) command_on "$host" failover "${CUT_LINK%/*}" || link_is_lost ;;
	esac
}

# fail_over CAUSE NIC: cut, wait for the effect, mend, and wait until everything is as before.
fail_over() {
	cut "$1" "$2" || command_fails || return 1
	until_true "$FAILOVER_PATIENCE" cut_took "$1" || {
		echo "$1 nic $2: the link (queue pairs $CUT_QPN_a, $CUT_QPN_b) is still in use" >&2
		return 1
	}
	mend "$1" "$2" || command_fails || return 1
	until_true "$FAILOVER_PATIENCE" symmetric || {
		echo "$1 nic $2: the link group does not become symmetric again" >&2
		return 1
	}
}

# ---- connections

# uses_memory HOST PORT [NUMBER]: have so many connections of that host with that port (1) passed bytes in both directions
# through memory that their programs have mapped? Small messages that come now and then do not.
uses_memory() {
	json "$1" connection -e --arg port ":$2" --argjson number "${3:-1}" '[.connection[] | select(.state == "active" and
		((.peer | endswith($port)) or (.local | endswith($port))) and
		.shared_tx_bytes > 0 and .shared_rx_bytes > 0)] | length >= $number' >/dev/null
}

declare -gA STEADY_PID STEADY_IN

# steady_start NAME HOST [WRAPPER..] -- ARGUMENTS..: run tests/programs/steady; returns when it is
# ready. Its output goes to $HOSTS_DIR/NAME.out.
steady_start() {
	local name=$1 host=$2 in
	local -a wrapper=()
	shift 2
	while [ "$1" != -- ]; do
		wrapper+=("$1")
		shift
	done
	shift
	mkfifo "$HOSTS_DIR/$name.in"
	exec {in}<>"$HOSTS_DIR/$name.in"
	STEADY_IN[$name]=$in
	hosts_exec "$host" "${wrapper[@]}" "$HOSTS_BUILD/tests/programs/steady" "$@" \
		<"$HOSTS_DIR/$name.in" >"$HOSTS_DIR/$name.out" 2>&1 {in}>&- &
	STEADY_PID[$name]=$!
	until_true "$FAILOVER_PATIENCE" steady_is_ready_or_gone "$name"
	grep -q '^ready' "$HOSTS_DIR/$name.out"
}

steady_is_ready_or_gone() {
	grep -qs "^ready" "$HOSTS_DIR/$1.out" || ! kill -0 "${STEADY_PID[$1]}" 2>/dev/null
}

steady_has_marked() {
	grep -q "^mark $2 " "$HOSTS_DIR/$1.out"
}

# steady_mark NAME LABEL: the longest times without arrival since the last mark, in microseconds:
# "PINGPONG BULK LATE". Use each label once.
steady_mark() {
	echo "mark $2" >&"${STEADY_IN[$1]}"
	until_true "$FAILOVER_PATIENCE" steady_has_marked "$1" "$2" || return 1
	awk -v label="$2" '$1 == "mark" && $2 == label { print $4, $6, $8 }' "$HOSTS_DIR/$1.out"
}

# steady_errors NAME..: print the errors that these programs have reported so far; succeeds if there are any.
steady_errors() {
	local name found=1
	for name in "$@"; do
		! grep '^error' "$HOSTS_DIR/$name.out" || found=0
	done
	return "$found"
}

# steady_stop NAME: tell the program to end in order; returns its exit status.
steady_stop() {
	local in=${STEADY_IN[$1]} status=0
	echo stop >&"$in"
	wait "${STEADY_PID[$1]}" || status=$?
	exec {in}>&-
	unset "STEADY_IN[$1]" "STEADY_PID[$1]"
	return "$status"
}
