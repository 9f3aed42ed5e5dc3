# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="curl's own tests of FTP (passive and active), IMAP, POP3, SMTP, MQTT, telnet, gopher, proxies, TLS, and every third one of HTTP, against its own servers; listeners on one host, clients on the other"
PACKAGES=(curl stunnel4 perl gcc make libc6-dev dpkg-dev)
SOURCE=curl
LIMIT=250

# The servers of the tests. What they take from curl's library needs no other library.
build() {
	./configure --quiet --without-ssl --without-zlib --without-brotli --without-zstd --without-nghttp2 --without-libidn2 \
		--without-libpsl --without-librtmp --disable-ldap --disable-manual --disable-shared
	make -s -C lib
	make -s -C tests/server
	find tests -name '*.o' -delete
}

SERVERS='^(https?|ftps?|imap|pop3|smtp|mqtt|telnet|gophers?|https?-proxy|socks[45]|dict)(-ipv6)?$'

# chosen DIRECTORY: print the numbers of tests that are run. Not those of curl's library, which are programs of their
# own, and not those that need a server of another kind.
chosen() {
	awk 'FNR == 1 { if (number) say(); number = FILENAME; sub(/.*test/, "", number); part = servers = ""; other = 0 }
		/^<server>/ { part = "server"; next }
		/^<(tool|disable|precheck)>/ { other = 1 }
		/^</ { part = "" }
		part == "server" && NF { servers = servers " " $1; if ($1 !~ GOOD) other = 1 }
		function say() { if (servers && !other && (servers !~ /^ https?$/ || number % 3 == 0)) print number }
		END { say() }' GOOD="$SERVERS" "$1"/test[0-9]* | sort -n
}

run() {
	local tests
	cp -r "$(source_tree)/tests" tests
	chosen tests/data >chosen
	mapfile -t tests <chosen
	cd tests || exit 1
	on_two_hosts perl runtests.pl -c /usr/bin/curl -vc /usr/bin/curl -a -n -am "${tests[@]}" >"$DIR/suite.log" 2>&1
	result suite "$?"
	cd "$DIR" || exit 1
	grep -q '^TESTDONE: ' suite.log || fault "the suite does not end in order: $(tail -n 1 suite.log)"
	# "PASS: 100 - FTP dir list PASV", "FAIL: 100 - ..", "SKIP: 100 - .. - reason"
	sed -En 's/^(PASS|FAIL|SKIP): ([0-9]+) - .*/\2\t\1/p' suite.log >outcomes
	outcomes outcomes
}
