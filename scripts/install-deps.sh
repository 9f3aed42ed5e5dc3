#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Install the Debian 12 packages that are needed for a task. Does and prints nothing if all are installed; needs root
# if some are missing.
#
#   install-deps.sh --build      to build the programs and libraries (make deps)
#   install-deps.sh --deb        to build the Debian packages (make deb)
#   install-deps.sh --check      for tests, demo and benchmark, in addition to --build (make check-deps)
#   install-deps.sh --check-deb  for the tests of the packages (make check-deb)
#   install-deps.sh              --build and --check
#   install-deps.sh PACKAGE..    these packages
set -euo pipefail

build=(
	gcc make pkg-config libc6-dev linux-libc-dev clang bpftool libbpf-dev libevent-dev libibverbs-dev
	libinih-dev libisal-dev libjansson-dev libncurses-dev libnl-3-dev libnl-genl-3-dev libnl-route-3-dev librdmacm-dev
	libsystemd-dev systemtap-sdt-dev uthash-dev
)
deb=(build-essential debhelper dpkg-dev)
check=(
	bats bpftrace clang-format clang-tidy dbus g++ git gzip jq libclang-rt-14-dev libcmocka-dev llvm mandoc musl-tools python3
	python3-prometheus-client shellcheck spin systemd tshark xxd zlib1g-dev zsh
	# demo, benchmark, and programs that tests run over SMC-R
	ca-certificates curl ethtool iperf3 iproute2 kmod libcap2-bin ncat nftables nginx-light
	openssl procps python3-grpcio samba smbclient strace tcpdump util-linux
)
check_deb=(debootstrap lintian rpm rpmlint)

packages=()
[ $# -gt 0 ] || set -- --build --check
for what in "$@"; do
	case $what in
	--build) packages+=("${build[@]}") ;;
	--deb) packages+=("${deb[@]}") ;;
	--check) packages+=("${check[@]}") ;;
	--check-deb) packages+=("${check_deb[@]}") ;;
	-*)
		echo "install-deps: $what: there is no such option" >&2
		exit 2
		;;
	*) packages+=("$what") ;;
	esac
done

installed() {
	# shellcheck disable=SC2016
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
	installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "install-deps: this is not a Debian system; needed are: ${missing[*]}" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "install-deps: packages are missing; as root: apt-get install ${missing[*]}" >&2
	exit 1
fi

# No service may start because its package is installed: invoke-rc.d and systemd's helper both ask
# policy-rc.d. The administrator's own policy-rc.d, if there is one, is put back afterwards.
policy=/usr/sbin/policy-rc.d
saved=
log=$(mktemp)
restore() {
	rm -f "$policy"
	[ -z "$saved" ] || mv "$saved" "$policy"
	rm -f "$log"
}
trap restore EXIT
if [ -e "$policy" ]; then
	saved=$(mktemp "$policy.XXXXXX")
	mv "$policy" "$saved"
fi
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
echo "install-deps: installing ${missing[*]}"
"${apt[@]}" update >"$log" 2>&1 || true # old lists may suffice; if not, the installation fails
if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
	cat "$log" >&2
	echo "install-deps: apt-get could not install: ${missing[*]}" >&2
	exit 1
fi

# The services of packages that were just installed must not start at the next boot either.
for package in "${missing[@]}"; do
	command -v systemctl >/dev/null || break
	dpkg -L "$package" | sed -n 's#^\(/usr\)\?/lib/systemd/system/\([^/@]*\.\(service\|socket\)\)$#\2#p' |
		while read -r unit; do
			systemctl disable --quiet "$unit" 2>/dev/null || true
		done
done
