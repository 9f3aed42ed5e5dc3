#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Connections whose memory their programs have mapped (docs/data-path.md), between two hosts. The stream must be
# the same whether the library or others read and write it, and no wrong byte may come when a program or daemon dies.
bats_require_minimum_version 1.5.0
load common
# shellcheck source=scripts/failover.bash
. "$BATS_TEST_DIRNAME/../../scripts/failover.bash"

FLOW=$HOSTS_BUILD/tests/programs/flow

# shared_bytes HOST: how many bytes of all connections on that host passed through memory, both ways together.
shared_bytes() {
	show "$1" info '.connections.shared_tx_bytes + .connections.shared_rx_bytes'
}

# flow_pair SERVER CLIENT SHAPE [AMOUNT]: run both ends of programs/flow; SERVER and CLIENT are their SMCRD_SHARED.
flow_pair() {
	local server=$1 client=$2
	shift 2
	SMCRD_SHARED=$server start_on a "$RUN" "$FLOW" serve "$SERVER" 7200 "$@" >"$HOSTS_DIR/serve.out"
	local served=$!
	until_true 20 tcp_listens a 7200
	SMCRD_SHARED=$client on b "$RUN" --require "$FLOW" connect "$SERVER" 7200 "$@" || return 1
	wait "$served"
}

@test "every shape of traffic, with the memory on both sides, on one, and on none" {
	two_daemons
	for sides in "always always" "always no" "no always" "yes yes"; do
		for shape in "echo 300" "bulk 20000000" stall urgent abort "many 50"; do
			# shellcheck disable=SC2086
			flow_pair $sides $shape || { echo "$sides: $shape"; cat "$HOSTS_DIR/serve.out"; false; }
		done
	done
	[ "$(shared_bytes a)" -gt 40000000 ]
	[ "$(shared_bytes b)" -gt 40000000 ]
	until_true 20 shows a info '.connections.shared == 0 and .connections.shared_total > 0'
	before=$(shared_bytes b)
	flow_pair no no bulk 1000000
	[ "$(shared_bytes b)" = "$before" ]
}

@test "shared_memory = no: every byte passes through the kernel" {
	hosts_up 1500
	for host in a b; do
		echo 'shared_memory = no' >"$HOSTS_DIR/$host.conf"
		smcrd_start "$host"
	done
	flow_pair always always bulk 4000000
	shows b info '.connections.shared_total == 0 and .connections.shared_tx_bytes == 0'
}

@test "operators see which connections have memory, and what passes through it" {
	two_daemons
	export SMCRD_SHARED=always
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1
	until_true 20 shows b connection '[.[] | select(.shared_tx_bytes > 1000000)] | length == 1'
	shows b info '.connections.shared == 1'
	[[ $(smcrctl_on b -d connection) == *SHARED-TX* ]]
	smcrctl_on b -d info >"$HOSTS_DIR/info"
	grep -q '^connections sharing memory  *1$' "$HOSTS_DIR/info"
	grep -q '^sent by shared memory  *[1-9]' "$HOSTS_DIR/info"
	grep -q '^llc protocol errors  *0$' "$HOSTS_DIR/info"
	steady_stop client
	steady_stop server
}

# sends: write sends.py, which sends a file in parts, in turn by itself and by a child without the library.
sends() {
	cat <<-'END'
		import os, socket, subprocess, sys
		server, name = sys.argv[1:]
		out = socket.create_connection((server, 7300))
		subprocess._USE_VFORK = False  # its child shares our memory, and closes descriptors
		bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
		data = open(name, "rb").read()
		at, part = 0, 0
		while at < len(data):
		    # Behind a child's bytes the library waits for an empty pair before it writes into memory again, which
		    # a busy machine may never show: the first part is what surely passes through memory.
		    piece = data[at:at + (1 + (part * 7919 * 1009) % 700000 if part else 2000000)]
		    if part % 3 == 2:
		        subprocess.run(["cat"], input=piece, stdout=out, env=bare, check=True)
		    else:
		        out.sendall(piece)
		    at, part = at + len(piece), part + 1
	END
}

# receives: write receives.py, which receives everything into a file in the same way.
receives() {
	cat <<-'END'
		import os, socket, subprocess, sys
		server, name = sys.argv[1:]
		listener = socket.create_server((server, 7300))
		conn = listener.accept()[0]
		subprocess._USE_VFORK = False  # its child shares our memory, and closes descriptors
		bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
		with open(name, "wb") as out:
		    turn = 0
		    while True:
		        turn += 1
		        if turn % 20 == 0:
		            subprocess.run(["head", "-c", "5000"], stdin=conn, stdout=out, env=bare)
		            out.seek(0, 2)
		        data = conn.recv(1 + (turn * 7919) % 300000)
		        if not data:
		            break
		        out.write(data)
		        out.flush()
	END
}

@test "a program without the library reads and writes the same stream, in turn with one that has it" {
	two_daemons
	random_file "$HOSTS_DIR/file" 16
	export SMCRD_SHARED=always
	start_on a "$RUN" python3 -c "$(receives)" "$SERVER" "$HOSTS_DIR/copy"
	receiver=$!
	until_true 10 tcp_listens a 7300
	on b "$RUN" --require python3 -c "$(sends)" "$SERVER" "$HOSTS_DIR/file"
	wait "$receiver"
	cmp "$HOSTS_DIR/file" "$HOSTS_DIR/copy"
	[ "$(shared_bytes a)" -gt 1000000 ]
	[ "$(shared_bytes b)" -gt 1000000 ]
}

@test "programs that are killed in the middle of a stream leave nothing, and others go on" {
	two_daemons
	export SMCRD_SHARED=always
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1 --pingpong 1
	start_on a "$RUN" "$PROGRAMS/endless_server" "$SERVER" 7002
	until_true 10 tcp_listens a 7002
	for _ in 1 2 3 4 5; do
		start_on b "$RUN" --require "$PROGRAMS/reset_reader" "$SERVER" 7002 >/dev/null
		victim=$!
		until_true 20 shows b connection '[.[] | select(.state == "active")] | length == 3'
		kill -KILL "$victim"
		wait "$victim" || true
		until_true 20 shows b connection '[.[] | select(.state == "active")] | length == 2'
		until_true 20 shows a connection '[.[] | select(.state == "active")] | length == 2'
	done
	steady_stop client
	steady_stop server
	until_true 20 shows b info '.connections.shared == 0'
}

@test "a program that changes bytes while they are sent harms nobody on the same queue pair" {
	hosts_up 1500
	smcrd_start a --rnic soft:eth0
	smcrd_start b --rnic soft:eth0
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 1 --pingpong 1
	start_on a "$RUN" ncat -l -k --recv-only "$SERVER" 7300 >/dev/null
	until_true 10 tcp_listens a 7300
	SMCRD_SHARED=always run on b "$RUN" --require "$PROGRAMS/scribbler" "$SERVER" 7300 4
	echo "$output"
	[ "$status" = 0 ]
	# Packets did change on their way, but the queue pair is still the same.
	shows a device '.[0].counters.drop_icrc > 0'
	shows b link 'length == 1 and .[0].number == 1 and .[0].state == "active"'
	steady_stop client
	steady_stop server
}

@test "connections are reset in every way while their programs read the memory: no wrong byte" {
	RESETS=16 FLOWS=4 KINDS="term delete remove" OUT=$BATS_TEST_TMPDIR/resets "$BATS_TEST_DIRNAME/../../scripts/resets.sh" 3>&-
}

@test "a daemon is killed in the middle of a stream: every program sees ECONNRESET, never an end of file" {
	two_daemons
	export SMCRD_SHARED=always
	steady_start server a "$RUN" -- serve "$SERVER" 7100
	steady_start client b "$RUN" --require -- connect "$SERVER" 7100 --bulk 2 --pingpong 2
	until_true 20 shows b info '.connections.shared == 4 and .connections.shared_tx_bytes > 1000000'
	kill -KILL "$SMCRD_PID_b"
	wait "$SMCRD_PID_b" || true
	until_true 20 eval '[ "$(grep -c "^error.*Connection reset by peer" "$HOSTS_DIR/client.out")" = 4 ]'
	until_true 20 eval '[ "$(grep -c "^error.*Connection reset by peer" "$HOSTS_DIR/server.out")" = 4 ]'
}
