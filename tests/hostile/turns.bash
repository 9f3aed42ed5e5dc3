# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests/hostile/run: for how long work of one kind has kept the event loops of smcrd, and whether that was smcrd or the
# machine. Sourced there.

TURN_US=5000 # daemon/host/turns.h

# lateness_start: begin to measure what the machine takes away from the daemons of hosts a and b.
lateness_start() {
	mkfifo "$HOSTS_DIR/lateness.in"
	exec {LATENESS}<>"$HOSTS_DIR/lateness.in"
	# In a namespace of the suite, so that it ends with that.
	hosts_exec sw "$TOOLS/lateness" "$SMCRD_PID_a" "$SMCRD_PID_b" "$SMCRD_PID_a" "$SMCRD_PID_b" "$SMCRD_PID_a" \
		"$SMCRD_PID_b" <"$HOSTS_DIR/lateness.in" >"$HOSTS_DIR/lateness.txt" 2>&1 {LATENESS}>&- &
	until_true 10 grep -q '^ready' "$HOSTS_DIR/lateness.txt"
}

# lateness LABEL TOOLS TOOLS ALL ALL GAP GAP: print "LATE WAIT WAIT WAIT WAIT WAIT WAIT" in microseconds since the last call: the
# longest delay of a process that wanted to wake up, and how long the daemons of hosts a and b had to wait for a processor
# within these lengths of time, at most. The lengths are those of the longest turns for tools, of the longest turns of
# all, and of the longest gap. Use each label once.
lateness() {
	echo "$*" >&"$LATENESS"
	until_true 10 grep -q "^$1 .*waits" "$HOSTS_DIR/lateness.txt"
	awk -v label="$1" '$1 == label { print $3, $5, $6, $7, $8, $9, $10 }' "$HOSTS_DIR/lateness.txt"
}

# turns HOST: print "KIND LONGEST MANY" for each kind of work of its smcrd: the longest turn so far in microseconds, and
# how many took more than 5 ms.
turns() {
	json "$1" info '.info.event_loop | to_entries[] | select(.value | type == "object") |
		"\(.key) \(.value.longest_turn_us) \(.value.long_turns)"'
}

# turns_of HOST BEFORE NOW: print what to tell of two outputs of turns()
turns_of() {
	awk -v host="$1" '
		FILENAME == ARGV[1] { longest[$1] = $2; many[$1] = $3; next }
		{
			said = said sprintf("%s %s %.1f ms%s", said ? "," : "", $1, $2 / 1000,
				$2 > longest[$1] ? " (now)" : "")
			if ($3 > many[$1]) more = more sprintf("%s %d %s", more ? "," : "", $3 - many[$1], $1)
		}
		END { print "host " host ": longest turns so far" said "; longer than 5 ms now:" (more ? more : " none") }' "$2" "$3"
}

# grown KIND BEFORE NOW: print the longest turn of this kind (all: of any) if there was none of its kind as long before,
# else 0. smcrd tells the longest ones since it was started: one that was as long as an earlier one has been judged then.
grown() {
	awk -v kind="$1" 'FILENAME == ARGV[1] { before[$1] = $2; next }
		(kind == "all" || kind == $1) && $2 > before[$1] && $2 > grown { grown = $2 }
		END { print grown + 0 }' "$2" "$3"
}

# judge_turns LABEL GAP: TURNS_SAID gets a line for each daemon, TURNS_WRONG what is wrong with those of hosts a and b.
# GAP_WAITS becomes the time, in milliseconds, that both may have waited for a processor within GAP milliseconds.
judge_turns() {
	local host pid file late wait gap=$(($2 * 1000)) gap_a gap_b
	local -A tools=([a]=0 [b]=0) all=([a]=0 [b]=0) waits=() all_waits=()
	TURNS_SAID=() TURNS_WRONG=() GAP_WAITS=0
	for host in a b c; do
		pid=SMCRD_PID_$host
		file=$HOSTS_DIR/turns-$host-${!pid}.txt
		[ -e "$file" ] || : >"$file"
		if turns "$host" >"$file.now" 2>/dev/null && [ -s "$file.now" ]; then
			TURNS_SAID+=("$(turns_of "$host" "$file" "$file.now")")
			tools[$host]=$(grown tools "$file" "$file.now")
			all[$host]=$(grown all "$file" "$file.now")
			mv "$file.now" "$file"
		else
			TURNS_SAID+=("host $host: no answer")
		fi
	done
	read -r late "waits[a]" "waits[b]" "all_waits[a]" "all_waits[b]" gap_a gap_b \
		< <(lateness "$1" "${tools[a]}" "${tools[b]}" "${all[a]}" "${all[b]}" "$gap" "$gap") || {
		TURNS_WRONG+=("nothing measures how late the machine is: $(tail -n 1 "$HOSTS_DIR/lateness.txt")")
		return
	}
	GAP_WAITS=$(((gap_a + gap_b) / 1000))
	TURNS_SAID+=("machine: up to $((late / 1000)) ms late; no processor for up to $((all_waits[a] / 1000)) of\
 $((all[a] / 1000)) ms on host a, $((all_waits[b] / 1000)) of $((all[b] / 1000)) ms on host b")
	case $quick$HOSTS_BUILD in
	yes* | */san) return ;; # other tests run at the same time; sanitizers make everything longer
	esac
	for host in a b; do
		wait=${waits[$host]}
		[ "${tools[$host]}" -le $((TURN_US + late + wait)) ] ||
			TURNS_WRONG+=("host $host: a tool kept everything else waiting for ${tools[$host]} us; the machine was up to" \
				"$late us late, and smcrd had to wait for a processor for $wait us in such a time")
	done
}
