# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# A guard: a process that removes what a script has made, if the script is killed. It waits until the script's end of a
# pipe closes. The guard has a session of its own, so that it stays when the script's whole process group is killed, as
# by timeout -k. Sourced by scripts/hosts.bash and tests/interop/lab.bash.

# guard_start VARIABLE "FUNCTION.." COMMAND..: start a guard that runs COMMAND, which may call these functions. The
# descriptor of the pipe goes to VARIABLE; programs that the script starts must not inherit it.
guard_start() {
	local -n guard_pipe=$1
	local functions=$2
	shift 2
	# Descriptor 3 is where bats listens.
	# shellcheck disable=SC2086
	exec {guard_pipe}> >(exec setsid bash -c "$(declare -f guard_wait guard_namespaces_gone $functions)"'
		guard_wait "$@"' guard_wait "$@" >/dev/null 2>&1 3>&-)
}

# guard_wait COMMAND..: run COMMAND when standard input ends, for whatever reason.
guard_wait() {
	trap '' INT TERM HUP PIPE
	cat >/dev/null
	"$@"
}

# guard_namespaces_gone NAME..: end the processes in these network namespaces, and remove the namespaces.
guard_namespaces_gone() {
	local name pids
	for name; do
		[ -e "/run/netns/$name" ] || continue
		pids=$(ip netns pids "$name" 2>/dev/null)
		# shellcheck disable=SC2086
		[ -z "$pids" ] || kill -KILL $pids 2>/dev/null
		ip netns del "$name" 2>/dev/null
	done
}
