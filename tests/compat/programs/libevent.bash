# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="libevent's own tests of HTTP, HTTPS, RPC, listeners and of bufferevents that connect, each one; its listeners on one host, its clients on the other"
PACKAGES=(libevent-2.1-7 libevent-dev libssl-dev zlib1g-dev gcc make libc6-dev dpkg-dev)
SOURCE=libevent-2.1-7
LIMIT=120

# The tests, with Debian's library. configure makes the headers with which it was built.
build() {
	local parts=(buffer bufferevent dns et finalize http listener main minheap rpc ssl testutils thread util zlib)
	parts=("${parts[@]/#/test/regress_}")
	./configure --quiet
	gcc -w -O1 -pthread -D_GNU_SOURCE -DHAVE_CONFIG_H -I. -Iinclude -Icompat -Itest -o regress test/regress.c \
		"${parts[@]/%/.c}" test/regress.gen.c test/tinytest.c \
		-levent_openssl -levent_pthreads -levent -lssl -lcrypto -lz
}

# regress_says FILE: print a line of NAME, a tab, OK, FAILED, SKIPPED, DISABLED or SLOW for each test of a log. The log
# has "http/basic: [forking] OK", or this without OK, then why, and "  [basic FAILED]".
regress_says() {
	awk '/^[a-z]+\/[A-Za-z0-9_]+: / { name = $1; sub(/:$/, "", name); slow = 0 }
		/FAIL .*(: time$|\(tv_end\.tv_sec < )/ { slow = 1 }
		match($0, /(OK|SKIPPED|DISABLED|FAILED\])$/) {
			kind = substr($0, RSTART)
			said[name] = kind != "FAILED]" ? kind : slow ? "SLOW" : "FAILED"
		}
		END { for (n in said) print n "\t" said[n] }' "$1"
}

run() {
	local suite tries names
	suite=$(realpath "$(source_tree)/regress")
	# The other tests of bufferevents are on socket pairs. Some of those that are here fail over TCP too: they expect
	# another end of TLS than OpenSSL 3 has.
	names=(http/.. rpc/.. listener/.. bufferevent/bufferevent_connect.. ssl/bufferevent_connect.. ssl/bufferevent_wm..)
	# Some tests fail where something takes a second more. They are tried again: this machine may be slow.
	for ((tries = 0; tries < 6 && ${#names[@]} > 0; tries++)); do
		on_two_hosts env EVENT_NO_FILE_BUFFERING=1 "$suite" --timeout 100 "${names[@]}" >this.log 2>&1
		grep -Eq 'TESTS FAILED|tests ok' this.log ||
			fault "the suite does not end in order: $(tail -n 1 this.log)"
		cat this.log >>suite.log
		mapfile -t names < <(regress_says this.log | awk -F'\t' '$2 == "SLOW" { print $1 }')
	done
	regress_says suite.log >outcomes
	outcomes outcomes
}
