# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Work with shares, sourced by guest/smb. Directories are those where shares are mounted.

# do_mount DIRECTORY SERVER OPTIONS: mount the share by SMB Direct.
do_mount() {
	mkdir -p "$1"
	timeout 100 mount -t cifs -o "rdma,username=root,password=labpass,hard,$3" "//$2/share" "$1" ||
		fail "cannot mount"
	grep " $1 cifs .*,rdma" /proc/mounts || fail "it is no mount by RDMA"
}

do_umount() {
	umount "$1" || fail "cannot unmount"
}

sum() {
	sha256sum | cut -d ' ' -f 1
}

# do_read DIRECTORY FILE SUM: read it without caches.
do_read() {
	[ "$(dd if="$1/$2" bs=4M status=none | sum)" = "$3" ] || fail "the bytes read differ"
}

# do_write DIRECTORY FILE SOURCE
do_write() {
	dd if="$3" of="$1/$2" bs=4M conv=fsync status=none || fail "cannot write"
}

# do_make_tree DIRECTORY COUNT: make a tree with so many files.
do_make_tree() {
	local at
	rm -rf "$1"
	for ((at = 0; at < $2; at++)); do
		[ $((at % 50)) != 0 ] || mkdir -p "$1/$((at / 50))/deep"
		head -c $((at * 37 % 9000)) /dev/urandom >"$1/$((at / 50))/deep/file-$at"
	done
}

# do_tree DIRECTORY COUNT: copy a tree with so many files onto the share, compare it, and remove it.
do_tree() {
	local to=$1/tree from=/tmp/tree
	do_make_tree $from "$2"
	{ cp -r $from "$to" && diff -r $from "$to"; } || fail "the trees differ"
	[ "$(find "$to" -type f | wc -l)" = "$2" ] || fail "files are missing"
	rm -r "$to" || fail "cannot remove the tree"
	[ ! -e "$to" ] || fail "the tree is still there"
}

# do_names DIRECTORY COUNT: so many names in one directory are listed, and renamed.
do_names() {
	local dir=$1/names
	{ mkdir "$dir" && (cd "$dir" && seq -f 'a-name-that-is-somewhat-longer-%g' "$2" | xargs touch); } ||
		fail "cannot create"
	[ "$(find "$dir" -name 'a-name-*' | wc -l)" = "$2" ] || fail "names are missing"
	{ echo one >"$dir/one" && mv "$dir/one" "$dir/two" && [ "$(cat "$dir/two")" = one ] && [ ! -e "$dir/one" ]; } ||
		fail "cannot rename"
	{ echo three >"$dir/three" && mv "$dir/three" "$dir/two" && [ "$(cat "$dir/two")" = three ]; } ||
		fail "cannot rename onto another file"
	{ mv "$dir" "$dir.new" && [ -e "$dir.new/two" ]; } || fail "cannot rename a directory"
	rm -r "$dir.new" || fail "cannot remove"
}

# do_locks DIRECTORY OTHER: byte-range locks of two mounts of one share.
do_locks() {
	python3 - "$1/locked" "$2/locked" <<-'PYTHON' || fail "locks"
	import errno, fcntl, os, sys, threading, time
	one = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
	os.write(one, b"x" * 1000)
	os.fsync(one)
	two = os.open(sys.argv[2], os.O_RDWR)

	def refused(start, length):
	    try:
	        fcntl.lockf(two, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
	    except OSError as error:
	        assert error.errno in (errno.EAGAIN, errno.EACCES), error
	        return True
	    fcntl.lockf(two, fcntl.LOCK_UN, length, start)
	    return False

	fcntl.lockf(one, fcntl.LOCK_EX, 100, 200)
	assert refused(250, 10), "a lock within another one"
	assert refused(299, 5), "a lock across the end of another one"
	assert not refused(300, 100), "a lock behind"
	assert not refused(0, 200), "a lock before"
	# A program that waits gets the lock when it is given up.
	got = []
	def wait():
	    fcntl.lockf(two, fcntl.LOCK_EX, 100, 200)
	    got.append(time.monotonic())
	thread = threading.Thread(target=wait)
	thread.start()
	time.sleep(1)
	assert not got, "two have the lock"
	fcntl.lockf(one, fcntl.LOCK_UN, 100, 200)
	thread.join(30)
	assert got, "the lock was not handed over"
	fcntl.lockf(two, fcntl.LOCK_UN, 100, 200)
	os.close(one)
	os.close(two)
	os.unlink(sys.argv[1])
	PYTHON
}

# do_lease DIRECTORY OTHER: what one mount has in its cache is taken back when the other one uses the file.
do_lease() {
	python3 - "$1/leased" "$2/leased" <<-'PYTHON' || fail "leases"
	import os, sys, time

	def sees(fd, at, wanted, what):
	    # A mount that only reads is told of a change, and nobody waits until it has heard of it.
	    end = time.monotonic() + 10
	    while (got := os.pread(fd, len(wanted), at)) != wanted:
	        assert time.monotonic() < end, (what, got[:20])
	        time.sleep(0.05)

	one = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
	os.write(one, b"zeroth" * 1000) # its size stays: Linux may show zeros where another host makes a file longer
	os.close(one)
	two = os.open(sys.argv[2], os.O_RDWR)
	sees(two, 0, b"zeroth" * 1000, "the file is not there")
	os.close(two)
	one = os.open(sys.argv[1], os.O_RDWR)
	os.pwrite(one, b"first " * 1000, 0) # may stay in the cache
	two = os.open(sys.argv[2], os.O_RDWR) # breaks the lease: the bytes are written
	sees(two, 0, b"first " * 1000, "the other mount does not see what was written")
	os.pwrite(two, b"SECOND", 6)
	os.fsync(two)
	sees(one, 0, b"first SECONDfirst ", "the first mount does not see it")
	os.pwrite(one, b"third ", 0)
	os.fsync(one)
	os.close(one)
	sees(two, 0, b"third ", "the other mount has old bytes")
	os.close(two)
	os.unlink(sys.argv[1])
	PYTHON
}

# do_steady DIRECTORY SECONDS: until the file DIRECTORY.enough is there, write numbered records and read them back; none
# may fail or be lost. The file is open for the whole time.
do_steady() {
	python3 - "$1/steady" "$1.enough" "$2" <<-'PYTHON' || fail "steady"
	import os, sys, time
	path, enough, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
	started = time.monotonic()
	fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
	number = again = 0
	last = 0

	def steadfast(call, *arguments):
	    global again
	    while True:
	        try:
	            return call(*arguments)
	        except BlockingIOError: # Linux's client gives this while it connects again
	            again += 1
	            time.sleep(0.1)

	while not os.path.exists(enough):
	    assert time.monotonic() - started < seconds, "nobody says that it is enough"
	    record = (b"%07d\n" % number) * 4096
	    assert steadfast(os.pwrite, fd, record, number % 64 * len(record)) == len(record)
	    assert steadfast(os.pread, fd, len(record), number % 64 * len(record)) == record, number
	    number += 1
	    if time.monotonic() - last > 1:
	        print("records", number, "at", round(time.monotonic() - started, 1), flush=True)
	        last = time.monotonic()
	os.close(fd)
	print("all records", number, "again", again)
	with open(path, "rb") as file:
	    for at in range(min(number, 64)):
	        newest = number - 1 - (number - 1 - at) % 64
	        assert file.read(8 * 4096) == (b"%07d\n" % newest) * 4096, at
	os.unlink(path)
	PYTHON
}
