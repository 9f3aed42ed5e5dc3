# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests/hostile/run: full disks. Sourced there.
#
# The socket directory and the log of host c are on a small disk ($HOSTS_DIR/disk) that anybody may fill.
DISK_INODES=40

fill_space() {
	! cat /dev/zero >>"$HOSTS_DIR/disk/fill" 2>/dev/null
}

fill_inodes() {
	local n
	for ((n = 0; n <= DISK_INODES; n++)); do
		: >"$HOSTS_DIR/disk/inode-$n" || return 0
	done 2>/dev/null
}

make_room() {
	rm -f "$HOSTS_DIR"/disk/fill "$HOSTS_DIR"/disk/inode-*
}

# start_on_disk [LOG]: start smcrd on host c with its socket there, and its log too if no LOG is given.
start_on_disk() {
	ln -sfn "${1:-$HOSTS_DIR/disk/c.log}" "$HOSTS_DIR/c.log"
	smcrd_start c --socket "$HOSTS_DIR/disk/c.sock"
}

# works_on_disk WHEN: do smcrd there and its connections work, and can all be told?
works_on_disk() {
	ctl a policy forget "$C" >/dev/null 2>&1
	served c 7001 "$1"
}

# captured_on_disk: a capture on host a, of an administrator, to the full disk: it has to end, and to say why.
captured_on_disk() {
	local status=0
	timeout -s KILL $((10 * HOSTS_PATIENCE)) "$HOSTS_BUILD/bin/smcrctl" -s "$HOSTS_DIR/a.sock" capture --data \
		-w "$HOSTS_DIR/disk/a.pcapng" >"$HOSTS_DIR/capture.txt" 2>&1 || status=$?
	[ "$status" = 1 ] && grep -q 'disk/a.pcapng: No space left on device' "$HOSTS_DIR/capture.txt" ||
		echo "failed: a capture on a full disk ends with status $status: $(tail -n 1 "$HOSTS_DIR/capture.txt")"
}

# The disk fills up while smcrd runs and has much to write to its log.
disk_fills_up() {
	start_on_disk || echo "failed: no smcrd on host c"
	ctl c log trace all >/dev/null || echo "failed: there is no trace"
	fill_space
	works_on_disk "the disk has filled up"
	captured_on_disk
}

# killed_on_full_disk LOG: it is killed and started anew while there is no space; it says what it cannot write.
killed_on_full_disk() {
	stop_smcrd c KILL
	fill_space
	start_on_disk "$@" || echo "failed: no smcrd on host c on a full disk"
	works_on_disk "the disk is full"
	[ -z "${1:-}" ] || grep -q 'instance cannot be written: No space left on device' "$1" ||
		echo "failed: smcrd does not tell that the disk is full"
}

# started_without_inodes: it is started where no file can be made, and so no socket: it must end and say so.
started_without_inodes() {
	local status=0
	stop_smcrd c || echo "failed: smcrd on a full disk ends with status $?"
	fill_inodes
	on c timeout -s KILL $((10 * HOSTS_PATIENCE)) "$HOSTS_BUILD/bin/smcrd" --foreground --config "$HOSTS_DIR/c.conf" \
		--socket "$HOSTS_DIR/disk/c.sock" >"$HOSTS_DIR/start.txt" 2>&1 || status=$?
	[ "$status" = 1 ] && grep -q 'cannot listen on .*: No space left on device' "$HOSTS_DIR/start.txt" ||
		echo "failed: without room for a socket smcrd ends with status $status: $(tail -n 1 "$HOSTS_DIR/start.txt")"
}

# killed_without_inodes: it is killed, and started where only its old socket can be replaced.
killed_without_inodes() {
	make_room
	start_on_disk || echo "failed: no smcrd on host c after the disk was full"
	works_on_disk "the disk has room again"
	fill_inodes
	stop_smcrd c KILL
	start_on_disk || echo "failed: no smcrd on host c on a disk without inodes"
	works_on_disk "no file can be made"
}

# remembers_itself: is there the file by which a daemon that is started anew within a second has another instance?
remembers_itself() {
	grep -qE '^[0-9a-f]{4}$' "$HOSTS_DIR/disk/c.sock.instance"
}

attack_disk() {
	local i
	stop_smcrd c
	mv "$HOSTS_DIR/c.log" "$HOSTS_DIR/c-before.log"
	hosts_disk "size=64k,nr_inodes=$DISK_INODES,mode=755"
	ln -sfn "$HOSTS_DIR/disk/c.sock" "$HOSTS_DIR/c.sock"
	for ((i = 0; i < $(much 1 10); i++)); do
		disk_fills_up
		killed_on_full_disk
		killed_on_full_disk "$HOSTS_DIR/c-full.log"
		started_without_inodes
		killed_without_inodes
		make_room
		stop_smcrd c || echo "failed: smcrd on the disk ends with status $?"
		start_on_disk || echo "failed: no smcrd on host c after the disk was full"
		remembers_itself || echo "failed: $HOSTS_DIR/disk/c.sock.instance is not written again"
		stop_smcrd c || echo "failed: smcrd on the disk ends with status $?"
	done
	rm -f "$HOSTS_DIR"/c.sock "$HOSTS_DIR/c.log"
	hosts_disk_gone
	smcrd_start c || echo "failed: no smcrd on host c"
	echo "$i times no space and no inodes, $((i * 7)) daemons"
}
