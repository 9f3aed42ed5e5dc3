# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# A separate Debian 12 below build/check-deb, in which packages are installed. Processes there use this machine's
# network, so no service is started there: systemctl only writes a log.

CHROOT_WORK=$ROOT/build/check-deb
CHROOT_BASE=$CHROOT_WORK/base

# chroot_mirror: print the archive from which this machine gets its packages.
chroot_mirror() {
	# shellcheck disable=SC2016 # apt-get expands
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' \
		'Component: main' 'Label: Debian' 2>/dev/null | head -n 1
}

# chroot_in DIR COMMAND..: run COMMAND as root of the tree, in a separate process namespace, which ends with COMMAND.
chroot_in() {
	local dir=$1
	shift
	# shellcheck disable=SC2016 # the other shell expands
	unshare --mount --pid --ipc --uts --fork --kill-child bash -c '
		dir=$1; shift
		mount --make-rprivate / && mount --bind "$dir" "$dir" && # its root is a mount, as ip netns wants it
		mount -t proc proc "$dir/proc" && mount --rbind /dev "$dir/dev" &&
		exec chroot "$dir" /usr/bin/env -i DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' - "$dir" "$@" </dev/null
}

# chroot_needs DIR DEBS..: print the packages of the archive on which DEBS depend.
chroot_needs() {
	local dir=$1 deb needs
	shift
	for deb in "$@"; do
		# the archive does not have the packages that DEBS need of each other
		needs=$(dpkg-deb -f "$deb" Depends | sed -E 's/(^|, *)libsmcr0 \([^)]*\)//')
		[ -z "$needs" ] || chroot_in "$dir" apt-get -qq satisfy -y --no-install-recommends "$needs" || return 1
	done
}

# chroot_base DEBS..: make the tree from which others are copied, with the dependencies of DEBS. The tree is kept; to
# make it anew, delete build/check-deb.
chroot_base() {
	local part=$CHROOT_WORK/part
	[ ! -e "$CHROOT_BASE" ] || return 0
	rm -rf "$part"
	mkdir -p "$part"
	# shellcheck disable=SC2046
	debootstrap --variant=minbase bookworm "$part" $(chroot_mirror) &&
		cp -L /etc/resolv.conf "$part/etc/resolv.conf" && chroot_in "$part" apt-get -qq update &&
		chroot_needs "$part" "$@" && mv "$part" "$CHROOT_BASE"
}

# chroot_fresh DIR: make a copy. Its services are not started, but written to DIR/var/log/services.
chroot_fresh() {
	local sbin=$1/usr/local/sbin name
	cp -a "$CHROOT_BASE" "$1"
	mkdir -p "$1/run/systemd/system" "$sbin"
	# the real systemctl is not needed: files say which services start with the host
	cat >"$sbin/systemctl" <<-'END'
	#!/bin/sh
	echo "systemctl $*" >>/var/log/services
	case " $* " in *' preset '* | *' enable '* | *' disable '* | *' unmask '*) exec /bin/systemctl "$@" ;; esac
	END
	for name in deb-systemd-invoke busctl; do
		printf '#!/bin/sh\necho "%s $*" >>/var/log/services\n' "$name" >"$sbin/$name"
	done
	chmod 755 "$sbin"/*
}

# chroot_tree DIR: print every file, and the contents of those in /etc, without the records of dpkg, apt and the loader.
chroot_tree() {
	(
		cd "$1" && find . \( -path ./proc -o -path ./sys -o -path ./dev -o -path './var/lib/dpkg/*-old' \
			-o -path './var/log' -o -path './var/cache/ldconfig/*' -o -path './var/lib/dpkg/triggers/*' \
			-o -path './etc/*-' -o -path ./etc/.pwd.lock \) -prune -o -printf '%y %M %U:%G %p %l\n' | sort
		find etc -type f ! -name '*-' ! -name ld.so.cache ! -name .pwd.lock -exec sha256sum {} + | sort -k 2
	)
}
