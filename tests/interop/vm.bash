# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Virtual machines with Debian's 6.12 kernel under QEMU, or with the kernel 6.1 of Debian 12 itself (VM_SUITE=bookworm).
# Software emulation works everywhere in the same way; VM_ACCEL=kvm is faster where it works. The machines see the
# host's root file system read-only. Everything is prepared once, from Debian packages, in a cache for each kernel:
# SMCRD_INTEROP_CACHE, or ~/.cache/smcrd-interop. If the script is killed, its machines end with it.

VM_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VM_TOP=$(cd "$VM_HERE/../.." && pwd)
# shellcheck source=scripts/guard.bash
. "$VM_TOP/scripts/guard.bash"

VM_SUITE=${VM_SUITE:-bookworm-backports} # Debian's suite that the kernel is from
VM_CACHE=${SMCRD_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/smcrd-interop}
[ "$VM_SUITE" = bookworm-backports ] || VM_CACHE+=/$VM_SUITE
VM_KERNEL=$VM_CACHE/kernel # an unpacked linux-image package

vm_packages=(qemu-system-x86 busybox-static cpio kmod xz-utils iproute2 ibverbs-providers ncat jq)

# vm_install PACKAGE..: install packages that the host needs.
vm_install() {
	local package missing=()
	for package; do
		dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	echo "interop: installing ${missing[*]}" >&2
	apt-get -qq -o Acquire::Retries=3 update >/dev/null 2>&1 # if this fails, old lists may suffice
	DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
		--no-install-recommends "${missing[@]}" >/dev/null && return
	echo "interop: apt-get could not install ${missing[*]}" >&2
	return 1
}

# vm_mirror: print the archive from which this host gets its Debian packages.
vm_mirror() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
		sed -n 's/^deb \(\[[^]]*\] \)\?\(https\?:[^ ]*\).*/\2/p' >"$VM_CACHE/mirrors"
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
		sed -n 's/^URIs: *\(https\?:[^ ]*\).*/\1/p' >>"$VM_CACHE/mirrors"
	grep -v security "$VM_CACHE/mirrors" | head -n 1
}

# vm_apt_lists: fetch package lists of the suite, without changing the host's package sources. Sets VM_APT, the
# options for apt-get and apt-cache that use these lists.
vm_apt_lists() {
	local apt=$VM_CACHE/apt
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(vm_mirror)" \
		"$VM_SUITE main" >"$apt/sources.list"
	VM_APT=(-qq -o Dir::State::Lists="$apt/lists" -o Dir::Etc::SourceList="$apt/sources.list"
		-o Dir::Etc::SourceParts="$apt/parts" -o Dir::Cache="$apt" -o APT::Sandbox::User=root
		-o Acquire::Retries=3)
	timeout 120 apt-get "${VM_APT[@]}" update >&2
}

# vm_download PACKAGE[=VERSION]..: download packages into $VM_CACHE/apt.
vm_download() {
	(cd "$VM_CACHE/apt" && timeout 900 apt-get "${VM_APT[@]}" download "$@" >&2)
}

# vm_fetch_kernel: fetch and unpack the kernel of the suite.
vm_fetch_kernel() {
	local package
	[ ! -e "$VM_KERNEL/complete" ] || return 0
	rm -rf "$VM_KERNEL"
	mkdir -p "$VM_KERNEL"
	echo "interop: fetching the kernel" >&2
	vm_apt_lists || return
	package=$(apt-cache "${VM_APT[@]}" depends linux-image-amd64 |
		sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
	[ -n "$package" ] || return
	vm_download "$package" || return
	dpkg-deb -x "$VM_CACHE/apt/$package"_*.deb "$VM_KERNEL" || return
	depmod -b "$VM_KERNEL" "$(vm_release)" || return
	rm -rf "$VM_CACHE/apt"
	touch "$VM_KERNEL/complete"
}

# vm_release: print the kernel release of the guests, as uname -r does.
vm_release() {
	ls "$VM_KERNEL/lib/modules"
}

# vm_make_initrd: make the initial ramdisk with busybox, guest/init, and the modules that mount the file systems.
vm_make_initrd() {
	local dir=$VM_CACHE/initrd release module
	[ ! "$VM_CACHE/initrd.gz" -nt "$VM_HERE/guest/init" ] || return 0
	release=$(vm_release)
	rm -rf "$dir"
	mkdir -p "$dir/bin" "$dir/modules"
	cp /bin/busybox "$dir/bin/"
	install -m 755 "$VM_HERE/guest/init" "$dir/init"
	for module in virtio_pci virtio_net 9p 9pnet_virtio overlay; do
		modprobe -d "$VM_KERNEL" -S "$release" --show-depends "$module" |
			sed -n 's/^insmod \([^ ]*\).*/\1/p'
	done | awk '!seen[$0]++' | while read -r module; do
		case $module in
		*.xz) xz -dc "$module" >"$dir/modules/$(basename "$module" .xz)" ;;
		*) cp "$module" "$dir/modules/" ;;
		esac
		basename "$module" .xz >>"$dir/modules/order"
	done
	(cd "$dir" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$VM_CACHE/initrd.new" &&
		mv "$VM_CACHE/initrd.new" "$VM_CACHE/initrd.gz"
	rm -rf "$dir"
}

# vm_prepare: do all of this, unless it was done before.
vm_prepare() {
	mkdir -p "$VM_CACHE"
	(
		flock 9
		vm_install "${vm_packages[@]}" || exit
		vm_fetch_kernel || {
			echo "interop: no kernel of $VM_SUITE from '$(vm_mirror)'" >&2
			exit 1
		}
		vm_make_initrd
	) 9>"$VM_CACHE/lock"
}

# vm_boot NAME SCRIPT HOST [QEMU OPTIONS..]: run guest/SCRIPT in a new machine, in the background. VM_WORK/NAME is its
# /mnt, VM_WORK/NAME.console gets its console output. VM_RUN is put before the command, VM_ENV has names and values for
# /mnt/env, VM_NICE is the niceness (5), VM_MEMORY the memory in MiB (1024).
vm_boot() {
	local script=$2 host=$3 work=$VM_WORK/$1 release khz
	shift 3
	# On a busy host the guest's kernel may measure its counter wrongly, and its time then runs up to ten times too fast.
	khz=$("$VM_TOP/${VM_BUILD:-build}/tests/interop/tsc_khz")
	release=$(vm_release)
	mkdir -p "$work"
	cp "$VM_HERE/guest/common.bash" "$work/"
	cp "$VM_HERE/guest/$script" "$work/guest"
	printf '%s=%q\n' KERNEL_DIR "$VM_KERNEL" TOP "$VM_TOP" BUILD "${VM_BUILD:-build}" HOST "$host" \
		${VM_ENV[@]+"${VM_ENV[@]}"} >"$work/env"
	${VM_RUN[@]+"${VM_RUN[@]}"} nice -n "${VM_NICE:-5}" setpriv --pdeathsig KILL \
		qemu-system-x86_64 -accel "${VM_ACCEL:-tcg,thread=multi}" -cpu max -smp 1 -m "${VM_MEMORY:-1024}" \
		-nographic -no-reboot -nic none \
		-kernel "$VM_KERNEL/boot/vmlinuz-$release" -initrd "$VM_CACHE/initrd.gz" \
		-append "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off tsc=reliable${khz:+ tsc_early_khz=$khz}" \
		-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
		-virtfs local,path="$work",mount_tag=work,security_model=none \
		"$@" </dev/null >"$work.console" 2>&1 &
	VM_PIDS+=($!)
}

# vm_wait_for NAME SECONDS: wait until that guest has written its status.
vm_wait_for() {
	local end=$((SECONDS + $2))
	while [ ! -e "$VM_WORK/$1/status" ] && [ "$SECONDS" -lt "$end" ]; do sleep 0.2; done
}

# vm_wait SECONDS: wait until all guests have ended, and then kill those that have not.
vm_wait() {
	local end=$((SECONDS + $1)) pid
	for pid in "${VM_PIDS[@]}"; do
		while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do sleep 0.2; done
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	VM_PIDS=()
}

# vm_status NAME: print the guest's status.
vm_status() {
	cat "$VM_WORK/$1/status" 2>/dev/null || echo none
}

vm_cleanup() {
	local pid
	for pid in "${VM_PIDS[@]}"; do kill "$pid" 2>/dev/null; done
	[ -n "${VM_KEEP:-}" ] || rm -rf "$VM_WORK"
}

VM_PIDS=()
VM_RUN=() VM_ENV=()
VM_WORK=$(mktemp -d)
[ -n "${VM_KEEP:-}" ] || guard_start VM_GUARD "" rm -rf "$VM_WORK"
trap vm_cleanup EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time
