# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="stunnel on both hosts around a web server, and openssl s_server and s_client: large transfers both ways, many connections, an end without TLS's goodbye"
PACKAGES=(stunnel4 openssl curl python3)
LIMIT=60

# reversed OPTION..: print s_server's answer to "hello"; the client's input ends after the answer
reversed() {
	: >answer
	(echo "hello"; until_true 20 test -s answer) |
		under b openssl s_client -quiet -no_ign_eof "$@" -connect "$SERVER:8444" >answer 2>/dev/null
	cat answer
}

run() {
	local pids=() i
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	random_file large 8000
	start_under a python3 -m http.server --bind "$SERVER" 8000 >http.log 2>&1
	pids+=($!)
	listening a 8000
	printf '%s\n' "foreground = yes" "pid =" "output = $DIR/stunnel-a.log" "[web]" "accept = $SERVER:8443" \
		"connect = $SERVER:8000" "cert = $DIR/cert.pem" "key = $DIR/key.pem" >a.conf
	printf '%s\n' "foreground = yes" "pid =" "output = $DIR/stunnel-b.log" "client = yes" "[web]" \
		"accept = 127.0.0.1:9000" "connect = $SERVER:8443" >b.conf
	start_under a stunnel a.conf 2>/dev/null
	pids+=($!)
	start_under b stunnel b.conf 2>/dev/null
	pids+=($!)
	listening a 8443
	listening b 9000
	status direct under b curl -sSk --max-time 20 -o direct "https://$SERVER:8443/large"
	same direct.same direct large
	status tunnel under b curl -sS --max-time 20 -o tunnel http://127.0.0.1:9000/large
	same tunnel.same tunnel large
	result many "$(for i in $(seq 1 25); do under b curl -sS --max-time 20 -o /dev/null -w '%{http_code} ' http://127.0.0.1:9000/cert.pem; done)"
	for i in "${pids[@]}"; do stop "$i"; done
	start_under a openssl s_server -quiet -accept "$SERVER:8444" -cert cert.pem -key key.pem -rev >/dev/null 2>&1
	local server=$!
	listening a 8444
	result s_client "$(reversed)"
	result s_client.tls12 "$(reversed -tls1_2)"
	stop "$server"
	start_under a openssl s_server -quiet -accept "$SERVER:8445" -cert cert.pem -key key.pem -WWW >/dev/null 2>&1
	server=$!
	listening a 8445
	result s_server.www "$(under b curl -sSk --max-time 20 "https://$SERVER:8445/large" | cmp - large && echo same)"
	stop "$server"
}
