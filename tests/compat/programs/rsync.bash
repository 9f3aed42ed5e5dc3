# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="an rsync daemon: push and pull of a tree, an update with deltas, deletion, checksums, compression, a module with a password, one in a chroot"
PACKAGES=(rsync)
LIMIT=60
QUICK=yes

trees_same() {
	diff -r --no-dereference "$1" "$2"
}

make_tree() {
	mkdir -p "$1/deep/er"
	random_file "$1/large" 20000
	random_file "$1/deep/er/small" 1
	seq 1 100000 >"$1/deep/numbers"
	: >"$1/empty"
	ln -s large "$1/link"
	local i
	for i in $(seq 1 300); do echo "$i" >"$1/deep/file$i"; done
}

start_daemon() {
	mkdir -p module
	echo "user:secret" >secrets
	echo "secret" >password
	chmod 600 secrets password
	cat >rsyncd.conf <<-END
	use chroot = no
	uid = 0
	gid = 0
	log file = $DIR/rsyncd.log
	pid file = $DIR/rsyncd.pid
	[plain]
	path = $DIR/module
	read only = no
	munge symlinks = no
	[chroot]
	path = $DIR/module
	use chroot = yes
	read only = no
	munge symlinks = no
	[locked]
	path = $DIR/module
	auth users = user
	secrets file = $DIR/secrets
	END
	start_under a rsync --daemon --no-detach --config rsyncd.conf --address "$SERVER" --port 8730
	daemon=$!
	listening a 8730
}

sync_with() {
	under b rsync --port 8730 --timeout 300 "$@"
}

run() {
	local daemon
	start_daemon
	make_tree tree
	status push sync_with -a --delete tree/ "rsync://$SERVER/plain/"
	right push.same trees_same tree module
	status pull sync_with -a "rsync://$SERVER/plain/" pulled
	right pull.same trees_same tree pulled
	# Change bytes in the middle, so that the delta algorithm sends data in both directions.
	printf 'changed' | dd of=tree/large bs=1 seek=5000000 conv=notrunc status=none
	rm -r tree/deep/er
	status update sync_with -a -c -z --no-whole-file --delete tree/ "rsync://$SERVER/plain/"
	right update.same trees_same tree module
	status chroot sync_with -a "rsync://$SERVER/chroot/" chrooted
	right chroot.same trees_same tree chrooted
	status locked.refused sync_with --password-file /dev/null "rsync://user@$SERVER/locked/" nothing
	status locked sync_with -a --password-file password "rsync://user@$SERVER/locked/" unlocked
	right locked.same trees_same tree unlocked
	result list "$(sync_with "rsync://$SERVER/" | tr -s ' \t\n' ' ')"
	status unknown sync_with "rsync://$SERVER/nothing/" nothing
	stop "$daemon"
	result daemon.ends "$STATUS"
}
