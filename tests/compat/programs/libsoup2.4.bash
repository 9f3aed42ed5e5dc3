# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="libsoup 2.4's own tests of its client and server (HTTP/1, TLS, websockets, proxies, authentication), each one, also against Apache; listeners on one host, clients on the other"
PACKAGES=(libsoup2.4-tests)
LIMIT=120

run() {
	local programs
	# shellcheck source=tests/compat/gnome.bash
	. "$HOSTS_ROOT/tests/compat/gnome.bash"
	# Apache no longer knows a directive of the tests.
	cp -r /usr/libexec/installed-tests/libsoup-2.4 suite
	sed -i '/AuthDigestQop/d' suite/httpd.conf
	# Not this one: a test of it does not end here, over TCP either.
	mapfile -t programs < <(cd suite && printf '%s\n' *-test | grep -vx server-test)
	gnome_tests "$DIR/suite" "${programs[@]}"
}
