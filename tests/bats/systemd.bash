# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# systemd as the first process of host a (scripts/hosts.bash), in separate namespaces, with an overlay over this
# machine's files and a separate control group. Its changes disappear with it.

# install_to DIR: make install with PREFIX=/usr, as a package does.
install_to() {
	make -s -C "$HOSTS_ROOT" install DESTDIR="$1" PREFIX=/usr >"$BATS_TEST_TMPDIR/install.log" 2>&1 || {
		cat "$BATS_TEST_TMPDIR/install.log"
		return 1
	}
}

# systemd_missing: print why this machine cannot do that, or nothing if it can.
systemd_missing() {
	[ -x /lib/systemd/systemd ] || echo "systemd is not installed"
	[ -n "$(systemd_cgroup2)" ] || echo "the cgroup2 hierarchy is not mounted"
}

systemd_cgroup2() {
	findmnt -n -t cgroup2 -o TARGET | head -n 1
}

# systemd_init ROOT OVERLAY FILES: in the new namespaces, make the file system and become systemd.
systemd_init() {
	local root=$1 overlay=$2 files=$3 device
	set -e
	mount --make-rprivate /
	mount -t tmpfs tmpfs "$overlay"
	mkdir "$overlay/upper" "$overlay/work"
	mount -t overlay overlay -o "lowerdir=/,upperdir=$overlay/upper,workdir=$overlay/work" "$root"
	mount -t proc proc "$root/proc"
	mount -t sysfs sysfs "$root/sys"
	mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
	mount -t tmpfs tmpfs "$root/run"
	mount -t tmpfs -o mode=755 tmpfs "$root/dev"
	for device in null zero full random urandom tty; do
		touch "$root/dev/$device"
		mount --bind "/dev/$device" "$root/dev/$device"
	done
	mkdir "$root/dev/pts" "$root/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
	ln -s pts/ptmx "$root/dev/ptmx"
	mkdir -p "$root/run/systemd/system"
	cp -a "$files/." "$root"
	# Start the journal alone, and no service of this machine.
	printf '%s\n' '[Unit]' DefaultDependencies=no Requires=systemd-journald.socket \
		After=systemd-journald.socket >"$root/run/systemd/system/test.target"
	exec chroot "$root" /usr/bin/env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --system --unit=test.target --show-status=0
}

# systemd_boot FILES: start systemd on host a with a copy of FILES over the machine's files; returns when systemd
# takes commands. Its process is SYSTEMD_PID.
systemd_boot() {
	SYSTEMD_CGROUP=$(systemd_cgroup2)/$HOSTS_ID
	mkdir "$HOSTS_DIR/root" "$HOSTS_DIR/overlay" "$SYSTEMD_CGROUP"
	(
		echo "$BASHPID" >"$SYSTEMD_CGROUP/cgroup.procs"
		hosts_exec a unshare --mount --pid --fork --cgroup --ipc --uts --kill-child \
			bash -c "$(declare -f systemd_init); systemd_init \"\$@\"" - \
			"$HOSTS_DIR/root" "$HOSTS_DIR/overlay" "$1"
	) >"$HOSTS_DIR/systemd.log" 2>&1 </dev/null &
	SYSTEMD_UNSHARE=$!
	if ! until_true 10 systemd_answers; then
		cat "$HOSTS_DIR/systemd.log"
		return 1
	fi
}

systemd_answers() {
	SYSTEMD_PID=$(pgrep -P "$SYSTEMD_UNSHARE") &&
		inside systemctl list-units >/dev/null 2>&1
}

# inside COMMAND..: run a command where systemd is the first process.
inside() {
	(
		echo "$BASHPID" >"$SYSTEMD_CGROUP/init.scope/cgroup.procs"
		exec nsenter -t "$SYSTEMD_PID" --mount --pid --net --cgroup --ipc --uts --root --wd \
			env -u SMCRD_SOCKET "$@" {HOSTS_GUARD}>&- 3>&-
	)
}

# systemd_down: end systemd and everything that it has started.
systemd_down() {
	[ -n "${SYSTEMD_UNSHARE:-}" ] || return 0
	kill -KILL "$SYSTEMD_UNSHARE" 2>/dev/null
	wait "$SYSTEMD_UNSHARE" 2>/dev/null
	until_true 5 systemd_swept
}

systemd_swept() {
	find "$SYSTEMD_CGROUP" -depth -type d -exec rmdir {} \; 2>/dev/null
	[ ! -e "$SYSTEMD_CGROUP" ]
}
