# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="haproxy's own test suite, each of its scripts for varnishtest: clients, servers and haproxy between them, HTTP/1 and HTTP/2, TLS, caches, health checks, stick tables, peers, agents, PROXY protocol, resets; listeners on one host, clients on the other"
PACKAGES=(haproxy varnish dpkg-dev)
SOURCE=haproxy
LIMIT=200

# The tests need no building.
build() {
	:
}

run() {
	local dir
	dir=$(realpath "$(source_tree)")
	mkdir tmp
	# Not two that fail over TCP too, and not log_uri.vtc, which runs into what is said below four times in each try.
	(cd "$dir" && find reg-tests -name '*.vtc' | grep -vE '/(automatic_maxconn|http_msg_full_on_eom|log_uri)\.vtc$' | sort) >files
	# Most of the servers close each connection behind an answer. Where haproxy sends the next request before it has seen
	# that, a test fails, over TCP too. Others let health checks wait for 20 ms only. They are tried again.
	# shellcheck disable=SC2016
	on_two_hosts env TMPDIR="$DIR/tmp" HAPROXY_PROGRAM=/usr/sbin/haproxy HAPROXY_TEST_TIMEOUT=20s bash -c '
		while read -r file; do
			for try in 1 2 3 4 5 6; do
				echo "== try $try of $file"
				status=0
				varnishtest -t 60 -b 2M "$0/$file" </dev/null || status=$?
				[ "$status" != 0 ] && [ "$status" != 77 ] || break
			done
			printf "== status %s of %s\n" "$status" "$file"
		done' "$dir" <files >suite.log 2>&1
	sed -n 's/^== status \([0-9]*\) of \(.*\)/\2\t\1/p' suite.log >statuses
	cut -f1 statuses | cmp -s - files || fault "not every test has run: $(tail -n 1 suite.log)"
	sed 's/\t0$/\tpassed/; s/\t77$/\tskipped/; s/\t[0-9]*$/\tFAILED/' statuses >outcomes
	outcomes outcomes
}
