# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="uvloop (libuv): streams, protocols, TLS, sendfile, sock_connect and sock_recv, cancelled and refused connections, 40 at once; servers with several processes that share a listener"
PACKAGES=(python3-uvloop openssl)
LIMIT=60
QUICK=yes

run() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	start_under a /usr/bin/python3.11 "$HOSTS_ROOT/tests/compat/clients/loop.py" serve "$SERVER" 2>server.log
	local server=$!
	listening a 7003
	under b /usr/bin/python3.11 "$HOSTS_ROOT/tests/compat/clients/loop.py" ask "$SERVER" >answers 2>client.log
	result client "$? $(tail -n 1 client.log)"
	while read -r name value; do result "$name" "$value"; done <answers
	stop "$server"
	result server.ends "$STATUS $(tail -n 1 server.log)"
}
