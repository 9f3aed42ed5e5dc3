#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Programs under smcr-run that start other programs: the library is loaded into these too, whatever their environment.
# shellcheck disable=SC2016 # other shells expand
bats_require_minimum_version 1.5.0

setup() {
	ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	BUILD=${HOSTS_BUILD:-$ROOT/build}
	RUN=$BUILD/bin/smcr-run
	WAYS=$BUILD/tests/programs/exec_ways
	LIBRARY=$(readlink -f "$BUILD/lib/libsmcr-preload.so")
	# not in /tmp, which may be mounted nosuid
	DIR=$(mktemp -d "$BUILD/exec-XXXXXX")
	SOCKET=$DIR/none
	unset LD_PRELOAD SMCRD_SHARED SMCRD_SOCKET SMCR_REQUIRE SMCR_VERBOSE SMCR_CARRY
}

teardown() {
	rm -rf "$DIR"
}

# run_ways STATUS WAY PROGRAM [ARGUMENT] [NAME=VALUE]..: run exec_ways under smcr-run; its standard output
# and standard error go to $output and $stderr
run_ways() {
	local status=$1
	shift
	run --separate-stderr "-$status" "$RUN" ${options[@]+"${options[@]}"} --socket "$SOCKET" "$WAYS" "$@"
}

# static NAME STATUS: build a static program that prints "static" and ends with the status
static() {
	printf '#include <stdio.h>\nint main(void) { puts("static"); return %d; }\n' "$2" >"$DIR/$1.c"
	gcc -static -o "$DIR/$1" "$DIR/$1.c"
}

carried() {
	[ "$(sort <<<"$output")" = "$(printf '%s\n' "$@" | sort)" ]
}

@test "each way to start a program with a cleared environment carries the library" {
	for way in execve execv execvp execvpe execl execlp execle fexecve path-only execveat posix_spawn \
		posix_spawnp handler; do
		echo "$way"
		run_ways 0 "$way" /usr/bin/env - A=1
		carried A=1 "LD_PRELOAD=$LIBRARY" "SMCRD_SOCKET=$SOCKET"
		[ -z "$stderr" ]
	done
	run_ways 0 none /usr/bin/env
	carried "LD_PRELOAD=$LIBRARY" "SMCRD_SOCKET=$SOCKET"
}

@test "arguments arrive, and so do the settings of smcr-run" {
	local options=(--verbose)
	for way in execve execl execlp execle posix_spawn; do
		run_ways 0 "$way" /usr/bin/printenv SMCR_VERBOSE
		[ "$output" = 1 ]
	done
	options=(--require)
	run_ways 0 execle /usr/bin/printenv SMCR_REQUIRE
	[ "$output" = 1 ]
	SMCRD_SHARED=always run_ways 0 execle /usr/bin/printenv SMCRD_SHARED
	[ "$output" = always ]
	# a variable that the program has set itself stays
	run_ways 0 execve /usr/bin/printenv SMCR_REQUIRE SMCR_REQUIRE=0
	[ "$output" = 0 ]
}

@test "a program without standard input carries the library" {
	run_ways 0 execve /usr/bin/env - A=1 <&-
	carried A=1 "LD_PRELOAD=$LIBRARY" "SMCRD_SOCKET=$SOCKET"
}

@test "other preloaded libraries stay, behind ours" {
	other=$(ldconfig -p | sed -n 's/.*libm\.so\.6.*=> //p' | head -n 1)
	run_ways 0 execve /usr/bin/printenv LD_PRELOAD "LD_PRELOAD=$other"
	[ "$output" = "$LIBRARY:$other" ]
	run_ways 0 execve /usr/bin/printenv LD_PRELOAD "LD_PRELOAD=$other:$LIBRARY"
	[ "$output" = "$other:$LIBRARY" ]
}

@test "each way leads into a program with the address sanitizer, and out of it" {
	printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv("LD_PRELOAD")); return 5; }\n' >"$DIR/main.c"
	gcc -fsanitize=address -o "$DIR/asan" "$DIR/main.c"
	gcc -D_GNU_SOURCE -fsanitize=address -o "$DIR/ways" "$ROOT/tests/programs/exec_ways.c" -lpthread
	for way in execve execv execvp execvpe execl execlp execle fexecve path-only execveat posix_spawn \
		posix_spawnp handler; do
		echo "$way"
		run_ways 5 "$way" "$DIR/asan" - A=1
		[ "$output" = "$LIBRARY" ]
		WAYS=$DIR/ways run_ways 0 "$way" /usr/bin/env - A=1
		carried A=1 "LD_PRELOAD=$LIBRARY" "SMCRD_SOCKET=$SOCKET"
		[ -z "$stderr" ]
	done
	# one that is not the library's to take out
	runtime=$(gcc -print-file-name=libasan.so)
	run_ways 5 execve "$DIR/asan" - "LD_PRELOAD=libm.so.6:$runtime"
	[ "$output" = "$runtime:$LIBRARY:libm.so.6" ]
	# through a script, whose interpreter it is
	printf '#!%s\n' "$DIR/asan" >"$DIR/script"
	chmod 755 "$DIR/script"
	run_ways 5 execve "$DIR/script" - A=1
	[ "$output" = "$LIBRARY" ]
	SMCR_CARRY=0 run -0 "$RUN" "$DIR/ways" execve /usr/bin/env - A=1
	[ "$output" = A=1 ]
	SMCR_CARRY=0 run -5 "$RUN" "$DIR/asan"
	[ "$output" = "$LIBRARY" ]
}

@test "PATH is searched as the C library does: of the environment that the program has" {
	mkdir "$DIR/first" "$DIR/second"
	printf '#!/bin/sh\necho "$LD_PRELOAD"\n' >"$DIR/second/tool"
	echo data >"$DIR/first/tool"
	chmod 755 "$DIR/second/tool"
	for way in execvp execlp execvpe posix_spawnp; do
		run_ways 0 "$way" tool - "PATH=$DIR/first:$DIR/second:/bin"
		[ "$output" = "$LIBRARY" ]
		run_ways 1 "$way" tool - "PATH=$DIR/first"
		[ "$output" = EACCES ]
		run_ways 1 "$way" surely-no-such-program
		[ "$output" = ENOENT ]
	done
}

@test "errors are those of the C library, and nothing is said" {
	echo data >"$DIR/data"
	local options=(--verbose)
	for way in execve execv execl execle execveat fexecve posix_spawn; do
		run_ways 1 "$way" "$DIR/data"
		[ "$output" = EACCES ]
		[[ $stderr != *"smcr-run["* ]]
	done
	run_ways 1 execve "$DIR/none"
	[ "$output" = ENOENT ]
	run_ways 1 fexecve "$DIR/none"
	[[ $output = EBADF || $output = EINVAL ]]
	run_ways 1 execve "$DIR/data/below"
	[ "$output" = ENOTDIR ]
}

# bar_after WAY PROGRAM: have the program inherit a listener, and print 0 if the listener is barred afterwards
bar_after() {
	/usr/bin/python3 - "$RUN" "$SOCKET" "$WAYS" "$@" <<-'EOF'
	import socket, subprocess, sys
	run, path, ways, way, program = sys.argv[1:]
	listener = socket.create_server(("127.0.0.1", 0))
	listener.set_inheritable(True)
	subprocess.run([run, "--socket", path, ways, way, program], close_fds=False, stdout=subprocess.DEVNULL)
	IP_MULTICAST_ALL = 49
	print(listener.getsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL))
	EOF
}

@test "a listener stays barred for a program that cannot speak CLC, and not for one that was not started" {
	static tool 0
	static locked 0
	chmod 644 "$DIR/locked"
	for way in execve posix_spawn; do
		[ "$(bar_after "$way" "$DIR/tool")" = 0 ]
		[ "$(bar_after "$way" "$DIR/locked")" = 1 ]
		[ "$(bar_after "$way" /usr/bin/true)" = 1 ]
	done
}

@test "a very large environment is carried, after vfork() it is left as it is" {
	run_ways 0 large /usr/bin/env - A=1
	[ "$(wc -l <<<"$output")" = 20003 ]
	[[ $output == *$'\n'"LD_PRELOAD=$LIBRARY"* ]]
	[[ $output == "A=1"$'\n'"V0=0"$'\n'* ]]
	run_ways 0 vfork-large /usr/bin/env - A=1
	[ "$(wc -l <<<"$output")" = 20001 ]
	[[ $output != *LD_PRELOAD* ]]
	local options=(--verbose)
	run_ways 0 vfork-large /usr/bin/true
	[[ $stderr == *"/usr/bin/true cannot use SMC-R: its environment is too large"* ]]
	# the environment needs no change, so it may have any size
	run_ways 0 vfork-large /usr/bin/true - "LD_PRELOAD=$LIBRARY" "SMCRD_SOCKET=$SOCKET" SMCR_VERBOSE=1
	[[ $stderr != *"cannot use"* ]]
}

@test "threads that vfork() and exec at once" {
	run_ways 0 vfork /usr/bin/env
	[ "$(grep -c "^LD_PRELOAD=$LIBRARY\$" <<<"$output")" = 100 ]
}

@test "SMCR_CARRY=0 keeps the library out: set at the start, by the program, or for the program that it starts" {
	SMCR_CARRY=0 run_ways 0 execve /usr/bin/env - A=1
	carried A=1
	run_ways 0 execve /usr/bin/env - SMCR_CARRY=0
	carried SMCR_CARRY=0
	run_ways 0 posix_spawn /usr/bin/env - SMCR_CARRY=0
	carried SMCR_CARRY=0
	run_ways 0 execve /usr/bin/env - SMCR_CARRY=1
	carried SMCR_CARRY=1 "LD_PRELOAD=$LIBRARY" "SMCRD_SOCKET=$SOCKET"
	# "exec env -i" in a shell where the variable is set
	run -0 "$RUN" sh -c 'export SMCR_CARRY=0; exec env -i /usr/bin/env'
	[ -z "$output" ]
	# with --require too, because SMCR_CARRY=0 is set on purpose
	static program 5
	run -5 "$RUN" --require env SMCR_CARRY=0 "$DIR/program"
	[ "$output" = static ]
}

@test "a program inside that cannot use SMC-R: one line with -v, refused with --require" {
	static program 5
	local text="$DIR/program cannot use SMC-R: it is statically linked, so no library can be loaded into it"
	for way in execve execvp posix_spawn fexecve; do
		run_ways 5 "$way" "$DIR/program"
		[ -z "$stderr" ]
		local options=(--verbose)
		run_ways 5 "$way" "$DIR/program"
		[ "$output" = static ]
		[[ ${stderr/the program/$DIR/program} == *"smcr-run["*"]: $text; it runs over plain TCP" ]]
		options=(--require)
		run_ways 1 "$way" "$DIR/program"
		[ "$output" = EACCES ]
		[[ ${stderr/the program/$DIR/program} == "smcr-run["*"]: $text; --require: not started" ]]
		options=()
	done
	# started through a shell, env and a script
	printf '#!/usr/bin/env %s\n' "$DIR/program" >"$DIR/script"
	chmod 755 "$DIR/script"
	run -126 "$RUN" --require env -i sh -c "exec $DIR/script"
	[[ $output == *"$text"* ]]
	run -126 "$RUN" --require sh -c "$DIR/program; exit \$?"
	[[ $output == *"$text"* ]]
}

@test "smcr-run within smcr-run: the inner one decides" {
	static program 5
	run -5 "$RUN" --require "$RUN" "$DIR/program"
	[[ $output == *"$DIR/program cannot use SMC-R"*"; it runs over plain TCP"*static ]]
	run -126 "$RUN" "$RUN" --require "$DIR/program"
	run -0 "$RUN" --require --verbose --socket "$SOCKET" env -i "$RUN" sh -c 'exec env -i /usr/bin/env'
	[[ $output != *SMCR_REQUIRE=1* && $output != *SMCR_VERBOSE=1* ]]
	[[ $output == *"SMCRD_SOCKET=$SOCKET"* ]]
}

@test "setuid programs and those of another C library, behind a cleared environment" {
	cp /usr/bin/env "$DIR/program"
	chown 65534 "$DIR/program"
	chmod 4755 "$DIR/program"
	local options=(--verbose)
	run_ways 0 execve "$DIR/program" - A=1
	[[ $stderr == *"$DIR/program cannot use SMC-R: it is setuid"* ]]
	# with no_new_privs a setuid program gains no privileges, and the loader loads the library
	run -0 --separate-stderr setpriv --no-new-privs "$RUN" -v --socket "$SOCKET" "$WAYS" execve "$DIR/program"
	[[ $stderr != *"cannot use"* ]]
	printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "none"); return 0; }\n' >"$DIR/main.c"
	musl-gcc -o "$DIR/other" "$DIR/main.c"
	run_ways 0 execve "$DIR/other"
	[ "$output" = none ]
	[[ $stderr == *"another C library"* ]]
	run_ways 0 execve "$DIR/other" - "LD_PRELOAD=$LIBRARY"
	[ "$output" = none ]
}

# with_usr COMMAND..: run it where $DIR/root/usr is /usr. Nobody else sees the mount, and it ends with the command.
with_usr() {
	unshare --mount --propagation private sh -c 'mount --bind -o ro /usr "$0/usr" && exec "$@"' "$DIR/root" "$@"
}

@test "after chroot(), where the library is not: nothing is said by the loader" {
	mkdir -p "$DIR/root/usr"
	for dir in bin lib lib64; do
		[ ! -L "/$dir" ] || ln -s "usr/$dir" "$DIR/root/$dir"
	done
	run -0 --separate-stderr with_usr "$RUN" --socket "$SOCKET" chroot "$DIR/root" /usr/bin/env
	[ -z "$stderr" ]
	[[ $output != *LD_PRELOAD* ]]
	run -0 --separate-stderr with_usr "$RUN" --socket "$SOCKET" -v chroot "$DIR/root" /usr/bin/env
	[[ $stderr == *"/usr/bin/env cannot use SMC-R: the preload library is out of its reach; it runs over plain TCP" ]]
	run -126 --separate-stderr with_usr "$RUN" --socket "$SOCKET" --require chroot "$DIR/root" /usr/bin/env
	[[ $stderr == *"--require: not started"* ]]
}
