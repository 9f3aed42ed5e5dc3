#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcr-run --unit: services of systemd over SMC-R.
# shellcheck disable=SC2016,SC2154 # other shells expand; bats sets stderr
bats_require_minimum_version 1.5.0
load common
# shellcheck source=tests/bats/systemd.bash
. "$BATS_TEST_DIRNAME/systemd.bash"

LIBRARY=$(readlink -f "$HOSTS_BUILD/lib/libsmcr-preload.so")

setup() {
	unset LD_PRELOAD SMCRD_SOCKET SMCR_REQUIRE SMCR_VERBOSE
}

teardown() {
	local status=0
	if [ -z "${BATS_TEST_COMPLETED:-}" ] && [ -n "${SYSTEMD_PID:-}" ]; then
		inside journalctl --no-pager | tail -30
	fi
	[ -z "${HOSTS_ID:-}" ] || daemon_ends b || status=$?
	systemd_down || status=$?
	net_down
	return "$status"
}

# settings: print the lines of $output that are neither comments nor empty.
settings() {
	sed '/^#/d; /^$/d' <<<"$output"
}

@test "the drop-in has what smcr-run would set" {
	run -0 --separate-stderr "$RUN" --unit nginx.service
	[ "$(settings)" = "[Unit]
Wants=smcrd.service
After=smcrd.service
[Service]
Environment=\"LD_PRELOAD=$LIBRARY\"" ]
	[[ $output == *"#   /etc/systemd/system/nginx.service.d/50-smcr.conf"* ]]
	run -0 --separate-stderr "$RUN" -rv --socket '/run/a %i "b\c' --unit 'web@one\x2dtwo.service'
	[[ $(settings) == *'
Environment="SMCRD_SOCKET=/run/a %%i \"b\\c"
Environment="SMCR_REQUIRE=1"
Environment="SMCR_VERBOSE=1"' ]]
}

@test "only names of services are taken" {
	for name in nginx nginx.socket .service @.service ../a.service a/b.service 'a b.service' $'a\nb.service' \
		'a$b.service' "$(printf 'a%.0s' $(seq 250)).service"; do
		run -125 --separate-stderr "$RUN" --unit "$name"
		[ -z "$output" ]
		[[ $stderr == *"is no name of a service"* ]]
	done
	run -0 "$RUN" --unit 'a:b-c_d.e@.service'
	run -125 "$RUN" --unit a.service --socket relative
	[[ $output == *"absolute path"* ]]
	run -125 "$RUN" --unit a.service --socket $'/a\nExecStart=/bin/false'
	run -125 "$RUN" --unit a.service true
	run -125 "$RUN" --write true
}

@test "systemd finds nothing wrong with the drop-in" {
	local dir=$BATS_TEST_TMPDIR/units
	mkdir -p "$dir/test.service.d"
	printf '[Service]\nExecStart=/bin/true\n' >"$dir/test.service"
	printf '[Service]\nExecStart=/bin/true\n' >"$dir/smcrd.service"
	"$RUN" -rv --socket '/run/a %i "b\c' --unit test.service >"$dir/test.service.d/50-smcr.conf"
	run -0 env SYSTEMD_UNIT_PATH="$dir:" systemd-analyze verify --man=no "$dir/test.service"
	[ -z "$output" ]
	# systemd reads the drop-in
	echo 'Nonsense=1' >>"$dir/test.service.d/50-smcr.conf"
	run env SYSTEMD_UNIT_PATH="$dir:" systemd-analyze verify --man=no "$dir/test.service"
	[ "$status" -le 1 ] # later versions of systemd exit with 1
	[[ $output == *"50-smcr.conf"*"Nonsense"* ]]
}

@test "--write puts it in its place, in one step, again and again" {
	# a temporary /etc/systemd/system that disappears with the shell
	run -0 unshare --mount bash -c '
		mount -t tmpfs tmpfs /etc/systemd/system
		"$0" --unit a@b.service --write
		"$0" -v --unit a@b.service --write
		cd /etc/systemd/system
		find . -type f
		stat -c %a a@b.service.d a@b.service.d/50-smcr.conf
		grep -c SMCR_VERBOSE a@b.service.d/50-smcr.conf
		"$0" -v --unit a@b.service 2>/dev/null | diff - a@b.service.d/50-smcr.conf' "$RUN"
	[[ $output == *"/etc/systemd/system/a@b.service.d/50-smcr.conf is written; now: systemctl daemon-reload && systemctl restart a@b.service"* ]]
	[[ $output == *"
./a@b.service.d/50-smcr.conf
755
644
1" ]]
	run -125 unshare --mount bash -c 'mount -t tmpfs -o ro tmpfs /etc/systemd/system
		"$0" --unit a.service --write' "$RUN"
	[[ $output == *"Read-only file system"* ]]
}

# drop_in LINE..: make the drop-in for a service that systemctl shows as these lines
drop_in() {
	unshare --mount bash -c '
		mount -t tmpfs tmpfs /run
		mkdir -p /run/systemd/system /run/bin
		printf "%s\n" "#!/bin/sh" "echo LoadState=loaded" "cat /run/value" >/run/bin/systemctl
		chmod +x /run/bin/systemctl
		run=$1
		shift
		printf "%s\n" "$@" >/run/value
		PATH=/run/bin:$PATH "$run" --unit a.service' - "$RUN" "$@"
}

# before VALUE: print LD_PRELOAD of the drop-in for a service whose Environment= systemctl shows as VALUE
before() {
	drop_in "Environment=$1" 2>/dev/null | sed -n "s|^Environment=\"LD_PRELOAD=$LIBRARY\(.*\)\"$|\1|p"
}

@test "the drop-in keeps the libraries that the service has in LD_PRELOAD, but for another copy of ours" {
	[ "$(before 'A=1')" = '' ]
	[ "$(before 'MY_LD_PRELOAD=x.so LD_PRELOAD=a.so:/b/c.so B=d.so')" = ':a.so:/b/c.so' ]
	[ "$(before 'A=1 "LD_PRELOAD=a.so  b.so" B=1')" = ':a.so:b.so' ]
	[ "$(before 'LD_PRELOAD=libsmcr-preload.so:/opt/libsmcr-preload.so:a.so')" = ':a.so' ]
	[ "$(before 'LD_PRELOAD=/opt/notlibsmcr-preload.so:libsmcr-preload.so.1')" = \
		':/opt/notlibsmcr-preload.so:libsmcr-preload.so.1' ]
}

@test "a service whose program has the address sanitizer: its runtime comes first, and other commands are named" {
	local runtime program=$BATS_TEST_TMPDIR/program
	echo 'int main(void) { return 0; }' >"$program.c"
	gcc -fsanitize=address -o "$program" "$program.c"
	runtime=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(libasan.*\)\]/\1/p')
	run -0 --separate-stderr drop_in "ExecStart={ path=$program ; argv[]=$program ; ignore_errors=no }" Environment=LD_PRELOAD=a.so
	[[ $output == *"Environment=\"LD_PRELOAD=$runtime::$LIBRARY:a.so\""* ]]
	[ -z "$stderr" ]
	# made again, when the drop-in is there
	run -0 --separate-stderr drop_in "ExecStart={ path=$program ; argv[]=$program }" \
		"Environment=LD_PRELOAD=$runtime::$LIBRARY:a.so" "ExecStop={ path=/bin/true ; argv[]=/bin/true }"
	[[ $output == *"Environment=\"LD_PRELOAD=$runtime::$LIBRARY:a.so\""* ]]
	[[ $stderr == *"a.service: $program needs $runtime in front of LD_PRELOAD, so the commands of ExecStop= "* ]]
	# the program was built anew, without it
	run -0 --separate-stderr drop_in "ExecStart={ path=/bin/true ; argv[]=/bin/true }" \
		"Environment=LD_PRELOAD=$runtime::$LIBRARY:a.so"
	[[ $output == *"Environment=\"LD_PRELOAD=$LIBRARY:a.so\""* ]]
}

# unit NAME LINE..: write a service on the host of systemd
unit() {
	local name=$1
	shift
	mkdir -p "$HOSTS_DIR/files/etc/systemd/system"
	printf '%s\n' '[Service]' "$@" >"$HOSTS_DIR/files/etc/systemd/system/$name"
}

@test "a confined service serves SMC-R with the drop-in; settings that prevent it are named" {
	case $HOSTS_BUILD in
	*/san) skip "sanitizers need what the unit takes away" ;;
	esac
	missing=$(systemd_missing)
	[ -z "$missing" ] || skip "$missing"
	hosts_up 1500
	install_to "$HOSTS_DIR/files"
	cp "$PROGRAMS/echo_server" "$HOSTS_DIR/files/usr/bin"
	gcc -std=c17 -D_GNU_SOURCE -static -o "$HOSTS_DIR/files/usr/bin/static_server" "$HOSTS_ROOT/tests/programs/echo_server.c"
	unit echo.service "ExecStart=/usr/bin/echo_server $SERVER 7001" DynamicUser=yes ProtectSystem=strict \
		'RestrictAddressFamilies=AF_INET AF_INET6' SystemCallFilter=@system-service \
		ProtectProc=invisible ProcSubset=pid PrivateTmp=yes PrivateDevices=yes MemoryDenyWriteExecute=yes \
		CapabilityBoundingSet= 'Environment=MY_LD_PRELOAD=x "LD_PRELOAD=libdl.so.2 libm.so.6"'
	unit root.service "ExecStart=/usr/bin/echo_server $SERVER 7002" 'TemporaryFileSystem=/usr/lib/smcrd /run' \
		NoExecPaths=/usr/lib/smcrd
	unit bad.service "ExecStart=/usr/bin/static_server $SERVER 7003" PrivateNetwork=yes \
		RestrictAddressFamilies=~AF_UNIX 'SystemCallFilter=~dup3 ppoll' InaccessiblePaths=/run/smcrd \
		EnvironmentFile=-/etc/default/bad UnsetEnvironment=LD_PRELOAD
	systemd_boot "$HOSTS_DIR/files"
	inside systemctl start smcrd
	smcrd_start b

	run -0 inside smcr-run --unit echo.service --write
	[[ $output == *"AF_UNIX, by which smcrd is reached: the drop-in adds it"* ]]
	[ "$(wc -l <<<"$output")" = 2 ]
	inside systemctl daemon-reload
	inside systemctl start echo
	until_true 20 tcp_listens a 7001
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 100000
	pid=$(inside systemctl show -P MainPID echo)
	inside cat "/proc/$pid/environ" | tr '\0' '\n' | grep -qx 'LD_PRELOAD=/usr/lib/smcrd/libsmcr-preload.so:libdl.so.2:libm.so.6'
	# smcr-run --unit finds the service unchanged
	run -0 inside smcr-run --unit echo.service
	[[ $output == *'"LD_PRELOAD=/usr/lib/smcrd/libsmcr-preload.so:libdl.so.2:libm.so.6"'* ]]

	run -0 inside smcr-run --unit root.service --write
	[[ $output == *"NoExecPaths= concerns the preload library"* ]]
	inside systemctl daemon-reload
	inside systemctl start root
	until_true 20 tcp_listens a 7002
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7002 --bytes 100000

	run -0 --separate-stderr inside smcr-run --unit bad.service
	for text in "static_server cannot use SMC-R: it is statically linked" "network namespace of its own" \
		"forbids AF_UNIX" "does not allow dup3()" "does not allow ppoll()" \
		"InaccessiblePaths= hides smcrd's socket" "EnvironmentFile= overrides" "UnsetEnvironment= takes"; do
		[[ $stderr == *"bad.service: "*"$text"* ]] || {
			echo "missing: $text in: $stderr"
			return 1
		}
	done
	[ "$(wc -l <<<"$stderr")" = 8 ]
	run -0 --separate-stderr inside smcr-run --unit smcrd-of-nobody.service
	[[ $stderr == *"systemd says nothing of smcrd-of-nobody.service"* ]]
}
