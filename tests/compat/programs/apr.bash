# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="APR's own tests of sockets, their options and polling, with child processes that connect, write and close; its test of sendfile with headers and trailers, blocking, not blocking, and with a timeout; its listeners on one host, its clients on the other"
PACKAGES=(libapr1 libapr1-dev gcc libc6-dev dpkg-dev)
SOURCE=libapr1
LIMIT=10

# The tests, with Debian's library. Let the list of suites have those that are run.
build() {
	local flags=(-w -O1 -D_GNU_SOURCE -pthread -I. -I../include/arch/unix -I/usr/include/apr-1.0)
	./configure --quiet
	cd test || return
	sed -i -E '/^ *\{test/{/\{test(sock|sockets|sockopt|poll)\}/!d}' abts_tests.h
	gcc "${flags[@]}" -o testall abts.c testutil.c test{sock,sockets,sockopt,poll}.c -lapr-1
	gcc "${flags[@]}" -o sockchild sockchild.c -lapr-1
	gcc "${flags[@]}" -o sendfile sendfile.c -lapr-1
}

run() {
	cp -r "$(source_tree)/test" suite
	# shellcheck disable=SC2016
	on_two_hosts bash -c '
		cd suite
		for suite in sockets sockopt poll sock; do
			echo "== $suite"
			./testall -v "test$suite" </dev/null
			printf "\n== status %s\n" "$?"
		done
		for kind in blocking nonblocking timeout; do
			echo "== sendfile-$kind"
			./sendfile client "$kind" startserver 127.0.0.1 </dev/null
			printf "\n== status %s\n" "$?"
		done' >suite.log 2>&1
	# "== sock", "testsock    :  Line 305: expected <1>, but saw <0>" and further "Line 573: ..", "== status 1", and
	# "client: apr_socket_sendfile() worked as expected!"
	awk '/^== status / { print name " status\t" $3; next }
		/^== / { name = $2 }
		match($0, /Line [0-9]+: /) { print name " " substr($0, RSTART, RLENGTH - 2) "\tfailed" }
		/ worked as expected!$/ { print name " " $1 "\tworks" }' suite.log >outcomes
	outcomes outcomes
}
