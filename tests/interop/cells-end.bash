# shellcheck shell=bash disable=SC2016,SC2153 # jq has variables too; CLIENT and SERVER are matrix.sh's
# SPDX-License-Identifier: MIT
# Cells in which link groups end, sourced after cells.bash: an smcrd, both NICs or the kernel's module go and come back, or
# a host stands still.

group_is_gone() {
	views "$1" --arg role "$2" 'all(.linkgroup[]; .role != $role)'
}

no_steady_left() {
	job_has_ended "$CLIENT" steady-client
}

# After a failure of RoCE smcrd leaves the peer on TCP for a while, so this has to be repeated.
flow_again() {
	flow echo 10
}

# as_before: wait until a connection uses SMC-R, with two links.
as_before() {
	until_true 40 flow_again || { echo "no SMC-R afterwards"; return 1; }
	until_true 40 both_symmetric && return
	echo "not symmetric afterwards"
	both_sides
	return 1
}

# resets DO GONE UNDO: DO must reset the connections on both sides, and make GONE true; after UNDO all must be as before.
resets() {
	local status=0
	steady_start --bulk 1 --pingpong 1 || return
	cut_begins
	$1 || { echo "$1 failed"; status=1; }
	until_true 60 no_steady_left || { echo "the client's connections are not reset"; status=1; }
	job_kill "$SERVER" steady-server TERM
	job_wait "$SERVER" steady-server 20 && { echo "the server has seen no reset"; status=1; }
	until_true 40 "$2" || { echo "a group is kept"; both_sides; status=1; }
	show_jobs steady-server steady-client
	$3 || { echo "$3 failed"; status=1; }
	as_before || status=1
	cut_ends
	return "$status"
}

# ---- an smcrd that goes and comes back

smcrd_stops() { daemon_stop "$RESTART"; }
smcrd_is_killed() { daemon_stop "$RESTART" KILL || true; }
smcrd_starts() { daemon_start "$RESTART"; }
client_has_no_group() { group_is_gone "$CLIENT" client; }
server_has_no_group() { group_is_gone "$SERVER" server; }

# restart HOST GONE: stop smcrd in order, then kill it; each time GONE must become true, as the peer's group ends.
restart() {
	RESTART=$1
	resets smcrd_stops "$2" smcrd_starts && resets smcrd_is_killed "$2" smcrd_starts
}

cell_restart-client() { restart "$CLIENT" server_has_no_group; }
cell_restart-server() { restart "$SERVER" client_has_no_group; }

reason_restart() {
	[ "$1" != K ] || echo "the kernel's SMC-R has no daemon"
}

reason_restart-client() { reason_restart "$C"; }
reason_restart-server() { reason_restart "$S"; }

# ---- both NICs

both_down() { nic_is_down "$1" 0 && nic_is_down "$1" 1; }
both_up() { nic_is_up "$1" 0 && nic_is_up "$1" 1; }
client_both_down() { both_down "$CLIENT"; }
client_both_up() { both_up "$CLIENT"; }
server_both_down() { both_down "$SERVER"; }
server_both_up() { both_up "$SERVER"; }
# The kernel's group may end only when the NICs are back, because it waits until all its requests have completed
# (docs/interop.md).
no_group_left() {
	{ [ "$C" = K ] || client_has_no_group; } && { [ "$S" = K ] || server_has_no_group; }
}
cell_both-client() { resets client_both_down no_group_left client_both_up; }
cell_both-server() { resets server_both_down no_group_left server_both_up; }

reason_both-client() { reason_rxe; }

# ---- the kernel's module

module() {
	on "$1" bash -c ". /mnt/env && . $VM_HERE/guest/smc.bash && $2"
}

# module_again HOST GONE: unload the kernel's module, which must end the group on the other side too, and load it again.
module_again() {
	local status=0
	cut_begins
	until_true 30 module "$1" smc_down || { echo "the module stays"; status=1; }
	until_true 40 "$2" || { echo "the peer keeps its group"; both_sides; status=1; }
	module "$1" smc_up || { echo "the module does not load"; status=1; }
	as_before || status=1
	cut_ends
	return "$status"
}

cell_module-client() { module_again "$CLIENT" server_has_no_group; }
cell_module-server() { module_again "$SERVER" client_has_no_group; }

reason_module() {
	[ "$1" = K ] || echo "smcrd is no module (see restart)"
}

reason_module-client() { reason_module "$C"; }
reason_module-server() { reason_module "$S"; }

# ---- a host that stands still

# stand_still HOST SECONDS: stop the whole virtual machine for so long, or the smcrd of a host in a namespace.
stand_still() {
	local pid=${LAB_PID[$1]:-}
	[ "${LAB_KIND[$1]}" != S ] || pid=$(cat "${LAB_DIR[$1]}/job/smcrd.pid")
	kill -STOP "$pid"
	sleep "$2"
	kill -CONT "$pid"
}

# After short stops links and streams go on.
stand_still_shortly() {
	local status=0
	steady_start --bulk 1 --pingpong 1 || return
	cut_begins
	for _ in 1 2 3; do
		stand_still "$1" 0.4
		sleep 1
	done
	cut_ends
	steady_stop || status=1
	until_true 60 both_symmetric || { echo "not symmetric after short pauses"; both_sides; status=1; }
	return "$status"
}

# During a long stop links fail. A stream may be complete or break, but must never have wrong bytes.
stand_still_long() {
	local status=0 name
	steady_start --bulk 1 --pingpong 1 || return
	cut_begins
	stand_still "$1" 12
	job_kill "$CLIENT" steady-client TERM
	job_wait "$CLIENT" steady-client 70
	job_kill "$SERVER" steady-server TERM
	job_wait "$SERVER" steady-server 70
	for name in steady-client steady-server; do
		show_jobs $name | grep -E 'does not end|for byte|is wrong|has received' && status=1
	done
	[ "$status" = 0 ] || show_jobs steady-server steady-client
	as_before || status=1
	cut_ends
	return "$status"
}

# The long stop is left out where the kernel's group would stay for ever, because nobody answers for the queue pairs of
# failed links.
stand_still_twice() {
	stand_still_shortly "$1" && { [ -n "$(reason_rxe)" ] || stand_still_long "$1"; }
}

cell_pause-client() { stand_still_twice "$CLIENT"; }
cell_pause-server() { stand_still_twice "$SERVER"; }
