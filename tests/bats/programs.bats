#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Unmodified programs over SMC-R between two hosts, and what they see of their sockets.
bats_require_minimum_version 1.5.0
load common

command_server_on_a() {
	start_on a "$RUN" "$PROGRAMS/command_server" "$SERVER" 7003
	until_true 5 tcp_listens a 7003
}

@test "every question that programs ask of TCP sockets gets the same answer" {
	two_daemons
	echo_server_on_a "$RUN"
	command_server_on_a
	on b "$PROGRAMS/pre_semantics" "$SERVER" 7001 >"$HOSTS_DIR/plain"
	on b "$RUN" "$PROGRAMS/pre_semantics" "$SERVER" 7001 >"$HOSTS_DIR/smcr"
	shows b connection 'any(.mode == "smcr")'
	[ "$(show b info .connections.fallbacks_total)" = 0 ]
	diff "$HOSTS_DIR/plain" "$HOSTS_DIR/smcr" | grep '^[<>]' >"$HOSTS_DIR/diff" || true
	cp "$BATS_TEST_DIRNAME/semantics.diff" "$HOSTS_DIR/known"
	# What arrives after SHUT_RD may be read from shared memory, as with TCP.
	if [ "${SMCRD_SHARED:-no}" != no ] && ! diff "$HOSTS_DIR/known" "$HOSTS_DIR/diff"; then
		sed -i 3,4d "$HOSTS_DIR/known"
	fi
	diff "$HOSTS_DIR/known" "$HOSTS_DIR/diff"
	proves SOCK-1 SOCK-3 SOCK-4 URG-8
}

@test "urgent data: a program that reads nothing is told, though all queues on the way are full" {
	two_daemons
	command_server_on_a
	for _ in 1 2 3; do
		[ "$(python_on b urgent-client "$SERVER" 7003)" = "1700000 ! end" ]
	done
	all_smcr b 3
	proves URG-2 URG-4
}

@test "SO_RCVBUF and SO_SNDBUF choose the sizes of RMB element and send buffer" {
	two_daemons
	echo_server_on_a "$RUN"
	for bytes in "40000 200000" "300000 20000"; do
		read -r receive send <<<"$bytes"
		start_on b "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" \
			buffered-client "$SERVER" 7001 "$receive" "$send"
		client=$!
		until_true 10 shows b connection "any(.pid == $client and .state == \"active\")"
		element=$(show b connection ".[] | select(.pid == $client) | .rmbe_size")
		buffer=$(show b connection ".[] | select(.pid == $client) | .sndbuf_size")
		echo "SO_RCVBUF $receive: $element bytes, SO_SNDBUF $send: $buffer bytes"
		[ "$element" -ge "$receive" ]
		[ "$element" -lt $((receive * 4)) ]
		[ "$buffer" -ge "$send" ]
		[ "$buffer" -lt $((send * 2)) ]
		kill "$client"
	done
	proves SOCK-2
}

# all_smcr HOST COUNT: has the host had at least COUNT connections, all over SMC-R?
all_smcr() {
	shows "$1" info ".connections | .established_total >= $2 and .fallbacks_total == 0"
}

python_on() {
	local host=$1
	shift
	on "$host" "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" "$@"
}

@test "asyncio: 60 connections in one loop, on both sides" {
	two_daemons
	start_on a "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" \
		asyncio-server "$SERVER" 7001
	until_true 10 tcp_listens a 7001
	python_on b asyncio-client "$SERVER" 7001 60
	all_smcr b 60
	proves SOCK-1 SOCK-5
}

@test "a process for each connection; limits by poll(); stdio on top" {
	two_daemons
	start_on a "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" \
		forking-server "$SERVER" 7001
	until_true 10 tcp_listens a 7001
	for _ in 1 2 3; do
		python_on b timeout-client "$SERVER" 7001
	done
	all_smcr b 3
	proves GEN-9
}

@test "a descriptor is passed to another process, which was started anew" {
	two_daemons
	echo_server_on_a "$RUN"
	[ "$(python_on b pass "$SERVER" 7001)" = "('$SERVER', 7001)" ]
	all_smcr b 1
	proves GEN-9
}

@test "inetd style: the program at the other side of exec knows who it talks to" {
	two_daemons
	start_on a "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" \
		inetd "$SERVER" 7001 /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" whoami
	until_true 10 tcp_listens a 7001
	on b "$RUN" --require ncat -p 5555 --recv-only "$SERVER" 7001 >"$HOSTS_DIR/out"
	cat "$HOSTS_DIR/out"
	[ "$(cat "$HOSTS_DIR/out")" = \
		"AF_INET SOCK_STREAM 6 ('$SERVER', 7001) ('$CLIENT', 5555)" ]
	all_smcr b 1
	proves GEN-9 SOCK-1
}

@test "a listener made without smcr-run is claimed by the first accept()" {
	two_daemons
	start_on a /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" hand-on "$SERVER" 7001 \
		"$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" inherited-server
	until_true 10 tcp_listens a 7001
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	shows b info '.connections.established_total == 0'
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	all_smcr b 1
}

@test "the daemon starts again: servers that went on listening serve SMC-R again" {
	two_daemons
	echo_server_on_a "$RUN"
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	kill -TERM "$SMCRD_PID_a"
	wait "$SMCRD_PID_a"
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	smcrd_start a
	on b "$RUN" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
}

@test "nginx: worker processes, connections kept alive, and a reload in the middle" {
	two_daemons
	mkdir -p "$HOSTS_DIR/www"
	random_file "$HOSTS_DIR/www/file" 4
	cat >"$HOSTS_DIR/nginx.conf" <<-EOF
	daemon off;
	worker_processes 2;
	pid $HOSTS_DIR/nginx.pid;
	error_log $HOSTS_DIR/nginx.log;
	events { worker_connections 256; }
	http {
		access_log off;
		sendfile on;
		tcp_nopush on;
		client_body_temp_path $HOSTS_DIR/t1; proxy_temp_path $HOSTS_DIR/t2;
		fastcgi_temp_path $HOSTS_DIR/t3; uwsgi_temp_path $HOSTS_DIR/t4;
		scgi_temp_path $HOSTS_DIR/t5;
		server { listen $SERVER:8080; root $HOSTS_DIR/www; }
	}
	EOF
	chmod 755 "$HOSTS_DIR"
	start_on a "$RUN" --require nginx -c "$HOSTS_DIR/nginx.conf" -e "$HOSTS_DIR/nginx.log"
	until_true 10 tcp_listens a 8080
	start_on b "$RUN" --require curl -sS --fail -Z --parallel-max 8 \
		-o "$HOSTS_DIR/copy#1" "http://$SERVER:8080/file?[1-24]"
	client=$!
	until_true 10 test -s "$HOSTS_DIR/copy1"
	kill -HUP "$(cat "$HOSTS_DIR/nginx.pid")"
	wait "$client"
	for i in $(seq 24); do
		cmp "$HOSTS_DIR/www/file" "$HOSTS_DIR/copy$i"
	done
	all_smcr b 1
}

@test "iperf3 listens for both families: IPv4 over an IPv6 socket" {
	two_daemons
	start_on a "$RUN" --require iperf3 -s -p 7001 >/dev/null
	until_true 10 tcp_listens a 7001
	on b "$RUN" --require iperf3 -c "$SERVER" -p 7001 -t 1 -P 2 >"$HOSTS_DIR/out"
	all_smcr b 3
}

@test "smcr-run -v says what became of each connection" {
	two_patient_daemons
	echo_server_on_a "$RUN" -v 2>"$HOSTS_DIR/server"
	on b "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000 2>"$HOSTS_DIR/block"
	# the server: a line for its listener, and one for each connection
	on b "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	cat "$HOSTS_DIR/server"
	grep -q "^smcr-run\[[0-9]*\]: fd [0-9]* listens at $SERVER:7001: SMC-R offered$" "$HOSTS_DIR/server"
	grep -q "$SERVER:7001 > $CLIENT:[0-9]*: SMC-R rendezvous begun$" "$HOSTS_DIR/server"
	grep -q "$SERVER:7001 > $CLIENT:[0-9]*: TCP: peer-no-smc: .*" "$HOSTS_DIR/server"
	[ "$(wc -l <"$HOSTS_DIR/server")" = 3 ]
	on b "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000 --way epoll \
		2>"$HOSTS_DIR/epoll"
	cat "$HOSTS_DIR/block" "$HOSTS_DIR/epoll"
	for way in block epoll; do
		grep -q "$CLIENT:[0-9]* > $SERVER:7001: SMC-R$" "$HOSTS_DIR/$way"
	done
	start_on a "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7002
	for way in block epoll; do
		on b "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7002 --bytes 1000 --way "$way" \
			2>"$HOSTS_DIR/$way"
		cat "$HOSTS_DIR/$way"
		grep -q "$SERVER:7002: TCP: peer-no-smc: ..........*" "$HOSTS_DIR/$way"
	done
	# one that fails, with the peer's address, which the socket forgets, and why
	run ! on b "$RUN" -v curl -sS "http://$SERVER:7003/"
	grep -q "$CLIENT:[0-9]* > $SERVER:7003: failed: Connection refused$" <<<"$output"
}

@test "smcr-run -v tells reasons of this host from those of the peer" {
	hosts_up 1500
	smcrd_start a
	smcrd_start b --rnic soft:eth1
	ip -n "$HOSTS_ID-b" link set eth1 down
	until_true 5 shows b device 'all(.state != "active")'
	echo_server_on_a "$RUN"
	on b "$RUN" -v "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000 2>"$HOSTS_DIR/err"
	cat "$HOSTS_DIR/err"
	grep -q "$SERVER:7001: TCP: no-.*device: ..........*" "$HOSTS_DIR/err"
}

@test "smcr-run --require: what would be plain TCP fails, on either side" {
	two_daemons
	start_on a "$PROGRAMS/echo_server" "$SERVER" 7002
	until_true 5 tcp_listens a 7002
	for way in block epoll select; do
		run ! on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7002 --way "$way"
		[[ $output == *"rotocol not supported"* ]]
	done
	# A server drops clients without SMC-R, and serves those with SMC-R.
	echo_server_on_a "$RUN" --require
	run ! on b "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
	on b "$RUN" --require "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
}

@test "an answer arrives though the server leaves the request unread and closes" {
	local size i
	two_daemons
	mkdir "$HOSTS_DIR/www"
	start_on a "$RUN" python3 -m http.server --bind "$SERVER" --directory "$HOSTS_DIR/www" 8000 \
		>/dev/null 2>&1
	until_true 5 tcp_listens a 8000
	for size in 30000 3000000; do
		head -c "$size" /dev/zero >"$HOSTS_DIR/body"
		for i in {1..12}; do
			[ "$(on b "$RUN" curl -s -o /dev/null -w '%{http_code}' \
				--data-binary @"$HOSTS_DIR/body" "http://$SERVER:8000/")" = 501 ]
		done
	done
	[ "$(show b info .connections.established_total)" = 24 ]
}

@test "a server whose port is redirected learns which port the client has asked for" {
	local address
	hosts_up 1500
	ip -n "$HOSTS_ID-a" addr add fd00:77::1/64 dev eth0 nodad
	ip -n "$HOSTS_ID-b" addr add fd00:77::2/64 dev eth0 nodad
	smcrd_start a
	smcrd_start b
	on a nft -f - <<-'EOF'
	table inet redirected {
		chain in {
			type nat hook prerouting priority -100
			tcp dport 7080 redirect to :7001
		}
	}
	EOF
	for address in "$SERVER" fd00:77::1; do
		start_on a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" redirected-server \
			"$address" 7001 >"$HOSTS_DIR/asked.$address" 2>&1
		until_true 5 tcp_listens a 7001
		until_true 5 on b "$RUN" --require /usr/bin/python3 -c '
import socket, sys
assert not socket.create_connection((sys.argv[1], 7080)).recv(1)' "$address"
		cat "$HOSTS_DIR/asked.$address"
		[ "$(cat "$HOSTS_DIR/asked.$address")" = "7080 7001" ]
		kill "$!"
		wait "$!" || true
	done
}

# plugin_client: build a client of the echo server whose plugin is opened in the way that its first argument says: "plain",
# "deep" (RTLD_DEEPBIND) or "new" (a namespace of its own). The plugin uses a connection of the program and one of its own, and prints
# what it finds.
plugin_client() {
	cat >"$HOSTS_DIR/plugin.c" <<-'EOF'
	#include <netinet/in.h>
	#include <netinet/tcp.h>
	#include <stdio.h>
	#include <sys/socket.h>
	#include <unistd.h>
	static void use(const char *whose, int fd)
	{
		struct sockaddr_in peer = { 0 };
		socklen_t len = sizeof(peer);
		int on = 1;
		char echo[5] = "";
		getpeername(fd, (struct sockaddr *)&peer, &len);
		printf("%s: %s, port %d, TCP_NODELAY %d", whose, peer.sin_family == AF_INET ? "IPv4" : "other",
		       ntohs(peer.sin_port), setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
		if (write(fd, "echo", 4) != 4 || recv(fd, echo, 4, MSG_WAITALL) != 4)
			printf(", broken");
		printf(", %s\n", echo);
	}
	int plugin(int fd, const struct sockaddr_in *server)
	{
		int own = socket(AF_INET, SOCK_STREAM, 0);
		use("given", fd);
		if (connect(own, (const struct sockaddr *)server, sizeof(*server)) != 0)
			puts("own: not connected");
		else
			use("own", own);
		fflush(stdout);
		return own;
	}
	EOF
	cat >"$HOSTS_DIR/client.c" <<-'EOF'
	#define _GNU_SOURCE
	#include <arpa/inet.h>
	#include <dlfcn.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/socket.h>
	#include <unistd.h>
	int main(int argc, char **argv)
	{
		struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(7001) };
		int fd = socket(AF_INET, SOCK_STREAM, 0), (*plugin)(int, const struct sockaddr_in *);
		if (argc != 4 || inet_pton(AF_INET, argv[3], &server.sin_addr) != 1 ||
		    connect(fd, (struct sockaddr *)&server, sizeof(server)) != 0)
			return 1;
		void *lib = strcmp(argv[1], "new") == 0 ?
				    dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW) :
				    dlopen(argv[2], RTLD_NOW | (strcmp(argv[1], "deep") == 0 ? RTLD_DEEPBIND : 0));
		if (!lib) {
			puts(dlerror());
			return 2;
		}
		*(void **)&plugin = dlsym(lib, "plugin");
		plugin(fd, &server);
		pause();
	}
	EOF
	gcc -shared -fPIC -o "$HOSTS_DIR/plugin.so" "$HOSTS_DIR/plugin.c"
	gcc -o "$HOSTS_DIR/client" "$HOSTS_DIR/client.c" -ldl
}

# plugin_finds WAY OPTION.. -- LINE..: run the client; its plugin prints these lines. The client is left waiting; its process is PLUGIN_PID.
plugin_finds() {
	local way=$1 options=()
	shift
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	start_on b "$RUN" ${options[@]+"${options[@]}"} "$HOSTS_DIR/client" "$way" "$HOSTS_DIR/plugin.so" "$SERVER" \
		>"$HOSTS_DIR/found" 2>"$HOSTS_DIR/said"
	PLUGIN_PID=$!
	until_true 10 grep -q ^own "$HOSTS_DIR/found"
	diff <(printf '%s\n' "$@") "$HOSTS_DIR/found"
}

@test "plugins: their connections are SMC-R's with RTLD_DEEPBIND too; in a namespace of their own they are not, and that is told" {
	local way smcr="IPv4, port 7001, TCP_NODELAY 0, echo"
	two_daemons
	echo_server_on_a "$RUN"
	plugin_client
	for way in plain deep; do
		plugin_finds "$way" --require -- "given: $smcr" "own: $smcr"
		shows b connection "map(select(.pid == $PLUGIN_PID and .mode == \"smcr\")) | length == 2"
		kill "$PLUGIN_PID"
		wait "$PLUGIN_PID" || true
	done
	plugin_finds new -v -- "given: other, port 0, TCP_NODELAY -1, echo" "own: $smcr"
	grep "plugin.so is opened in a namespace of its own (dlmopen): " "$HOSTS_DIR/said"
	shows b connection "map(select(.pid == $PLUGIN_PID and .mode == \"smcr\")) | length == 1"
	run smcrctl_on b -j doctor
	jq -e --arg process "process $PLUGIN_PID (client) has 1 namespace of plugins" '.doctor |
		map(select(.check == "programs")) | length == 1 and (.[0].text | startswith($process))' <<<"$output"
	run -2 on b "$RUN" --require "$HOSTS_DIR/client" new "$HOSTS_DIR/plugin.so" "$SERVER"
	[[ $output == *"smcr-run --require: a plugin in a namespace of its own cannot use SMC-R"* ]]
	kill "$PLUGIN_PID"
}

@test "programs with the address sanitizer, of gcc and of clang, serve and connect over SMC-R" {
	local compiler port=7001
	two_daemons
	mkdir "$HOSTS_DIR/gcc" "$HOSTS_DIR/clang"
	for compiler in gcc clang; do
		for program in echo_server echo_client; do
			"$compiler" -D_GNU_SOURCE -std=c17 -g -fsanitize=address -I"$HOSTS_ROOT" \
				-o "$HOSTS_DIR/$compiler/$program" "$HOSTS_ROOT/tests/programs/$program.c" -lpthread
		done
		start_on a "$RUN" --require "$HOSTS_DIR/$compiler/echo_server" "$SERVER" "$port"
		until_true 10 tcp_listens a "$port"
		for way in block epoll select; do
			on b "$RUN" --require "$HOSTS_DIR/$compiler/echo_client" "$SERVER" "$port" --bytes 300000 --way "$way"
		done
		# by a shell, which has no runtime
		on b "$RUN" --require env -i sh -c "$HOSTS_DIR/$compiler/echo_client $SERVER $port --bytes 1000; exit \$?"
		port=$((port + 1))
	done
	all_smcr b 8
}

# told HOST COMMAND..: tests/bats/told.py
told() {
	local host=$1
	shift
	on "$host" "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/told.py" "$@"
}

@test "options whose effect SMC-R does not have keep connections on TCP, which has it" {
	two_daemons
	start_on a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/told.py" messages-server "$SERVER" 7001 \
		timestampns inq >"$HOSTS_DIR/messages"
	start_on a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" asyncio-server \
		"$SERVER" 7002
	until_true 10 tcp_listens a 7001
	until_true 10 tcp_listens a 7002
	told b sender "$SERVER" 7001
	until_true 5 grep -qx 'messages: 1/35 inq=6' "$HOSTS_DIR/messages"
	# the server's library has told its smcrd why; the listener was never claimed
	shows a connection 'any(.role == "server" and .mode == "tcp" and .fallback_reason == "tcp-messages")'
	shows b connection 'any(.mode == "tcp" and .fallback_reason == "peer-no-smc")'

	# listeners and clients without such an option are not concerned
	[ "$(told b messages-client "$SERVER" 7002 inq)" = 'messages: inq=6' ]
	[ "$(told b messages-client "$SERVER" 7002 timestamp)" = 'messages: 1/29' ]
	[ "$(told b messages-client "$SERVER" 7002 timestamping)" = 'messages: 1/37' ]
	shows b connection 'map(select(.fallback_reason == "tcp-messages")) | length == 3'
	[ "$(told b messages-client "$SERVER" 7002 minttl)" = 'messages: none' ]
	shows b connection 'any(.fallback_reason == "socket-option")'
	[ "$(show b info .connections.established_total)" = 0 ]
	[ "$(told b messages-client "$SERVER" 7002)" = 'messages: none' ]
	[ "$(show b info .connections.established_total)" = 1 ]
}

@test "SO_ZEROCOPY on a listener: SMC-R until the program uses MSG_ZEROCOPY, then TCP and its notices" {
	two_daemons
	start_on a "$RUN" /usr/bin/python3 "$BATS_TEST_DIRNAME/told.py" zerocopy-server "$SERVER" 7001 \
		>"$HOSTS_DIR/sent"
	until_true 10 tcp_listens a 7001
	[ "$(told b receiver "$SERVER" 7001)" = 100000 ]
	[ "$(cat "$HOSTS_DIR/sent")" = copied ]
	all_smcr b 1
	for _ in 1 2; do
		[ "$(told b receiver "$SERVER" 7001)" = 100000 ]
	done
	[ "$(cat "$HOSTS_DIR/sent")" = $'copied\nnoticed\nnoticed' ]
	[ "$(show a info .connections.established_total)" = 1 ]
	shows a connection 'any(.mode == "tcp" and .fallback_reason == "tcp-messages")'
}

@test "gRPC, whose servers set SO_ZEROCOPY on each listener, uses SMC-R" {
	two_daemons
	start_on a "$RUN" -v /usr/bin/python3 "$BATS_TEST_DIRNAME/grpc_echo.py" serve "$SERVER" 7001 \
		2>"$HOSTS_DIR/server"
	until_true 20 tcp_listens a 7001
	for _ in 1 2 3; do
		[ "$(on b "$RUN" --require /usr/bin/python3 "$BATS_TEST_DIRNAME/grpc_echo.py" ask "$SERVER" 7001)" = ok ]
	done
	cat "$HOSTS_DIR/server"
	all_smcr a 3
	[ "$(show a info .connections.established_total)" = 3 ]
}
