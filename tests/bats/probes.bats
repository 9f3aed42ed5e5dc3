#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Probes for tracing tools: the program has them, and the scripts that come with it fit them and print correct values.
bats_require_minimum_version 1.5.0
load common

SMCRD=$HOSTS_BUILD/bin/smcrd
NAMES="smc_rx_recvmsg smc_tx_sendmsg smcr_link_down"

# probes: print name, semaphore and number of arguments of each probe, a line each.
probes() {
	readelf -nW "$SMCRD" | awk '
		/Provider: / { ours = $NF == "smcrd" }
		ours && /Name: / { name = $2 }
		ours && /Semaphore: / { semaphore = $NF }
		ours && /Arguments: / { print name, semaphore, NF - 1 }' | sort
}

# script NAME: print the script as `make install` installs it, for the smcrd of this build.
script() {
	sed "s|@SBINDIR@|$HOSTS_BUILD/bin|" "$HOSTS_ROOT/etc/bpftrace/$1.bt"
}

can_trace() {
	bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1
}

@test "smcrd has the probes, each with a semaphore and its arguments" {
	[ "$(probes | awk '{ print $1 }' | xargs)" = "$NAMES" ]
	[ "$(probes | awk '{ print $3 }' | xargs)" = "6 6 5" ]
	while read -r _ semaphore _; do
		[ "$((semaphore))" -gt 0 ]
	done < <(probes)
	[ "$(probes | awk '{ print $2 }' | sort -u | wc -l)" = 3 ]
}

@test "there is a script for each probe, and it uses only arguments that the probe has" {
	[ "$(cd "$HOSTS_ROOT/etc/bpftrace" && echo *.bt)" = "${NAMES// /.bt }.bt" ]
	for name in $NAMES; do
		script "$name" >"$BATS_TEST_TMPDIR/$name.bt"
		grep -q "^usdt:$SMCRD:smcrd:$name\$" "$BATS_TEST_TMPDIR/$name.bt"
		bpftrace -l "usdt:$SMCRD:smcrd:$name" | grep -qF "smcrd:$name"
		most=$(grep -oE 'arg[0-9]' "$BATS_TEST_TMPDIR/$name.bt" | tr -dc "0-9\n" | sort -n | tail -1)
		[ "$most" -lt "$(probes | awk -v name="$name" '$1 == name { print $3 }')" ]
	done
}

@test "smcrd can be built without the probes" {
	for source in probes tx rx events; do
		gcc -std=gnu11 -D_GNU_SOURCE -DSMCRD_NO_PROBES -Wall -Wextra -Werror -I"$HOSTS_ROOT" -c \
			"$HOSTS_ROOT/daemon/smcr/$source.c" -o "$BATS_TEST_TMPDIR/$source.o"
		run ! grep -q stapsdt "$BATS_TEST_TMPDIR/$source.o"
	done
}

# trace_start NAME: start the script; returns when it traces.
trace_start() {
	script "$1" >"$HOSTS_DIR/$1.bt"
	start_on a bpftrace "$HOSTS_DIR/$1.bt" >"$HOSTS_DIR/$1.traced" 2>&1
	TRACE_PID[$1]=$!
	until_true 30 is_traced "$1"
}

# is_traced: does a tool trace? It adds one to a semaphore in the memory of the daemon.
is_traced() {
	local at
	at=$(probes | awk -v name="$1" '$1 == name { print $2 }')
	python3 - "$SMCRD_PID_a" "$SMCRD" "$at" <<-'END'
	import sys
	pid, path, address = sys.argv[1:]
	with open(f"/proc/{pid}/maps") as maps:
	    base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(path))
	with open(f"/proc/{pid}/mem", "rb") as memory:
	    memory.seek(base + int(address, 16))
	    sys.exit(not any(memory.read(2)))
	END
}

# is_told_to_stop: bpftrace misses a signal that comes just before it waits for events, so it is told until it ends.
is_told_to_stop() {
	[[ "$(ps -o stat= -p "${TRACE_PID[$1]}")" != [!Z]* ]] || { kill -INT "${TRACE_PID[$1]}"; false; }
}

trace_stop() {
	until_true 30 is_told_to_stop "$1"
	wait "${TRACE_PID[$1]}" || true
}

@test "bpftrace counts every byte of programs, and sees a link fail" {
	declare -A TRACE_PID
	can_trace || skip "this kernel lets nobody trace"
	two_daemons
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	server=$!
	until_true 5 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1
	until_true 10 shows a link 'length == 2 and all(.state == "active")'
	for name in $NAMES; do
		run ! is_traced "$name"
		trace_start "$name"
	done
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 12345 --repeat 3
	until_true 5 shows a info '.engine.connections == 0'
	on a ip link set eth1 down
	until_true 10 grep -q 'on soft:eth1 .* has failed' "$HOSTS_DIR/a.log"
	until_true 10 grep -qE 'soft:eth1 +[0-9]+/[0-9]+ +[a-z]' "$HOSTS_DIR/smcr_link_down.traced"
	for name in $NAMES; do
		trace_stop "$name"
	done
	cat "$HOSTS_DIR"/*.traced
	for name in smc_rx_recvmsg smc_tx_sendmsg; do
		# count only the server's process: host b's daemon runs the same file, so its connections are traced too
		[ "$(awk -F': ' -v key="@bytes_by_pid_group_link[$server, 1, " 'index($0, key) == 1 { sum += $2 }
			END { print sum }' "$HOSTS_DIR/$name.traced")" = 37035 ]
		grep -qE '^@sizes\[soft:eth[01]\]' "$HOSTS_DIR/$name.traced"
	done
	grep -qE 'soft:eth1 +[0-9]+/[0-9]+ +[a-z]' "$HOSTS_DIR/smcr_link_down.traced"
	[ "$(wc -l <"$HOSTS_DIR/smcr_link_down.traced")" -ge 2 ]
}
