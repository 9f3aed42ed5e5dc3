# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="GNU libmicrohttpd's own tests with curl's library, each program: GET, POST and PUT, chunks, keep-alive and its end, sendfile, connections from outside, limits, timeouts, upgraded connections, clients that go away, a listener that is taken out of service, stopping; with select, poll and epoll, threads and none; listeners on one host, clients on the other"
PACKAGES=(libmicrohttpd12 libmicrohttpd-dev libcurl4-openssl-dev libgcrypt20-dev libgnutls28-dev gcc make libc6-dev dpkg-dev)
SOURCE=libmicrohttpd12
LIMIT=80

# sources DIRECTORY: print a name of a test and its source, for each one
sources() {
	awk '/^test_[a-z0-9_]+_SOURCES = / {
			name = $1
			sub(/_SOURCES/, "", name)
			if ($3 == "\\")
				getline
			print name, $($1 ~ /_SOURCES/ ? 3 : 1)
		}' "$1/Makefile.am"
}

# build_in DIRECTORY PATTERN: build the tests whose names match. What some do depends on the name by which they are
# called: test_get11 is test_get with HTTP/1.1.
build_in() {
	local name file
	while read -r name file; do
		[ -e "suite/$file" ] || gcc -w -O1 -DHAVE_CONFIG_H -DMHD_CPU_COUNT=2 -D_GNU_SOURCE -I. -Isrc/include \
			-Isrc/microhttpd -o "suite/$file" "$1/$file" -lmicrohttpd -lcurl -lgnutls -lgcrypt -lpthread
		ln -s "$file" "suite/$name"
	done < <(sources "$1" | grep -E "$2")
}

# The tests, with Debian's library
build() {
	./configure --quiet
	mkdir suite
	# Not these: they close numbers of descriptors a second time, which other threads may use by then.
	sed -i '/^test_add_conn_cleanup/s/^/not_/' src/testcurl/Makefile.am
	build_in src/testcurl .
	build_in src/microhttpd '^test_(client_put|upgrade|shutdown|daemon|start_stop)'
}

run() {
	local dir
	dir=$(realpath "$(source_tree)/suite")
	find "$dir" -type l -printf '%f\n' | sort >names
	mkdir tmp
	# shellcheck disable=SC2016
	on_two_hosts env TMPDIR="$DIR/tmp" bash -c '
		cd "$0"
		while read -r name; do
			"./$name" </dev/null
			printf "\n== %s\t%s\n" "$name" "$?"
		done' "$dir" <names >suite.log 2>&1
	sed -n 's/^== //p' suite.log >outcomes
	outcomes outcomes
}
