# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="memcached with threads of libevent: pipelined commands, 20 connections at once, values up to its limit, errors, the connection limit"
PACKAGES=(memcached)
LIMIT=60
QUICK=yes

run() {
	start_as a nobody memcached -l "$SERVER" -p 11211 -t 3 -c 64 -I 4m -m 200
	local server=$!
	listening a 11211
	under b python3 "$HOSTS_ROOT/tests/compat/clients/memcache.py" "$SERVER" 11211 >answers 2>client.log
	result client "$?"
	while read -r name value; do result "$name" "$value"; done <answers
	stop "$server"
	result server.ends "$STATUS"
}
