#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Listeners that programs pass on to other programs, between two hosts: a program that accepts from a listener
# that promises SMC-R must be able to speak CLC.
bats_require_minimum_version 1.5.0
load common

# not in /tmp, which may be mounted nosuid
setup_file() {
	SETUID_DIR=$(mktemp -d "$HOSTS_BUILD/setuid-XXXXXX")
	chmod 755 "$SETUID_DIR"
	export SETUID_DIR
}

teardown_file() {
	rm -r "$SETUID_DIR"
}

# parent WAY PROGRAM [OPTION..]: start a server on host a, port 7001, that starts PROGRAM after the first
# connection and goes on accepting
parent() {
	local way=$1 program=$2
	shift 2
	start_on a "$RUN" "$@" /usr/bin/python3 "$BATS_TEST_DIRNAME/sockets.py" \
		leave-behind "$SERVER" 7001 "$way" "$program" >"$HOSTS_DIR/served" 2>"$HOSTS_DIR/server.err"
	PARENT=$!
	until_true 10 tcp_listens a 7001
}

# parent_ends: end the server and the program that it has started
parent_ends() {
	local child
	child=$(pgrep -P "$PARENT")
	kill "$PARENT" "$child"
	wait "$PARENT" || true
	until_true 5 gone "$child"
}

# static_server: build the program accept_at as a static one
static_server() {
	gcc -std=c17 -D_GNU_SOURCE -static -o "$HOSTS_DIR/static_server" "$HOSTS_ROOT/tests/programs/accept_at.c"
}

client() {
	on b "$RUN" "$@" "$PROGRAMS/echo_client" "$SERVER" 7001 --bytes 1000
}

# both_serve: have both the server and the program that it has started had connections?
both_serve() {
	client
	[ "$(grep -c kept "$HOSTS_DIR/served")" -ge 3 ] && [ "$(grep -c served "$HOSTS_DIR/served")" -ge 3 ]
}

has_child() {
	pgrep -P "$1" >/dev/null
}

# runs_child PROGRAM: has the server started it, and left it what it may accept from? Its process is there earlier.
runs_child() {
	local child
	child=$(pgrep -P "$PARENT") && [ "/proc/$child/exe" -ef "$1" ]
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

@test "a program with the library accepts from the listener that it is given: SMC-R" {
	two_daemons
	for way in exec spawn dup; do
		parent "$way" "$PROGRAMS/accept_at"
		client --require
		until_true 10 has_child "$PARENT"
		until_true 20 both_serve
		client --require
		client --require
		shows b info '.connections.fallbacks_total == 0'
		parent_ends
	done
}

@test "a static program is given the listener: nobody is promised SMC-R there from then on" {
	two_daemons
	static_server
	for way in exec spawn dup; do
		parent "$way" "$HOSTS_DIR/static_server" -v
		client --require
		until_true 10 runs_child "$HOSTS_DIR/static_server"
		before=$(show b info .connections.established_total)
		until_true 20 both_serve
		[ "$(show b info .connections.established_total)" = "$before" ]
		[ "$(show b info .connections.fallbacks_total)" = 0 ]
		[ "$(grep -c CLC "$HOSTS_DIR/served")" = 0 ]
		grep -q "static_server cannot use SMC-R: it is statically linked.*and so do the listeners" \
			"$HOSTS_DIR/server.err"
		parent_ends
	done
	# smcrd shows the connections that came to the listener meanwhile
	shows a connection 'any(.mode == "tcp" and .role == "server" and .fallback_reason == "shared-listener")'
	# another listener at the same address belongs to its own server alone, and is claimed
	start_on a "$RUN" "$PROGRAMS/echo_server" "$SERVER" 7001
	until_true 10 tcp_listens a 7001
	client --require
}

@test "a setuid program is given the listener: nobody is promised SMC-R there from then on" {
	two_daemons
	cp "$PROGRAMS/accept_at" "$SETUID_DIR/setuid_server"
	chown 65534 "$SETUID_DIR/setuid_server"
	chmod 4755 "$SETUID_DIR/setuid_server"
	parent exec "$SETUID_DIR/setuid_server" -v
	client --require
	until_true 10 runs_child "$SETUID_DIR/setuid_server"
	until_true 20 both_serve
	[ "$(grep -c CLC "$HOSTS_DIR/served")" = 0 ]
	shows b info '.connections.established_total == 1'
	grep -q 'setuid_server cannot use SMC-R: it is setuid.*and so do the listeners' "$HOSTS_DIR/server.err"
}

@test "the daemon starts again: a listener that a static program has stays plain TCP" {
	two_daemons
	static_server
	parent exec "$HOSTS_DIR/static_server" -v
	client --require
	until_true 10 runs_child "$HOSTS_DIR/static_server"
	until_true 20 both_serve
	kill -TERM "$SMCRD_PID_a"
	wait "$SMCRD_PID_a"
	client
	smcrd_start a
	before=$(grep -c kept "$HOSTS_DIR/served")
	until_true 20 served_since "$before"
	[ "$(grep -c CLC "$HOSTS_DIR/served")" = 0 ]
	shows a info '.connections.established_total == 0'
	grep -q 'listens at .*: plain TCP: a program that cannot use SMC-R may accept there too' "$HOSTS_DIR/server.err"
}

# served_since COUNT: has the server had more connections than that?
served_since() {
	client
	[ "$(grep -c kept "$HOSTS_DIR/served")" -ge $(($1 + 5)) ]
}

@test "a static program that cannot be started: the listener stays claimed" {
	two_daemons
	static_server
	chmod 644 "$HOSTS_DIR/static_server"
	parent exec "$HOSTS_DIR/static_server"
	client --require
	until_true 10 grep -q 'Permission denied' "$HOSTS_DIR/served"
	client --require
	client --require
}

@test "with --require a static program is not given the listener" {
	two_daemons
	static_server
	parent exec "$HOSTS_DIR/static_server" --require
	client --require
	until_true 10 grep -q 'Permission denied' "$HOSTS_DIR/served"
	grep -q 'static_server cannot use SMC-R: .*--require: not started' "$HOSTS_DIR/server.err"
	client --require
}

@test "nginx takes a new binary under load (USR2): SMC-R before and after, nobody notices" {
	two_daemons
	mkdir "$HOSTS_DIR/www"
	random_file "$HOSTS_DIR/www/file" 1
	cat >"$HOSTS_DIR/nginx.conf" <<-EOF
	worker_processes 2;
	pid $HOSTS_DIR/nginx.pid;
	error_log $HOSTS_DIR/nginx.log;
	user root;
	events { worker_connections 256; }
	http {
		access_log $HOSTS_DIR/access.log;
		sendfile on;
		client_body_temp_path $HOSTS_DIR/t1; proxy_temp_path $HOSTS_DIR/t2;
		fastcgi_temp_path $HOSTS_DIR/t3; uwsgi_temp_path $HOSTS_DIR/t4;
		scgi_temp_path $HOSTS_DIR/t5;
		server { listen $SERVER:8080; root $HOSTS_DIR/www; }
	}
	EOF
	on a "$RUN" "$(command -v nginx)" -c "$HOSTS_DIR/nginx.conf" -e "$HOSTS_DIR/nginx.log"
	until_true 10 tcp_listens a 8080
	old=$(cat "$HOSTS_DIR/nginx.pid")
	for i in 1 2 3 4; do
		start_on b "$RUN" --require curl -sSf -H 'Connection: close' -o "$HOSTS_DIR/copy$i-#1" \
			"http://$SERVER:8080/file?[1-150]" 2>>"$HOSTS_DIR/curl.err"
		clients[i]=$!
	done
	until_true 10 test -s "$HOSTS_DIR/copy1-5"
	kill -USR2 "$old"
	until_true 10 test -s "$HOSTS_DIR/nginx.pid.oldbin"
	until_true 10 is_new_master_of "$old"
	count=$(copies)
	until_true 30 more_copies $((count + 20))
	# end the old workers, so that only the new ones are left
	kill -WINCH "$old"
	count=$(copies)
	until_true 30 more_copies $((count + 20))
	kill -QUIT "$old"
	for i in 1 2 3 4; do wait "${clients[i]}"; done
	[ ! -s "$HOSTS_DIR/curl.err" ]
	[ "$(copies)" = 600 ]
	for i in "$HOSTS_DIR"/copy*; do cmp "$HOSTS_DIR/www/file" "$i"; done
	[ "$(awk '$9 != 200' "$HOSTS_DIR/access.log" | wc -l)" = 0 ]
	until_true 10 gone "$old"
	shows b info '.connections.fallbacks_total == 0 and .connections.established_total >= 600'
	shows a info '.connections.fallbacks_total == 0'
	on b "$RUN" --require curl -sSf -o /dev/null "http://$SERVER:8080/file"
}

# is_new_master_of PID: does another nginx than this one have workers?
is_new_master_of() {
	[ -s "$HOSTS_DIR/nginx.pid" ] && [ "$(cat "$HOSTS_DIR/nginx.pid")" != "$1" ] &&
		has_child "$(cat "$HOSTS_DIR/nginx.pid")"
}

copies() {
	find "$HOSTS_DIR" -name 'copy*' | wc -l
}

more_copies() {
	[ "$(copies)" -ge "$1" ]
}
