#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The Debian packages of build/deb, installed, upgraded, removed and purged in a separate Debian 12. Run by
# `make check-deb`; needs root, and the Debian archive when that Debian is made.
bats_require_minimum_version 1.5.0

# shellcheck source=tests/packages/debs.bash
. "$BATS_TEST_DIRNAME/debs.bash"
# shellcheck source=tests/packages/chroot.bash
. "$ROOT/tests/packages/chroot.bash"

NAMES="smcrd smcr-run libsmcr0 libsmcr-dev smcrd-doc"
CHANGES=("$ROOT"/build/deb/smcrd_"$VERSION"_*.changes)

setup_file() {
	local name debs=()
	[ "$(id -u)" -eq 0 ] || skip "a Debian of its own needs root"
	for name in $NAMES; do debs+=("$(deb "$name")"); done
	chroot_base "${debs[@]}" >"$BATS_FILE_TMPDIR/base.log" 2>&1 || {
		tail -n 30 "$BATS_FILE_TMPDIR/base.log"
		return 1
	}
}

setup() {
	dir=$BATS_TEST_TMPDIR/debian
}

inside() {
	chroot_in "$dir" "$@"
}

# install_debs FILE..: install with dpkg; the dependencies are installed already
install_debs() {
	cp "$@" "$dir/tmp/"
	inside dpkg --install "${@/#*\///tmp/}"
	rm "${@/#*\//$dir/tmp/}"
}

# install_all: install the packages as they were built
install_all() {
	local name debs=()
	chroot_fresh "$dir"
	for name in $NAMES; do debs+=("$(deb "$name")"); done
	install_debs "${debs[@]}"
}

# services: print what the packages have asked systemd for since the last call
services() {
	cat "$dir/var/log/services" 2>/dev/null || true
	rm -f "$dir/var/log/services"
}

@test "lintian finds neither errors nor warnings" {
	run -0 lintian --allow-root --fail-on error,warning "${CHANGES[@]}"
	[ -z "$output" ]
}

@test "the same sources make the same packages, byte for byte, wherever they lie and whatever lies beside them" {
	"$ROOT/scripts/dist.sh" "$BATS_TEST_TMPDIR/sources.tar.gz"
	(umask 027 && tar -xzf "$BATS_TEST_TMPDIR/sources.tar.gz" -C "$BATS_TEST_TMPDIR")
	cd "$BATS_TEST_TMPDIR/smcrd-$VERSION"
	echo 'int other;' >daemon/smcr/notes.c
	scripts/deb.sh
	for file in "$ROOT"/build/deb/*.deb; do cmp "$file" "build/deb/${file##*/}"; done
}

@test "installed: a user, a service that is enabled and started, programs that work" {
	run -0 install_all
	[[ $output != *[Ww]arning* ]]
	inside getent passwd smcrd
	[ -L "$dir/etc/systemd/system/multi-user.target.wants/smcrd.service" ]
	# the bus learns of the user before the service starts
	[[ $(services) == *"busctl call "*" ReloadConfig"*"deb-systemd-invoke start smcrd.service"* ]]
	run -0 inside smcrd --check-config
	run -0 inside smcrd --version
	[ "$output" = "smcrd $VERSION" ]
	# smcrd does not run, and doctor says what to do
	run -1 inside smcrctl doctor
	[[ $output == *"/run/smcrd/smcrd.sock"* ]]
	[[ $output == *"user smcrd can read the configuration below /etc/smcrd"* ]]
	run -0 inside smcr-run true
	run -0 inside smcr-run env
	[[ $output == *"LD_PRELOAD=/usr/lib/smcrd/libsmcr-preload.so"* ]]
	# the programs find all their libraries
	run ! grep -h 'not found' <(inside ldd /usr/sbin/smcrd /usr/bin/smcrctl /usr/bin/smcr-run /usr/lib/smcrd/libsmcr-preload.so)
	inside sh -c 'ldconfig -p' | grep -q 'libsmcr.so.0 '
	[ -e "$dir/usr/share/doc/smcrd/docs/operations.md" ]
	zgrep -q 'smcrd --check-config' "$dir/usr/share/doc/smcrd/NEWS.Debian.gz"
	for page in man8/smcrd.8 man8/smcrctl.8 man1/smcr-run.1 man5/smcrd.conf.5 man3/libsmcr.3; do
		[ -e "$dir/usr/share/man/$page.gz" ]
	done
	# the catalog has been read
	inside journalctl --list-catalog | grep -q 'smcrd: SMC-R with @PEER@ has begun'
}

@test "an upgrade neither stops nor restarts the service, and leaves a configuration that was changed" {
	install_all
	echo 'memory = 2G' >"$dir/etc/smcrd/smcrd.conf"
	mkdir -p "$dir/etc/smcrd/smcrd.conf.d"
	echo 'max_links = 2' >"$dir/etc/smcrd/smcrd.conf.d/10-mine.conf"
	inside chgrp smcrd /etc/smcrd/smcrd.conf
	services >/dev/null
	local debs=()
	for name in smcrd smcr-run libsmcr0 libsmcr-dev; do debs+=("$(newer "$name")"); done
	cp "${debs[@]}" "$dir/tmp/"
	inside dpkg --install --force-confold "${debs[@]/#*\///tmp/}"
	# shellcheck disable=SC2016 # dpkg-query expands
	[ "$(inside dpkg-query -W -f '${Version}' smcrd)" = "$VERSION+next" ]
	asked=$(services)
	[[ $asked == *"daemon-reload"* ]]
	run ! grep -E 'start|stop|reload-or' <<<"$asked" # also what the operator has stopped
	[ "$(cat "$dir/etc/smcrd/smcrd.conf")" = 'memory = 2G' ]
	[ "$(inside stat -c %G /etc/smcrd/smcrd.conf)" = smcrd ]
	[ -e "$dir/etc/smcrd/smcrd.conf.d/10-mine.conf" ]
	run -0 inside smcrd --check-config
	# a service that the operator has disabled stays disabled
	[ -L "$dir/etc/systemd/system/multi-user.target.wants/smcrd.service" ]
}

@test "processes that run the old program after an upgrade are named" {
	install_all
	# a process of the program, which systemctl shows as the service's main process
	cp "$dir/usr/bin/sleep" "$dir/usr/sbin/smcrd"
	cat >"$dir/usr/local/sbin/systemctl" <<-'END'
	#!/bin/sh
	case $* in 'show -P MainPID smcrd.service') cat /run/pid ;; esac
	END
	cp "$(newer smcrd)" "$dir/tmp/smcrd.deb"
	run -0 inside sh -c '/usr/sbin/smcrd 600 >/dev/null 2>&1 & echo $! >/run/pid
		dpkg --install --force-confold /tmp/smcrd.deb; kill $!'
	[[ $output == *"smcrd: the service goes on with the program from before"*"smcrd --check-config && "*"systemctl restart smcrd"* ]]
	# no message if the service runs the installed program
	run -0 inside sh -c 'echo 0 >/run/pid; dpkg --install --force-confold /tmp/smcrd.deb'
	[[ $output != *"goes on with"* ]]
}

@test "removed, the service is stopped and the configuration kept; purged, nothing is left" {
	chroot_fresh "$dir"
	before=$(chroot_tree "$dir")
	rm -rf "$dir"
	install_all
	# files of an operator and of the service
	echo 'memory = 2G' >>"$dir/etc/smcrd/smcrd.conf"
	mkdir -p "$dir/etc/smcrd/smcrd.conf.d" "$dir/run/smcrd"
	echo 'max_links = 2' >"$dir/etc/smcrd/smcrd.conf.d/10-mine.conf"
	touch "$dir/run/smcrd/smcrd.sock.instance"
	services >/dev/null
	# shellcheck disable=SC2086
	inside dpkg --remove $NAMES
	[[ $(services) == *"deb-systemd-invoke stop smcrd.service"* ]]
	[ -e "$dir/etc/smcrd/smcrd.conf" ]
	[ -e "$dir/etc/smcrd/smcrd.conf.d/10-mine.conf" ]
	run ! test -e "$dir/usr/sbin/smcrd"
	# the other packages leave nothing for a purge
	run -0 inside dpkg --purge smcrd smcr-run
	[[ $output != *[Ww]arning* ]]
	diff <(echo "$before") <(chroot_tree "$dir")
}

@test "drop-ins of smcr-run --unit: told when it is removed, gone when it is purged; others stay" {
	install_all
	units=$dir/etc/systemd/system
	mkdir -p "$units/nginx.service.d" "$units/other.service.d"
	inside sh -c 'smcr-run --unit nginx.service --write' || true
	grep -q 'Made by smcr-run --unit' "$units/nginx.service.d/50-smcr.conf"
	echo '[Service]' >"$units/other.service.d/50-smcr.conf"
	run -0 inside dpkg --remove smcr-run
	[[ $output == *"smcr-run: /etc/systemd/system/nginx.service.d/50-smcr.conf names a library that is gone"* ]]
	[[ $output != *other.service* ]]
	[ -e "$units/nginx.service.d/50-smcr.conf" ]
	services >/dev/null
	inside dpkg --purge smcr-run
	run ! test -e "$units/nginx.service.d"
	[ -e "$units/other.service.d/50-smcr.conf" ]
	[[ $(services) == *daemon-reload* ]]
}

# need_for TEST: print the dependencies of the test in debian/tests/control, without smcrd's own packages
need_for() {
	sed -n "/^Tests: $1\$/,/^\$/s/^Depends: //p" "$ROOT/debian/tests/control" | tr -d , | tr ' ' '\n' |
		grep -vE '^(smcrd|smcr-run|libsmcr-dev|smcrd-doc)$'
}

@test "the tests of the packages pass: a transfer over SMC-R, a program of libsmcr" {
	install_all
	for name in transfer library; do
		# shellcheck disable=SC2046
		inside apt-get -qq install -y --no-install-recommends $(need_for "$name") >"$BATS_TEST_TMPDIR/apt.log" 2>&1
		cp "$ROOT/debian/tests/$name" "$dir/tmp/"
		run inside "/tmp/$name"
		[ "$status" -ne 77 ] || skip "$output"
		[ "$status" -eq 0 ] || {
			echo "$name: $output"
			return 1
		}
	done
}
