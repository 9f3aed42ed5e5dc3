# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Java: the HTTP server and client of the JDK (HTTP/1.1 and TLS), selectors and channels of NIO, asynchronous channels, old sockets with timeouts; refused connections"
PACKAGES=(openjdk-17-jdk-headless)
LIMIT=90

run() {
	javac -d . "$HOSTS_ROOT/tests/compat/clients/Sockets.java" || fault "the program does not compile"
	keytool -genkeypair -keystore keys -storepass secret -alias a -keyalg RSA -dname CN=test \
		-validity 2 2>/dev/null
	start_under a java -cp "$DIR" Sockets serve "$SERVER" 2>server.log
	local server=$!
	listening a 8004
	under b java -cp "$DIR" Sockets ask "$SERVER" >answers 2>client.log
	result client "$? $(tail -n 1 client.log)"
	while read -r name value; do result "$name" "$value"; done <answers
	stop "$server"
	result server.ends "$STATUS $(tail -n 1 server.log)"
}
