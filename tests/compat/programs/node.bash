# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Node: HTTP with keep-alive, uploads, HTTP/2, net sockets with half-close, a cluster of workers, refused connections and timeouts"
PACKAGES=(nodejs openssl)
LIMIT=60

run() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	start_under a node "$HOSTS_ROOT/tests/compat/clients/node.js" serve "$SERVER" 2>server.log
	local server=$! port
	for port in 8001 8002 8003 8004; do listening a "$port"; done
	under b node "$HOSTS_ROOT/tests/compat/clients/node.js" ask "$SERVER" >answers 2>client.log
	result client "$? $(tail -n 1 client.log)"
	while read -r name value; do result "$name" "$value"; done <answers
	stop "$server"
	result server.ends "$STATUS $(tail -n 1 server.log)"
}
