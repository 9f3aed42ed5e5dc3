#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The data path through shared memory (docs/data-path.md) between two hosts. The library asks for the memory at the
# first byte; the programs here also make raw system calls.
bats_require_minimum_version 1.5.0
load common

setup() {
	export SMCRD_SHARED=always
}

# mix PORT BYTES: run both sides of programs/mix; their output goes to mix.a and mix.b.
mix() {
	local port=$1 bytes=$2 pid
	start_on a "$RUN" --require "$PROGRAMS/mix" serve "$SERVER" "$port" "$bytes" 1 >"$HOSTS_DIR/mix.a"
	pid=$!
	until_true 10 tcp_listens a "$port"
	on b env SMCRD_SHARED="${OTHER:-$SMCRD_SHARED}" "$RUN" --require \
		"$PROGRAMS/mix" connect "$SERVER" "$port" "$bytes" 2 >"$HOSTS_DIR/mix.b" || true
	wait "$pid" || true
	cat "$HOSTS_DIR/mix.a" "$HOSTS_DIR/mix.b"
}

@test "library calls, raw system calls, threads and a child share a stream: every byte in its place" {
	two_daemons
	mix 7001 60000000
	[ "$(cat "$HOSTS_DIR/mix.b")" = whole ]
	grep -qx whole "$HOSTS_DIR/mix.a"
	for host in a b; do
		shows "$host" connection 'any(.shared_tx_bytes + .shared_rx_bytes > 1000000)'
	done
}

@test "one side shares memory, the other does not" {
	two_daemons
	OTHER=no mix 7001 20000000
	[ "$(cat "$HOSTS_DIR/mix.b")" = whole ]
	shows a connection 'any(.shared_rx_bytes > 100000)'
	shows b connection 'all(.shared_tx_bytes == null)'
}

@test "a program without the library gets the descriptor: it reads and writes the same stream" {
	two_daemons
	random_file "$HOSTS_DIR/file" 8
	cat >"$HOSTS_DIR/server.py" <<-'PY'
		import os, socket, subprocess, sys
		listener = socket.create_server(("10.77.0.1", 7001))
		print("listening", flush=True)
		conn, _ = listener.accept()
		conn.sendall(b"mine")
		got = 0
		while got < 300000:
		    got += len(conn.recv(300000 - got))
		env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"SMCR_CARRY": "0"}
		sys.exit(subprocess.call(["cat"], stdin=conn, stdout=conn, env=env))
	PY
	cat >"$HOSTS_DIR/client.py" <<-'PY'
		import socket, sys, threading
		data = open(sys.argv[1], "rb").read()
		conn = socket.create_connection(("10.77.0.1", 7001))
		assert conn.recv(4, socket.MSG_WAITALL) == b"mine"
		conn.sendall(bytes(300000))
		writer = threading.Thread(target=lambda: (conn.sendall(data), conn.shutdown(socket.SHUT_WR)))
		writer.start()
		got = bytearray()
		while part := conn.recv(70000):
		    got += part
		writer.join()
		assert got == data, (len(got), len(data))
	PY
	start_on a "$RUN" --require python3 "$HOSTS_DIR/server.py" >"$HOSTS_DIR/server.out"
	pid=$!
	until_true 10 tcp_listens a 7001
	on b "$RUN" --require python3 "$HOSTS_DIR/client.py" "$HOSTS_DIR/file"
	wait "$pid"
}

@test "death of daemon or program in the middle: a reset, and no wrong byte" {
	local round pid
	two_daemons
	for round in 1 2 3 4 5 6; do
		start_on a "$RUN" --require "$PROGRAMS/mix" serve "$SERVER" $((7000 + round)) \
			10000000000 "$round" >"$HOSTS_DIR/mix.a"
		pid=$!
		until_true 10 tcp_listens a $((7000 + round))
		start_on b "$RUN" --require "$PROGRAMS/mix" connect "$SERVER" $((7000 + round)) \
			10000000000 "$round" >"$HOSTS_DIR/mix.b"
		other=$!
		until_true 10 shows a connection "any((.local | endswith(\":$((7000 + round))\")) and
			(.ended | not) and .shared_rx_bytes > 100000)" # not that of the round before
		sleep "0.$((RANDOM % 5))"
		case $((round % 3)) in
		0)
			kill -KILL "$SMCRD_PID_a"
			wait "$SMCRD_PID_a" || true
			wait "$pid" || { cat "$HOSTS_DIR/mix.a"; false; }
			wait "$other" || { cat "$HOSTS_DIR/mix.b"; false; }
			grep -qx reset "$HOSTS_DIR/mix.a"
			grep -qx reset "$HOSTS_DIR/mix.b"
			smcrd_start a
			;;
		1)
			kill -KILL "$pid"
			wait "$other" || grep -qx 'the stream ended early' "$HOSTS_DIR/mix.b"
			;;
		2)
			kill -KILL "$other"
			wait "$pid" || grep -qx 'the stream ended early' "$HOSTS_DIR/mix.a"
			;;
		esac
	done
}
