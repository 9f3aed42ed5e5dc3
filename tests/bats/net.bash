# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For bats tests on a network: two hosts (scripts/hosts.bash), captures on their interfaces, and
# programs that carry out commands step by step.

# The time limits in tests are for a machine with nothing else to do, and are multiplied by this.
HOSTS_PATIENCE=${HOSTS_PATIENCE:-10}

# shellcheck source=scripts/hosts.bash
. "$BATS_TEST_DIRNAME/../../scripts/hosts.bash"

declare -gA CAPTURE_PID TALK_PID TALK_IN TALK_OUT

# capture_start HOST INTERFACE NAME [FILTER..]: record to $HOSTS_DIR/NAME.pcap; returns when tcpdump records.
capture_start() {
	local host=$1 interface=$2 name=$3
	shift 3
	start_on "$host" tcpdump -n -U --immediate-mode -s 0 -i "$interface" \
		-w "$HOSTS_DIR/$name.pcap" "$@" 2>"$HOSTS_DIR/$name.tcpdump"
	CAPTURE_PID[$name]=$!
	until_true 10 grep -q 'listening on' "$HOSTS_DIR/$name.tcpdump"
}

# capture_stop NAME: the file is complete when this returns.
capture_stop() {
	kill "${CAPTURE_PID[$1]}"
	wait "${CAPTURE_PID[$1]}" || true
	unset "CAPTURE_PID[$1]"
}

# capture_fields NAME FILTER FIELD..: print these fields of the packets recorded so far, a line each, by tshark. If
# tshark fails, net_down fails: with a wrong filter, finding no packet would prove nothing.
capture_fields() {
	local file=$HOSTS_DIR/$1.pcap filter=$2 field said=$HOSTS_DIR/tshark.$BASHPID
	local -a fields=()
	shift 2
	for field in "$@"; do fields+=(-e "$field"); done
	tshark -n -r "$file" -Y "$filter" -T fields "${fields[@]}" 2>"$said" ||
		grep -A 3 '^tshark: ' "$said" | grep -v 'cut short' >>"$HOSTS_DIR/tshark.wrong"
}

# talk_start NAME HOST COMMAND..: start a program that answers each line on its standard input with
# one line.
talk_start() {
	local name=$1 host=$2 in out
	shift 2
	rm -f "$HOSTS_DIR/$name".{in,out}
	mkfifo "$HOSTS_DIR/$name".{in,out}
	# The program's process opens the pipes, because opening waits for the other side.
	hosts_exec "$host" "$@" <"$HOSTS_DIR/$name.in" >"$HOSTS_DIR/$name.out" \
		2>"$HOSTS_DIR/$name.err" &
	TALK_PID[$name]=$!
	exec {in}>"$HOSTS_DIR/$name.in" {out}<"$HOSTS_DIR/$name.out"
	TALK_IN[$name]=$in
	TALK_OUT[$name]=$out
}

# talk_hear NAME: print the next line of the program's output.
talk_hear() {
	local line
	read -r -t $((20 * HOSTS_PATIENCE)) -u "${TALK_OUT[$1]}" line || return 1
	printf '%s\n' "$line"
}

# talk_send NAME LINE: send a line without waiting for the answer.
talk_send() {
	printf '%s\n' "$2" >&"${TALK_IN[$1]}"
}

# tell NAME LINE [ANSWER]: send a line; fails unless the answer is ANSWER ("ok" if not given).
tell() {
	local answer
	talk_send "$1" "$2"
	answer=$(talk_hear "$1")
	[ "$answer" = "${3:-ok}" ] || {
		echo "$1: $2: answers '$answer', not '${3:-ok}'" >&2
		return 1
	}
}

# talk_kill NAME [SIGNAL]: end the program; returns when it has ended.
talk_kill() {
	local in=${TALK_IN[$1]} out=${TALK_OUT[$1]}
	kill "-${2:-TERM}" "${TALK_PID[$1]}" 2>/dev/null || true
	wait "${TALK_PID[$1]}" 2>/dev/null || true
	exec {in}>&- {out}<&-
	unset "TALK_PID[$1]" "TALK_IN[$1]" "TALK_OUT[$1]"
}

# net_down: end the programs that were started, then remove the hosts. For teardown. Fails if a capture could not be
# read.
net_down() {
	local name wrong
	for name in "${!TALK_PID[@]}"; do talk_kill "$name" KILL; done
	for name in "${!CAPTURE_PID[@]}"; do capture_stop "$name"; done
	wrong=$(cat "${HOSTS_DIR:-}/tshark.wrong" 2>/dev/null) || true
	hosts_down
	[ -z "$wrong" ] || {
		echo "a capture cannot be read: $wrong"
		return 1
	}
}
