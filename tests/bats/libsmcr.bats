#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# libsmcr between two hosts: the examples as they are delivered, and header and library as programs use them.
bats_require_minimum_version 1.5.0
load common

EXAMPLES=$HOSTS_BUILD/examples
HEADER=$HOSTS_ROOT/include/smcr.h
MAP=$HOSTS_ROOT/lib/libsmcr/libsmcr.map

# example_server_on_a [WRAPPER..] -- [OPTIONS..]: start the echo server; its output goes to server.out.
example_server_on_a() {
	local wrapper=()
	while [ "$1" != -- ]; do
		wrapper+=("$1")
		shift
	done
	shift
	start_on a "${wrapper[@]}" "$EXAMPLES/echo_server" "$@" "$SERVER" 7001 \
		>"$HOSTS_DIR/server.out" 2>"$HOSTS_DIR/server.err"
	until_true 5 tcp_listens a 7001
}

# server_says TEXT: wait up to 5 s until the server has printed this
server_says() {
	until_true 5 grep -qF "$1" "$HOSTS_DIR/server.out"
}

# example_client [WRAPPER..] -- [OPTIONS..]: send two lines from b to the echo server.
example_client() {
	local wrapper=()
	while [ "$1" != -- ]; do
		wrapper+=("$1")
		shift
	done
	shift
	printf 'first line\nsecond line\n' |
		on b "${wrapper[@]}" "$EXAMPLES/echo_client" "$@" "$SERVER" 7001
}

# different_subnets: put a and b into different subnets, so that SMC-R version 1 is declined.
different_subnets() {
	hosts_up 1500
	ip -n "$HOSTS_ID-b" addr del 10.77.0.2/24 dev eth0
	ip -n "$HOSTS_ID-b" addr add 10.77.0.2/28 dev eth0
	ip -n "$HOSTS_ID-b" link set eth1 down
	smcrd_start a
	smcrd_start b --rnic soft:eth0
}

# prototypes: print the names of the functions that the header declares, one a line.
prototypes() {
	gcc -E -P -I"$HOSTS_ROOT/include" "$HEADER" | tr '\n' ' ' | grep -oE '\bsmcr_[a-z_]+ *\(' |
		tr -d ' (' | sort
}

# ---- between two hosts

@test "the examples talk over SMC-R without smcr-run, and each side can say so" {
	two_daemons
	example_server_on_a --
	run -0 example_client --
	[[ ${lines[0]} =~ ^SMC-R,\ link\ [0-9]+/[0-9]+\ on\ soft:eth[01]$ ]]
	[ "${lines[1]}" = "first line" ]
	[ "${lines[2]}" = "second line" ]
	server_says "SMC-R, link "
	# the operator sees the same
	link=$(sed -n 's/^SMC-R, link \([0-9/]*\) on .*/\1/p' <<<"${lines[0]}")
	rnic=${lines[0]##* on }
	[ "$(show b link ".[] | select(\"\(.linkgroup)/\(.number)\" == \"$link\") | .rnic")" = "$rnic" ]
	until_true 5 shows b connection 'any(.mode == "smcr" and .tx_bytes == 23 and .rx_bytes == 23)'
}

@test "with peers under smcr-run, and under smcr-run itself" {
	two_daemons
	example_server_on_a --
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000000
	server_says "SMC-R, link "
	start_on a "$RUN" --require "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7002
	echo hello | on b "$EXAMPLES/echo_client" --require "$SERVER" 7002 | grep -q '^SMC-R, link '
	start_on a "$RUN" "$EXAMPLES/echo_server" "$SERVER" 7003 >"$HOSTS_DIR/both.out"
	until_true 5 tcp_listens a 7003
	for run in "" "$RUN" "$RUN --require"; do
		# shellcheck disable=SC2086
		echo hello | on b $run "$EXAMPLES/echo_client" "$SERVER" 7003 | grep -q '^SMC-R, link '
	done
	until_true 5 grep -q '^SMC-R, link ' "$HOSTS_DIR/both.out"
	# --require has precedence over the program's choice
	run -1 example_client "$RUN" --require -- --never
	[[ $output == *"connect: Protocol not supported"* ]]
}

@test "a program under smcr-run asks about sockets that it did not connect with libsmcr" {
	two_daemons
	example_server_on_a --
	cat >"$HOSTS_DIR/ask.py" <<-'EOF'
	import ctypes, socket, sys
	lib = ctypes.CDLL(sys.argv[1]) # loaded at run time, beside the preload library
	lib.smcr_strmode.restype = ctypes.c_char_p
	sock = socket.create_connection((sys.argv[2], 7001))
	info = (ctypes.c_uint32 * 36)() # struct smcr_info of version 0.1
	print(lib.smcr_wait_established(sock.fileno(), 10000),
	      lib.smcr_get_info(sock.fileno(), info, ctypes.c_size_t(ctypes.sizeof(info))),
	      lib.smcr_strmode(info[0]).decode())
	EOF
	run -0 on b "$RUN" /usr/bin/python3 "$HOSTS_DIR/ask.py" "$HOSTS_BUILD/lib/libsmcr.so.0" "$SERVER"
	[ "$output" = "0 0 smcr" ]
	run -0 on b /usr/bin/python3 "$HOSTS_DIR/ask.py" "$HOSTS_BUILD/lib/libsmcr.so.0" "$SERVER"
	[ "$output" = "0 0 tcp" ]
}

@test "SMCR_NEVER is plain TCP, on either side" {
	two_daemons
	example_server_on_a --
	run -0 example_client -- --never
	[[ ${lines[0]} == "TCP, not-claimed: "* ]]
	[ "${lines[2]}" = "second line" ]
	server_says "TCP, peer-no-smc: the peer did not offer SMC-R"
	start_on a "$EXAMPLES/echo_server" --never "$SERVER" 7002 >"$HOSTS_DIR/never.out"
	until_true 5 tcp_listens a 7002
	echo hello | on b "$EXAMPLES/echo_client" "$SERVER" 7002 |
		grep -q '^TCP, peer-no-smc: the peer did not offer SMC-R'
	until_true 5 grep -q '^TCP, not-claimed: ' "$HOSTS_DIR/never.out"
	shows a linkgroup 'length == 0'
}

@test "SMCR_REQUIRE refuses plain TCP, on either side, before and after the handshake" {
	different_subnets
	start_on a "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7002
	run -1 on b "$EXAMPLES/echo_client" --require "$SERVER" 7002
	[ "$output" = "connect: Protocol not supported" ]
	example_server_on_a -- # this server declines in the rendezvous
	run -1 example_client -- --require
	[[ $output == *": Protocol not supported" ]]
	start_on a "$EXAMPLES/echo_server" --require "$SERVER" 7003 >"$HOSTS_DIR/require.out" 2>&1
	until_true 5 tcp_listens a 7003
	run ! on b "$PROGRAMS/echo_client" "$SERVER" 7003 --bytes 100
	run ! on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7003 --bytes 100
	until_true 5 grep -q 'Protocol not supported' "$HOSTS_DIR/require.out"
	run ! grep -E '^(TCP|SMC-R)' "$HOSTS_DIR/require.out"
}

@test "a fallback in the rendezvous: both sides can say why in words" {
	different_subnets
	example_server_on_a --
	run -0 example_client --
	[[ ${lines[0]} == "TCP, peer-declined: "* ]]
	[[ ${lines[1]} == "the peer says: the two sides are not in the same IP subnet"* ]]
	[ "${lines[2]}" = "first line" ]
	[ "${lines[3]}" = "second line" ]
	server_says "TCP, prefix-mismatch: the two sides are not in the same IP subnet"
}

@test "what smcrd's policy leaves on TCP is told as such" {
	two_daemons
	example_server_on_a --
	echo hello | on a "$EXAMPLES/echo_client" "$SERVER" 7001 | grep -q '^TCP, own-host: '
	smcrctl_on b policy add deny port 7001
	run -0 example_client --
	[[ ${lines[0]} == "TCP, local-policy: "* ]]
	run -1 example_client -- --require
	[ "$output" = "connect: Protocol not supported" ]
}

# hold_proposals: what a client sends after the handshake does not arrive; proposals_pass undoes that.
hold_proposals() {
	on a nft -f - <<-'END'
		table ip hold { chain in { type filter hook input priority 0;
			tcp dport 7001 tcp flags & syn == 0 ip length > 60 drop; }; }
	END
}

proposals_pass() {
	on a nft delete table ip hold
}

@test "a server waits until a slow peer has settled the transport" {
	two_daemons
	example_server_on_a --
	hold_proposals
	start_on b sh -c "echo hello | '$EXAMPLES/echo_client' $SERVER 7001" >"$HOSTS_DIR/client.out"
	client=$!
	until_true 5 shows a connection 'any(.mode == "pending")'
	[ ! -s "$HOSTS_DIR/server.out" ]
	proposals_pass
	server_says "SMC-R, link "
	wait "$client"
	grep -q '^SMC-R, link ' "$HOSTS_DIR/client.out"
	grep -qx 'hello' "$HOSTS_DIR/client.out"
}

@test "a wait ends with the daemon, and leaves nothing behind" {
	two_daemons
	example_server_on_a --
	hold_proposals
	start_on b "$EXAMPLES/echo_client" "$SERVER" 7001 </dev/null >"$HOSTS_DIR/client.out" 2>&1
	client=$!
	until_true 5 shows a connection 'any(.mode == "pending")'
	[ ! -s "$HOSTS_DIR/server.err" ]
	kill -KILL "$SMCRD_PID_a"
	wait "$SMCRD_PID_a" || true
	until_true 5 grep -q 'what carries the connection: ' "$HOSTS_DIR/server.err"
	kill -KILL "$client" 2>/dev/null || true # the reset may have ended it already
}

@test "non-blocking with epoll: over SMC-R, and the TCP socket back after a fallback" {
	two_daemons
	example_server_on_a --
	run -0 on b "$PROGRAMS/smcr_nonblocking" "$SERVER" 7001
	[ "${lines[0]}" = "smcr " ]
	[ "${lines[1]}" = "take back: Device or resource busy" ]
	[ "${lines[2]}" = "family unix" ]
	net_down
	different_subnets
	example_server_on_a --
	run -0 on b "$PROGRAMS/smcr_nonblocking" "$SERVER" 7001
	[ "${lines[0]}" = "tcp relayed peer-declined" ]
	[ "${lines[1]}" = "take back: Success" ]
	[ "${lines[2]}" = "family inet" ]
}

@test "without smcrd: plain TCP, told as such" {
	hosts_up 1500
	example_server_on_a --
	run -0 example_client --
	[[ ${lines[0]} == "TCP, no-bpf: "* ]]
	[ "${lines[2]}" = "second line" ]
	run -1 example_client -- --require
	[ "$output" = "connect: Protocol not supported" ]
}

# ---- what programs build against

@test "the header is C99 and C++, with every warning" {
	local use='struct smcr_info info; return smcr_get_info(0, &info, sizeof(info));'
	for std in c99 c11 c17; do
		gcc -std="$std" -pedantic -Wall -Wextra -Werror -Wconversion -Wundef -Wshadow -Wstrict-prototypes \
			-I"$HOSTS_ROOT/include" -fsyntax-only -x c - <<<"#include <smcr.h>
			int main(void) { $use }"
	done
	for std in c++98 c++11 c++17; do
		g++ -std="$std" -pedantic -Wall -Wextra -Werror -Wconversion -Wundef -Wshadow \
			-I"$HOSTS_ROOT/include" -fsyntax-only -x c++ - <<<"#include <smcr.h>
			int main() { $use }"
	done
	clang -std=c99 -Weverything -Werror -I"$HOSTS_ROOT/include" -fsyntax-only -x c - <<<'#include <smcr.h>'
}

@test "a C++ program links the functions by their C names" {
	hosts_up 1500
	g++ -I"$HOSTS_ROOT/include" -o "$HOSTS_DIR/program" -x c++ - -L"$HOSTS_BUILD/lib" \
		-Wl,-rpath,"$HOSTS_BUILD/lib" -lsmcr <<-'EOF'
	#include <cstdio>
	#include <smcr.h>
	int main()
	{
		std::printf("%s %d\n", smcr_version(), smcr_listen(-1, 1, SMCR_PREFER));
	}
	EOF
	run -0 "$HOSTS_DIR/program"
	[ "$output" = "$(sed -n 's/^VERSION := //p' "$HOSTS_ROOT/Makefile") -9" ] # EBADF
}

@test "the library exports what the header declares, by the version map, and nothing else" {
	[ "$(prototypes | wc -l)" -ge 14 ]
	diff <(prototypes) <(sed -n 's/^\t\(smcr_[a-z_]*\);$/\1/p' "$MAP" | sort)
	diff <(prototypes | sed 's/$/@@LIBSMCR_0.1/') \
		<(nm -D --defined-only "$HOSTS_BUILD/lib/libsmcr.so" | sed -n 's/.* [TDBR] //p' | sort)
	readelf -d "$HOSTS_BUILD/lib/libsmcr.so" | grep -q 'SONAME.*\[libsmcr.so.0\]'
	# it needs no library but the C library
	[ "$(readelf -d "$HOSTS_BUILD/lib/libsmcr.so" | grep -c NEEDED)" = 1 ]
	readelf -d "$HOSTS_BUILD/lib/libsmcr-preload.so" | grep NEEDED | run ! grep libsmcr
}

@test "one version: Makefile, header, library" {
	version=$(sed -n 's/^VERSION := //p' "$HOSTS_ROOT/Makefile")
	grep -q "^#define SMCR_VERSION  *\"$version\"\$" "$HEADER"
	[ "$(sed -n 's/^#define SMCR_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$HEADER" | paste -sd .)" = "$version" ]
	[ -e "$HOSTS_BUILD/lib/libsmcr.so.$version" ]
}

@test "make install: a program is built against it with pkg-config, and runs" {
	two_daemons
	local to=$HOSTS_DIR/root flags
	# use the existing build, with sanitizers or without
	[ "${HOSTS_BUILD##*/}" != san ] || export SAN=1
	make -s -C "$HOSTS_ROOT" install DESTDIR="$to" PREFIX=/opt/smcr
	export PKG_CONFIG_PATH=$to/opt/smcr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$to
	pkg-config --validate smcr
	[ "$(pkg-config --modversion smcr)" = "$(sed -n 's/^VERSION := //p' "$HOSTS_ROOT/Makefile")" ]
	grep -qx "prefix=/opt/smcr" "$to/opt/smcr/lib/pkgconfig/smcr.pc"
	[ "$(pkg-config --variable=libdir smcr)" = "$to/opt/smcr/lib" ]
	flags=$(pkg-config --cflags --libs smcr)
	cp "$to"/opt/smcr/share/doc/smcrd/examples/* "$HOSTS_DIR/"
	for program in echo_server echo_client; do
		# shellcheck disable=SC2086
		gcc -o "$HOSTS_DIR/$program" "$HOSTS_DIR/$program.c" $flags
		# the loader finds the library by its SONAME, as in a configured directory
		export LD_LIBRARY_PATH=$to/opt/smcr/lib
		ldd "$HOSTS_DIR/$program" | grep -qF "libsmcr.so.0 => $to/opt/smcr/lib/libsmcr.so.0"
		# strict C99 and C++ take the examples, too
		# shellcheck disable=SC2086
		gcc -std=c99 -Wall -Wextra -Werror -o "$HOSTS_DIR/strict" "$HOSTS_DIR/$program.c" $flags
		# shellcheck disable=SC2086
		g++ -x c++ -std=c++11 -Wall -Wextra -Werror -o "$HOSTS_DIR/strict" "$HOSTS_DIR/$program.c" $flags
	done
	EXAMPLES=$HOSTS_DIR
	example_server_on_a --
	run -0 example_client --
	[[ ${lines[0]} == "SMC-R, link "* ]]
}
