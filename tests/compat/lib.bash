# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Functions for the programs' files (mode.bash sources this).

# shellcheck disable=SC2034 # the programs' files use them
SERVER=10.77.0.1 # host a
CLIENT=10.77.0.2 # host b
ID_DAEMONS=()

# under HOST COMMAND..: run a command on a host, over smcr-run if the mode says so.
under() {
	local host=$1
	shift
	on "$host" "${RUN[@]}" "$@"
}

# start_under HOST COMMAND..: the same in the background; $! is the process of the command.
start_under() {
	local host=$1
	shift
	hosts_exec "$host" "${RUN[@]}" "$@" &
}

# as HOST USER COMMAND..: under(), as another user.
as() {
	local host=$1 user=$2
	shift 2
	on "$host" setpriv --reuid="$user" --regid="$(id -gn "$user")" --clear-groups -- \
		"${RUN[@]}" "$@"
}

# start_as HOST USER COMMAND..: start_under(), as another user.
start_as() {
	local host=$1 user=$2
	shift 2
	hosts_exec "$host" setpriv --reuid="$user" --regid="$(id -gn "$user")" --clear-groups -- \
		"${RUN[@]}" "$@" &
}

# result NAME VALUE..: record a result, which is compared with the result over plain TCP.
result() {
	local name=$1 value
	shift
	value=$(tr -s '\r\t\n ' ' ' <<<"$*")
	printf '%s\t%s\n' "$name" "${value:0:200}" >>"$OUT/results"
}

# fault TEXT..: record an error, which is one in any mode.
fault() {
	echo "$*" >>"$OUT/faults"
}

# outcomes FILE: record the results of a suite's tests, lines of NAME, a tab and VALUE. Of a name that is there several
# times, the values together are the result.
outcomes() {
	sort -u "$1" | awk -F'\t' '{ v[$1] = v[$1] (v[$1] == "" ? "" : " ") $2 }
		END { for (n in v) print n "\t" v[n] }' | sort >>"$OUT/results"
}

# source_tree: print where the program's Debian source is (source.bash)
source_tree() {
	echo "$OUT/../source/tree"
}

# status NAME COMMAND..: run the command; its exit status is a result.
status() {
	local name=$1 rc=0
	shift
	"$@" || rc=$?
	result "$name" "$rc"
}

# right NAME COMMAND..: the command must succeed in any mode.
right() {
	local name=$1
	shift
	if "$@"; then
		result "$name" right
	else
		result "$name" WRONG
		fault "$name is wrong: $*"
	fi
}

# same NAME FILE FILE: the files must be equal in any mode.
same() {
	right "$1" cmp -- "$2" "$3"
}

# random_file PATH KIB
random_file() {
	head -c "$(($2 << 10))" /dev/urandom >"$1"
	chmod 644 "$1"
}

# ends PID: has the process ended? For until_true.
ended() {
	! kill -0 "$1" 2>/dev/null
}

# listening HOST PORT: wait until a program listens on that port.
listening() {
	until_true 40 tcp_listens "$1" "$2" || {
		fault "nobody listens on host $1, port $2"
		exit 1
	}
}

# stop PID [SIGNAL]: end a program and wait for it; its exit status is the result STATUS.
stop() {
	kill "-${2:-TERM}" "$1" 2>/dev/null
	until_true 30 ended "$1" || kill -KILL "$1" 2>/dev/null
	STATUS=0
	{ wait "$1" || STATUS=$?; } 2>/dev/null
}

daemon_start() {
	# Programs have to use SMC-R even if their connections are short.
	[ -e "$HOSTS_DIR/$1.conf" ] || echo 'short_connection_rate = 0' >"$HOSTS_DIR/$1.conf"
	smcrd_start "$@" || {
		fault "smcrd on host $1 does not start"
		exit 1
	}
	# So that programs which have become another user can reach it too.
	ID_DAEMONS+=("$1")
}

# keep_logs: keep the programs' logs, which may show the reason of a difference.
keep_logs() {
	(cd "$DIR" && find . -name '*.log' -size -2000k -exec cp --parents -t "$OUT" {} +)
}

# note_counters: write the daemons' counters, a line "HOST established N fallbacks N" each.
note_counters() {
	local host
	for host in "${ID_DAEMONS[@]}"; do
		smcrctl_on "$host" -j info | jq -r --arg host "$host" '.info.connections |
			"\($host) established \(.established_total) fallbacks \(.fallbacks_total)"'
		smcrctl_on "$host" -j info >"$OUT/info.$host"
		smcrctl_on "$host" -d connection >"$OUT/connections.$host"
	done >"$OUT/counters"
}

holds_nothing() {
	smcrctl_on "$1" -j info | jq -e '.info.engine.connections == 0 and
		.info.connections.pending == 0 and .info.connections.relayed == 0' >/dev/null
}

# daemons_end: end all programs; then each daemon must have no connection left and stop in order.
daemons_end() {
	local host name others status
	for host in a b; do
		name=SMCRD_PID_$host
		others=$(ip netns pids "$HOSTS_ID-$host" | grep -vx "${!name:-none}")
		# shellcheck disable=SC2086
		[ -z "$others" ] || kill -KILL $others 2>/dev/null
	done
	for host in "${ID_DAEMONS[@]}"; do
		name=SMCRD_PID_$host
		until_true 20 holds_nothing "$host" ||
			fault "smcrd on host $host holds connections of programs that have ended"
	done
	for host in "${ID_DAEMONS[@]}"; do
		name=SMCRD_PID_$host
		status=0
		kill -TERM "${!name}"
		{ wait "${!name}" || status=$?; } 2>/dev/null
		[ "$status" = 0 ] || fault "smcrd on host $host ends with status $status"
		cp "$HOSTS_DIR/$host.log" "$OUT/smcrd.$host.log"
	done
}

# on_two_hosts COMMAND..: run on host b a program that connects to itself over loopback, and put its
# listeners on host a (see preload/twohosts.c).
on_two_hosts() {
	local host
	for host in a b; do
		mkdir -p "$HOSTS_DIR/at-$host"
		ln -sfn "../$host.sock" "$HOSTS_DIR/at-$host/smcrd.sock"
	done
	ip -n "$HOSTS_ID-a" addr replace fd77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr replace fd77::2/64 dev eth0 nodad
	# shellcheck disable=SC2016
	on b env SMCRD_SOCKET=/proc/thread-self/cwd/smcrd.sock \
		TWOHOSTS_NS_A="/run/netns/$HOSTS_ID-a" TWOHOSTS_DIR_A="$HOSTS_DIR/at-a" \
		TWOHOSTS_NS_B="/run/netns/$HOSTS_ID-b" TWOHOSTS_DIR_B="$HOSTS_DIR/at-b" \
		TWOHOSTS_A="$SERVER" TWOHOSTS_A6=fd77::1 TWOHOSTS_B="$CLIENT" TWOHOSTS_B6=fd77::2 \
		"${RUN[@]}" bash -c 'LD_PRELOAD=$0${LD_PRELOAD:+:$LD_PRELOAD} exec "$@"' \
		"$HOSTS_BUILD/tests/compat/twohosts.so" "$@"
}
