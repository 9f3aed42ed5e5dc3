# shellcheck shell=bash disable=SC2016,SC2153 # jq has variables too; CLIENT and SERVER are matrix.sh's
# SPDX-License-Identifier: MIT
# Cells in which link groups begin, sourced after cells.bash and cells-end.bash: over IPv6, with one RNIC on a side, with
# RoCE lost, and with unusual versions, EIDs and dialects.

no_groups() {
	views "$CLIENT" '.linkgroup == []' && views "$SERVER" '.linkgroup == []'
}

# groups_end: end all groups that an operator can end.
groups_end() {
	local n id
	for n in "$CLIENT" "$SERVER"; do
		has_smcrd "$n" || continue
		for id in $(view "$n" | jq '.linkgroup[].id'); do smcrctl_on "$n" linkgroup delete "$id" || true; done
	done
	until_true 30 no_groups && return
	echo "there are groups left"
	both_sides
	return 1
}

# falls_back: the connection must be TCP, lose no byte, and leave no group.
falls_back() {
	MAY_BE_TCP=yes flow echo 20 || return
	until_true 30 no_groups && return
	echo "a group is left"
	both_sides
	return 1
}

# ---- IPv6

# Neither side offers version 2 over IPv6, so this is a separate group if the other connections use version 2. It has to
# end, because other cells expect one group.
cell_ipv6() {
	if [[ $C$S = *K* && $LAB_VERSION = 2 ]]; then
		MAY_BE_TCP=yes flow_to "fd88::$SERVER" echo 20
	else
		flow_to "fd88::$SERVER" echo 20 && flow_to "fd88::$SERVER" bulk 200000 && groups_end && as_before
	fi
}

# ---- one RNIC against two

agree_on_one() {
	VIEWS=$(view_pair) &&
		jq -e '.client == .server and .client.type != "symmetric" and (.client.links | length) >= 1' \
			<<<"$VIEWS" >/dev/null
}

begin_with_one() {
	local status=0
	groups_end && nic_is_down "$1" 1 || return
	cut_begins
	flow echo 20 || status=1
	until_true 30 agree_on_one || { echo "no agreement on one NIC"; jq . <<<"$VIEWS"; both_sides; status=1; }
	nic_is_up "$1" 1 || status=1
	until_true 60 both_symmetric || { echo "not symmetric with two NICs"; both_sides; status=1; }
	cut_ends
	return "$status"
}

cell_one-client() { begin_with_one "$CLIENT"; }
cell_one-server() { begin_with_one "$SERVER"; }

# ---- RoCE lost in first contact

# roce_lost HOST: drop the RoCE packets that the host sends.
roce_lost() {
	ip netns exec "$LAB" nft -f - <<-EOT
	table bridge cut {
		chain forward {
			type filter hook forward priority -10
			iifname { host${1}0, host${1}1 } udp dport 4791 drop
		}
	}
	EOT
}

begin_without_roce() {
	local status=0
	groups_end || return
	cut_begins
	roce_lost "$1"
	falls_back || status=1
	path_alive
	as_before || status=1
	cut_ends
	return "$status"
}

cell_fallback-there() { begin_without_roce "$CLIENT"; }
cell_fallback-back() { begin_without_roce "$SERVER"; }

# ---- configured versions, EIDs and dialects

# smcrd_again HOST LINE..: restart smcrd with these lines in its configuration.
smcrd_again() {
	has_smcrd "$1" || return 0
	daemon_stop "$1" || echo "smcrd of host $1 does not stop in order"
	daemon_start "$@"
}

# with_lines CLIENT'S SERVER'S COMMAND..: run COMMAND with additional lines in each smcrd's configuration.
with_lines() {
	local client=$1 server=$2 status=0
	shift 2
	cut_begins
	smcrd_again "$CLIENT" "$client" && smcrd_again "$SERVER" "$server" && until_true 30 no_groups || status=1
	[ "$status" = 1 ] || "$@" || status=1
	smcrd_again "$CLIENT" && smcrd_again "$SERVER" && until_true 30 no_groups || status=1
	as_before || status=1
	cut_ends
	return "$status"
}

# is_smcr KEY VALUE: a connection must be SMC-R, and in an smcrd's view this key of its group must have this value.
is_smcr() {
	local n=$CLIENT
	has_smcrd "$n" || n=$SERVER
	flow echo 20 || return
	views "$n" --arg key "$1" --arg value "$2" '.linkgroup | length == 1 and (.[0][$key] | tostring) == $value' && return
	echo "the group is not of $1 $2"
	both_sides
	return 1
}

# The kernel has no other dialect than the deployed one.
cell_dialect-rfc() {
	local line='dialect = rfc'
	case $C$S in
	*K*) with_lines "$line" "$line" falls_back ;;
	*) with_lines "$line" "$line" is_smcr dialect rfc ;;
	esac
}

cell_dialect-deployed() {
	with_lines 'dialect = deployed' 'dialect = deployed' is_smcr dialect deployed
}

cell_versions() {
	local one='versions = 1' two=$'versions = 2\nueid = '$LAB_UEID
	case $C$S$LAB_VERSION in
	*K*2) with_lines "$one" "$one" falls_back ;;
	*K*1) with_lines "$two" "$two" falls_back ;;
	*) with_lines "$one" "$two" falls_back ;;
	esac
}

# Version 1 needs no UEID in common.
cell_ueid() {
	local n status=0 other='ueid = ANOTHER.EID' same="ueid = $LAB_UEID"
	if [[ $C$S = *K* && $LAB_VERSION = 2 ]]; then
		with_lines "$other" "$other" falls_back
		return
	fi
	for n in "$CLIENT" "$SERVER"; do
		has_smcrd "$n" || kernel_ueid "$n" ueid || return
	done
	with_lines "$other" "$same" is_smcr version 1 || status=1
	for n in "$CLIENT" "$SERVER"; do
		has_smcrd "$n" || kernel_ueid "$n" ueid-remove || status=1
	done
	return "$status"
}

kernel_ueid() {
	on "$1" "$VM_TOP/$LAB_BUILD/tests/interop/smcnl" "$2" KERNEL.EID
}
