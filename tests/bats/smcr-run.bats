#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# smcr-run by itself: how it starts programs, and when it tells that preloading cannot work.
bats_require_minimum_version 1.5.0

setup() {
	ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	BUILD=${HOSTS_BUILD:-$ROOT/build}
	RUN=$BUILD/bin/smcr-run
	LIBRARY=$(readlink -f "$BUILD/lib/libsmcr-preload.so")
	# not in /tmp, which may be mounted nosuid
	DIR=$(mktemp -d "$BUILD/smcr-run-XXXXXX")
	unset LD_PRELOAD SMCRD_SOCKET SMCR_REQUIRE SMCR_VERBOSE
}

teardown() {
	rm -rf "$DIR"
}

# preloaded LIST PROGRAM..: run a program of ours that others are preloaded into. With sanitizers it would not like that.
preloaded() {
	local list=$1
	shift
	env LD_PRELOAD="$list" ASAN_OPTIONS=verify_asan_link_order=0 "$@"
}

# loader_of PROGRAM: print the path of its dynamic loader
loader_of() {
	readelf -l "$1" | sed -n 's/.*program interpreter: \(.*\)]/\1/p'
}

# elf CLASS MACHINE NOTE: write the headers of an executable, as far as smcr-run reads them
elf() {
	/usr/bin/python3 - "$@" "$(loader_of "$RUN")" >"$DIR/program" <<-'EOF'
	import struct, sys
	elf_class, machine, note = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
	loader = sys.argv[4].encode() + b"\0"
	ident = b"\x7fELF" + bytes([elf_class, 1, 1]) + bytes(9)
	segments = 2 if note else 1
	out = ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, segments, 0, 0, 0)
	note = struct.pack("<III", 4, 4, 4) + note.ljust(4, b"\0") + b"abcd" if note else b""
	at = 64 + 56 * segments
	if note:
	    out += struct.pack("<IIQQQQQQ", 4, 4, at, at, at, len(note), len(note), 4)
	out += struct.pack("<IIQQQQQQ", 3, 4, at + len(note), 0, 0, len(loader), len(loader), 1)
	sys.stdout.buffer.write(out + note + loader)
	EOF
	chmod 755 "$DIR/program"
}

@test "the program gets its arguments, its exit status counts, options behind it are its own" {
	run -7 "$RUN" sh -c 'echo "$0 $*"; exit 7' --require -v "a b"
	[ "$output" = "--require -v a b" ]
	run -143 "$RUN" -- sh -c 'kill -TERM $$'
}

@test "the environment: the library first, other preloaded ones behind it, and what was asked for" {
	other=$(ldconfig -p | sed -n 's/.*libm\.so\.6.*=> //p' | head -n 1)
	run -0 preloaded "$other" env SMCR_REQUIRE=1 "$RUN" env
	[[ $'\n'$output$'\n' == *$'\n'"LD_PRELOAD=$LIBRARY:$other"$'\n'* ]]
	[[ $output == *SMCR_REQUIRE=0* ]]
	[[ $output != *SMCR_VERBOSE* ]]
	run -0 "$RUN" --require --verbose --socket "$DIR/sock" env
	[[ $'\n'$output$'\n' == *$'\n'"LD_PRELOAD=$LIBRARY"$'\n'* ]]
	[[ $output == *SMCR_REQUIRE=1* ]]
	[[ $output == *SMCR_VERBOSE=1* ]]
	[[ $output == *"SMCRD_SOCKET=$DIR/sock"* ]]
	[[ $output == *"no smcrd at $DIR/sock: "*" connections fail"* ]]
}

@test "a smcr-run within smcr-run names the library once, its own copy of it" {
	other=$(ldconfig -p | sed -n 's/.*libm\.so\.6.*=> //p' | head -n 1)
	mkdir "$DIR/copy"
	cp "$LIBRARY" "$DIR/copy"
	run -0 preloaded "$other" "$RUN" "$RUN" env
	[[ $'\n'$output$'\n' == *$'\n'"LD_PRELOAD=$LIBRARY:$other"$'\n'* ]]
	run -0 preloaded "$DIR/copy/libsmcr-preload.so $other" "$RUN" cat /proc/self/maps
	[[ $output == *"$LIBRARY"* && $output != *"$DIR/copy"* ]]
}

@test "the library is in the program, once, and exports what it interposes and nothing else" {
	run -0 "$RUN" cat /proc/self/maps
	[[ $output == *"$LIBRARY"* ]]
	run -0 sh -c "nm -D --defined-only '$LIBRARY' | cut -d ' ' -f 3 | sort | tr '\n' ' '"
	interposed=(
		__close __connect __dup2 __fcntl __read __read_chk __recv_chk __recvfrom_chk __send
		__write accept accept4 close close_range closefrom connect dlmopen dlopen dup dup2 dup3
		epoll_ctl execl execle execlp execv execve execveat execvp execvpe fcntl fcntl64 fexecve getpeername
		getsockname getsockopt ioctl listen posix_spawn posix_spawn_file_actions_adddup2
		posix_spawnp read readv recv recvfrom recvmsg send sendfile sendfile64 sendmsg sendto
		setsockopt shutdown socket socketpair write writev
	)
	[ "$output" = "$(printf '%s\n' "${interposed[@]}" | sort | tr '\n' ' ')" ]
}

@test "exit status 125, 126 and 127 as env(1) has them" {
	run -125 "$RUN"
	[[ $output == *"no program given"* ]]
	run -125 "$RUN" --nonsense true
	run -125 "$RUN" --socket "$(printf '/%.0s' $(seq 108))" true
	[[ $output == *"is too long: it has at most 107 bytes"* ]]
	run -127 "$RUN" /nonexistent/program
	run -127 "$RUN" surely-no-such-program
	[[ $output == *"No such file or directory"* ]]
	run -126 "$RUN" /etc/passwd
	run -126 "$RUN" "$DIR"
	run -0 "$RUN" --help
	[[ $output == "Usage: smcr-run "* ]]
	run -0 "$RUN" --version
	[[ $output =~ ^smcr-run\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "PATH is searched as the shell does" {
	mkdir "$DIR/first" "$DIR/second"
	printf '#!/bin/sh\necho second\n' >"$DIR/second/tool"
	echo data >"$DIR/first/tool"
	chmod 755 "$DIR/second/tool"
	PATH="$DIR/first:$DIR/second:$PATH" run -0 "$RUN" tool
	[ "$output" = second ]
	PATH="$DIR/first" run -126 "$RUN" tool
	cd "$DIR/second"
	PATH=":/bin" run -0 "$RUN" tool
	[ "$output" = second ]
}

# refused TEXT PROGRAM..: with --require smcr-run does not start the program; without, it warns. Both have TEXT.
refused() {
	local text=$1
	shift
	run -126 "$RUN" --require "$@"
	[[ $output == *"$text"* ]]
	status=0
	output=$("$RUN" "$@" 2>&1) || status=$?
	[[ $output == *"$text"*"; it runs over plain TCP"* ]]
}

@test "static programs are distinguished from dynamic ones" {
	printf 'int main(void) { return 5; }\n' >"$DIR/main.c"
	gcc -static -o "$DIR/static" "$DIR/main.c"
	refused "statically linked" "$DIR/static"
	[ "$status" = 5 ]
	gcc -static-pie -o "$DIR/static-pie" "$DIR/main.c"
	refused "statically linked" "$DIR/static-pie"
	gcc -o "$DIR/dynamic" "$DIR/main.c"
	run -5 "$RUN" --require "$DIR/dynamic"
	[ -z "$output" ]
}

@test "setuid, setgid and privileged programs are found" {
	cp /bin/true "$DIR/program"
	chown 65534 "$DIR/program"
	chmod 4755 "$DIR/program"
	refused "it is setuid" "$DIR/program"
	chown 0:65534 "$DIR/program"
	chmod 2755 "$DIR/program"
	refused "it is setgid" "$DIR/program"
	chmod 755 "$DIR/program"
	setcap cap_net_raw+ep "$DIR/program"
	run -0 "$RUN" --require "$DIR/program"
	# root gains no privileges by the file's capabilities; other users do
	chmod 755 "$DIR"
	nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	if "${nobody[@]}" test -x "$RUN" -a -x "$DIR/program"; then
		run -126 "${nobody[@]}" "$RUN" --require "$DIR/program"
		[[ $output == *"file capabilities"* ]]
	fi
}

@test "a setuid program that cannot be read is found" {
	cp /bin/true "$DIR/program"
	chmod 4711 "$DIR/program"
	chmod 755 "$DIR"
	nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	"${nobody[@]}" test -x "$RUN" -a -x "$DIR/program" || skip "the build is out of other users' reach"
	run -126 "${nobody[@]}" "$RUN" --require "$DIR/program"
	[[ $output == *"it is setuid"* ]]
	chmod 711 "$DIR/program"
	run -0 "${nobody[@]}" "$RUN" --require "$DIR/program"
}

# with_ids CALL [RUN-OPTION..]: a program that has changed its effective ids by CALL starts another program
with_ids() {
	local call=$1
	shift
	run "$RUN" "$@" /usr/bin/python3 -c "import os; $call; os.execv('/bin/true', ['true'])"
}

@test "programs that are started with other effective ids than the real ones are found" {
	with_ids "os.seteuid(65534)" --require
	[ "$status" != 0 ]
	[[ $output == *"/bin/true cannot use SMC-R: it is started with an effective user id"*"--require: not started"* ]]
	with_ids "os.setegid(65534)" --require
	[ "$status" != 0 ]
	[[ $output == *"/bin/true cannot use SMC-R: it is started with an effective group id"* ]]
	with_ids "os.seteuid(65534)" -v
	[ "$status" = 0 ]
	[[ $output == *"it runs over plain TCP"* ]]
	with_ids "os.setreuid(65534, 0)" -v
	[ "$status" = 0 ]
	[[ $output == *"it runs over plain TCP"* ]]
	with_ids "os.setgid(0)" --require
	[ "$status" = 0 ]
}

@test "posix_spawn() that resets the ids is not taken for such a program" {
	run -0 "$RUN" --require /usr/bin/python3 - <<-'EOF'
	import os
	os.seteuid(65534)
	grep = ["grep", "-q", "libsmcr-preload", "/proc/self/maps"]
	pid = os.posix_spawn("/bin/grep", grep, dict(os.environ), resetids=True)
	assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
	EOF
}

@test "other architectures and Go programs are found" {
	elf 1 3 ""
	refused "another architecture" "$DIR/program"
	elf 2 243 ""
	refused "another architecture" "$DIR/program"
	machine=$(od -An -tu2 -j18 -N2 "$LIBRARY" | tr -d ' ')
	elf 2 "$machine" Go
	refused "Go program" "$DIR/program"
	elf 2 "$machine" GNU
	output=$("$RUN" --require "$DIR/program" 2>&1) || true
	[[ $output != *"cannot use SMC-R"* ]]
}

@test "a program of another C library starts, without the library" {
	printf '#include <stdio.h>\nint main(void) { puts("runs"); return 5; }\n' >"$DIR/main.c"
	musl-gcc -o "$DIR/program" "$DIR/main.c"
	refused "another C library" "$DIR/program"
	[ "$status" = 5 ]
	[[ $output == *runs* ]]
}

@test "the dynamic loader and valgrind, which are static, run programs with the library" {
	loader=$(loader_of "$RUN")
	ln -s "$loader" "$DIR/linked"
	cp "$loader" "$DIR/"
	for program in "$loader" "$DIR/linked" "$DIR/${loader##*/}"; do
		run -0 "$RUN" --require "$program" /bin/cat /proc/self/maps
		[[ $output == *"$LIBRARY"* ]]
		run -0 "$RUN" --require env -i "$program" /bin/cat /proc/self/maps
		[[ $output == *"$LIBRARY"* ]]
	done
	# a program that is started by its loader does not tell which loader it has
	run -0 "$RUN" --require "$loader" /usr/bin/env "$loader" /bin/cat /proc/self/maps
	[[ $output == *"$LIBRARY"* ]]
	mkdir "$DIR/valgrind"
	printf 'int main(void) { return 5; }\n' >"$DIR/main.c"
	gcc -static -o "$DIR/valgrind/memcheck-test" "$DIR/main.c"
	run -5 "$RUN" --require "$DIR/valgrind/memcheck-test"
	# the loader of another C library
	musl-gcc -o "$DIR/main" "$DIR/main.c"
	run -5 "$RUN" "$(loader_of "$DIR/main")" "$DIR/main"
	[[ $output == *"another C library"* ]]
}

@test "a script is judged by its interpreter" {
	printf 'int main(void) { return 5; }\n' >"$DIR/main.c"
	gcc -static -o "$DIR/static" "$DIR/main.c"
	printf '#!%s --flag\n' "$DIR/static" >"$DIR/script"
	chmod 755 "$DIR/script"
	run -126 "$RUN" --require "$DIR/script"
	[[ $output == *"$DIR/static cannot use SMC-R: it is statically linked"* ]]
	printf '#! /bin/sh\nexit 3\n' >"$DIR/script"
	run -3 "$RUN" --require "$DIR/script"
	# a script that is its own interpreter: the kernel refuses to start it, and so does smcr-run
	printf '#!%s\n' "$DIR/script" >"$DIR/script"
	run -126 "$RUN" --require "$DIR/script"
	: >"$DIR/script"
	run -0 "$RUN" "$DIR/script" # an empty file is an empty script for execvp(3)
	[[ $output != *"cannot use SMC-R"* ]]
}

@test "another preloaded library, which connects before main(), still gets the calls" {
	cat >"$DIR/other.c" <<-'EOF'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <netinet/in.h>
	#include <stdio.h>
	#include <sys/socket.h>
	#include <unistd.h>
	static int calls;
	int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
	{
		int (*next)(int, const struct sockaddr *, socklen_t);
		*(void **)&next = dlsym(RTLD_NEXT, "connect");
		calls++;
		return next(fd, addr.__sockaddr__, len);
	}
	__attribute__((constructor)) static void first(void)
	{
		struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(1),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		int (*outer)(int, const struct sockaddr *, socklen_t);
		*(void **)&outer = dlsym(RTLD_DEFAULT, "connect");
		if (outer(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 || calls != 1)
			_exit(55);
		close(fd);
	}
	__attribute__((destructor)) static void last(void)
	{
		printf("%d calls\n", calls);
	}
	EOF
	cat >"$DIR/main.c" <<-'EOF'
	#include <netinet/in.h>
	#include <sys/socket.h>
	int main(void)
	{
		struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(1),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
	}
	EOF
	gcc -shared -fPIC -o "$DIR/other.so" "$DIR/other.c"
	gcc -o "$DIR/program" "$DIR/main.c"
	run -0 preloaded "$DIR/other.so" "$RUN" --socket "$DIR/none" "$DIR/program"
	[[ $output == *"2 calls"* ]]
}

# sanitized COMPILER..: build a program that prints LD_PRELOAD, as it sees it and as a shell of system() does, and which libraries of
# sanitizers and of ours are in its own memory and in that shell's. With an argument it writes behind its memory.
sanitized() {
	cat >"$DIR/sanitized.c" <<-'EOF'
	#include <fcntl.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <unistd.h>
	int main(int argc, char **argv)
	{
		volatile size_t two = 2;
		char *byte = malloc(1);
		if (argc > 1)
			return read(open(argv[1], O_RDONLY), byte, two) != 2;
		free(byte);
		puts(getenv("LD_PRELOAD"));
		fflush(stdout);
		return system("echo $LD_PRELOAD; for pid in $PPID $$; do "
			      "echo $(sed -n 's|.*/\\(libsmcr-preload[.]so\\)$|\\1|p; s|.*/\\(lib.*asan.*[.]so\\).*|\\1|p' "
			      "/proc/$pid/maps | sort -u); done") ? 1 : 3;
	}
	EOF
	"$@" -g -o "$DIR/program" "$DIR/sanitized.c"
}

# compilers: the ways to build a program with the address sanitizer, an array element each
compilers() {
	local runtimes
	runtimes=$(dirname "$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")")
	compilers=(
		"gcc -fsanitize=address"
		"gcc -fsanitize=address,undefined"
		"gcc -fsanitize=address -static-libasan"
		"clang -fsanitize=address"
		"clang -fsanitize=address -shared-libsan -Wl,-rpath,$runtimes"
	)
}

@test "programs with the address sanitizer run with the library; its runtime comes first, in them alone" {
	local compilers compiler runtime
	compilers
	for compiler in "${compilers[@]}"; do
		echo "$compiler"
		# shellcheck disable=SC2086
		sanitized $compiler
		runtime=$(readelf -d "$DIR/program" | sed -n 's/.*(NEEDED).*\[\(lib.*asan.*[.]so\).*\]/\1/p')
		for way in "" "env -i" 'sh -c $0'; do
			# shellcheck disable=SC2086
			run -3 "$RUN" --require $way "$DIR/program"
			[ "$output" = "$LIBRARY
$LIBRARY
${runtime:+$runtime }libsmcr-preload.so
libsmcr-preload.so" ]
		done
		# the sanitizer still sees what the C library's functions do
		run ! "$RUN" "$DIR/program" /dev/zero
		[[ $output == *"AddressSanitizer: heap-buffer-overflow"*"WRITE of size 2"* ]]
	done
}

@test "a runtime that the user preloads stays first, in all programs" {
	local runtime before rest
	sanitized gcc -fsanitize=address
	runtime=$(gcc -print-file-name=libasan.so)
	for before in "$runtime" "$runtime:libm.so.6" "libm.so.6:$runtime"; do
		# leaks of other programs are no concern of ours
		run -3 env LD_PRELOAD="$before" ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 \
			"$RUN" env ASAN_OPTIONS=detect_leaks=0 sh -c "$DIR/program; exit \$?"
		[[ $before == *libm* ]] && rest=:libm.so.6 || rest=
		[ "${lines[0]}" = "$runtime:$LIBRARY$rest" ]
		[ "${lines[1]}" = "$runtime:$LIBRARY$rest" ]
		[ "${lines[3]}" = "libasan.so libsmcr-preload.so" ]
	done
}

# plugins: build plugin.so, which tells by which library its connect() is bound; and opener, which opens it in the
# namespace ("new": one of its own) and with the flag ("deep" or "plain") that its arguments say, and prints that
plugins() {
	mkdir -p "$DIR/plugins"
	cat >"$DIR/plugin.c" <<-'EOF'
	#include <sys/socket.h>
	const void *bound(void)
	{
		return (const void *)connect;
	}
	EOF
	cat >"$DIR/opener.c" <<-'EOF'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <stdio.h>
	#include <string.h>
	int main(int argc, char **argv)
	{
		if (argc != 4)
			return 3;
		int mode = RTLD_NOW | (strcmp(argv[2], "deep") == 0 ? RTLD_DEEPBIND : 0);
		int none = strcmp(argv[1], "none") == 0;
		Lmid_t space = strcmp(argv[1], "new") == 0 ? LM_ID_NEWLM : LM_ID_BASE;
		void *plugin = none ? dlopen(argv[3], mode) : dlmopen(space, argv[3], mode);
		Lmid_t where;
		Dl_info info;
		const void *(*bound)(void);
		if (!plugin) {
			puts(dlerror());
			return 1;
		}
		*(void **)&bound = dlsym(plugin, "bound");
		if (dladdr(bound(), &info) == 0 || dlinfo(plugin, RTLD_DI_LMID, &where) != 0)
			return 2;
		printf("%s in %s\n", strrchr(info.dli_fname, '/') + 1, where == LM_ID_BASE ? "base" : "new");
		return dlopen(NULL, mode) == NULL || dlopen(argv[3], mode | RTLD_NOLOAD) != (where ? NULL : plugin);
	}
	EOF
	gcc -shared -fPIC -o "$DIR/plugins/plugin.so" "$DIR/plugin.c"
	gcc -o "$DIR/opener" "$DIR/opener.c" -ldl
}

@test "plugins that are opened with RTLD_DEEPBIND call the library too" {
	plugins
	for space in none base; do
		for mode in plain deep; do
			run -0 "$RUN" --require "$DIR/opener" "$space" "$mode" "$DIR/plugins/plugin.so"
			[ "$output" = "libsmcr-preload.so in base" ]
		done
		run -0 --separate-stderr "$RUN" -v --socket "$DIR/none" "$DIR/opener" "$space" deep "$DIR/plugins/plugin.so"
		[ "$output" = "libsmcr-preload.so in base" ]
		[[ $stderr == *"smcr-run["*"]: $DIR/plugins/plugin.so is opened without RTLD_DEEPBIND, "* ]]
		# without us, and where the user wants the flag
		run -0 "$DIR/opener" "$space" deep "$DIR/plugins/plugin.so"
		[ "$output" = "libc.so.6 in base" ]
		run -0 env SMCR_DLOPEN=0 "$RUN" --require "$DIR/opener" "$space" deep "$DIR/plugins/plugin.so"
		[ "$output" = "libc.so.6 in base" ]
		run -0 --separate-stderr env SMCR_DLOPEN=0 "$RUN" -v --socket "$DIR/none" env -i \
			"$DIR/opener" "$space" deep "$DIR/plugins/plugin.so"
		[ "$output" = "libc.so.6 in base" ]
		[[ $stderr == *"plugin.so is opened with RTLD_DEEPBIND: its calls pass smcr-run's library by"* ]]
	done
}

@test "a plugin in a namespace of its own: told with -v, refused with --require" {
	plugins
	run -0 "$RUN" "$DIR/opener" new plain "$DIR/plugins/plugin.so"
	[ "$output" = "libc.so.6 in new" ]
	run -0 --separate-stderr "$RUN" -v --socket "$DIR/none" "$DIR/opener" new plain "$DIR/plugins/plugin.so"
	[ "$output" = "libc.so.6 in new" ]
	[[ $stderr == *"$DIR/plugins/plugin.so is opened in a namespace of its own (dlmopen): "*"plain TCP"* ]]
	run -1 "$RUN" --require "$DIR/opener" new plain "$DIR/plugins/plugin.so"
	[[ $output == "$DIR/plugins/plugin.so: smcr-run --require: a plugin in a namespace of its own cannot use SMC-R: "* ]]
	run -0 env SMCR_DLOPEN=0 "$RUN" --require "$DIR/opener" new plain "$DIR/plugins/plugin.so"
	[ "$output" = "libc.so.6 in new" ]
}

@test "dlopen() and dlmopen() look where their caller's RPATH, RUNPATH and \$ORIGIN say" {
	plugins
	for tags in --disable-new-dtags --enable-new-dtags; do
		gcc -o "$DIR/opener" "$DIR/opener.c" -ldl "-Wl,$tags,-rpath,\$ORIGIN/plugins"
		for file in plugin.so '$ORIGIN/plugins/plugin.so'; do
			echo "$tags $file"
			run -0 "$RUN" "$DIR/opener" none deep "$file"
			[ "$output" = "libsmcr-preload.so in base" ]
			run -0 "$RUN" "$DIR/opener" base plain "$file"
			[ "$output" = "libsmcr-preload.so in base" ]
			run -0 "$RUN" "$DIR/opener" new plain "$file"
			[ "$output" = "libc.so.6 in new" ]
		done
	done
	run -1 "$RUN" "$DIR/opener" none plain surely-no-such-plugin.so
	[[ $output == "surely-no-such-plugin.so: cannot open shared object file: No such file or directory" ]]
}

@test "dlopen() from a namespace of its own stays in that namespace" {
	plugins
	cat >"$DIR/inner.c" <<-'EOF'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <stddef.h>
	const void *bound(void)
	{
		const void *(*inner)(void);
		void *plugin = dlopen("plugin.so", RTLD_NOW | RTLD_DEEPBIND);
		Lmid_t where;
		if (!plugin || dlinfo(plugin, RTLD_DI_LMID, &where) != 0 || where == LM_ID_BASE)
			return NULL;
		*(void **)&inner = dlsym(plugin, "bound");
		return inner();
	}
	EOF
	gcc -shared -fPIC -o "$DIR/plugins/inner.so" "$DIR/inner.c" -ldl '-Wl,-rpath,$ORIGIN'
	run -0 "$RUN" "$DIR/opener" new plain "$DIR/plugins/inner.so"
	[ "$output" = "libc.so.6 in new" ]
}

@test "a copy without its library says so" {
	mkdir -p "$DIR/bin"
	cp "$RUN" "$DIR/bin/"
	run -125 "$DIR/bin/smcr-run" true
	[[ $output == *"is smcrd installed completely?"* ]]
	mkdir -p "$DIR/lib/smcrd"
	cp "$LIBRARY" "$DIR/lib/smcrd/"
	run -0 "$DIR/bin/smcr-run" env
	[[ $output == *"LD_PRELOAD=$DIR/lib/smcrd/libsmcr-preload.so"* ]]
}
