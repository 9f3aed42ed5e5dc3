# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="GLib's own tests of GIO's sockets, listeners, socket services and clients, proxies, and of D-Bus over TCP, each one; its listeners on one host, its clients on the other"
PACKAGES=(libglib2.0-tests)
LIMIT=60

run() {
	# shellcheck source=tests/compat/gnome.bash
	. "$HOSTS_ROOT/tests/compat/gnome.bash"
	gnome_tests /usr/libexec/installed-tests/glib socket socket-{address,listener,service} gsocketclient-slow \
		network-address proxy-test tls-interaction pollable converter-stream stream-rw_all \
		gdbus-{addresses,auth,non-socket,peer,peer-object-manager,server-auth}
}
