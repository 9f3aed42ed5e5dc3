# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="programs under strace, followed across fork and exec; a server and a client that strace attaches to and leaves while they transfer; calls that strace makes fail or wait"
PACKAGES=(strace curl python3 ncat)
LIMIT=90

attach() {
	local i
	for i in 1 2 3 4 5; do
		on "$1" timeout -s INT 0.2 strace -f -q -o "strace.$1.log" -p "$2" 2>>attach.log
	done
}

# stop_traced STRACE SIGNAL: send a signal to strace's child, because strace itself takes none while its child runs.
stop_traced() {
	# shellcheck disable=SC2046 # one word a process
	kill "-$2" $(ps -o pid= --ppid "$1")
	until_true 15 ended "$1" || fault "what strace started stays"
	STATUS=0
	{ wait "$1" || STATUS=$?; } 2>/dev/null
}

# without_times: what curl says, without how long it tried
without_times() {
	sed 's/ after [0-9]* ms//'
}

run() {
	local server client echo
	random_file large 20000
	start_under a strace -f -o /dev/null /usr/bin/python3 -m http.server --bind "$SERVER" 8080 >http.log 2>&1
	server=$!
	listening a 8080
	status client under b strace -f -o /dev/null curl -sS --max-time 60 -o fetched "http://$SERVER:8080/large"
	same client.same fetched large
	status through.shell under b strace -f -o /dev/null sh -c "curl -sS --max-time 60 http://$SERVER:8080/large | cat >fetched"
	same through.shell.same fetched large
	# trace smcr-run itself, as people do who look for an error
	status smcr-run on b strace -f -o run.log "${RUN[@]}" curl -sS --max-time 60 -o fetched "http://$SERVER:8080/large"
	same smcr-run.same fetched large
	stop_traced "$server" INT
	result traced.server.ends "$STATUS"

	start_under a /usr/bin/python3 -m http.server --bind "$SERVER" 8081 >http2.log 2>&1
	server=$!
	listening a 8081
	start_under b curl -sS --limit-rate 8M --max-time 60 -o slow "http://$SERVER:8081/large"
	client=$!
	attach b "$client"
	attach a "$server"
	wait "$client"
	result attached "$?"
	same attached.same slow large
	# strace makes connect() fail, or last longer than the program waits
	result refused "$(under b strace -f -o /dev/null -e inject=connect:error=ECONNREFUSED -e signal=none curl -sS --max-time 10 "http://$SERVER:8081/large" 2>&1 | without_times; echo "${PIPESTATUS[0]}")"
	result no.sockets "$(under b strace -f -o /dev/null -e inject=socket:error=EMFILE curl -sS --max-time 10 "http://$SERVER:8081/large" 2>&1 | without_times; echo "${PIPESTATUS[0]}")"
	status late under b strace -f -o /dev/null -e inject=connect:delay_enter=300000 curl -sS --max-time 60 -o fetched "http://$SERVER:8081/large"
	same late.same fetched large
	status restarts under b strace -f -o /dev/null -e inject=recvfrom,read:error=EINTR:when=20+50 /usr/bin/python3 -c "
import urllib.request
open('fetched', 'wb').write(urllib.request.urlopen('http://$SERVER:8081/large', timeout=60).read())"
	same restarts.same fetched large
	stop "$server" INT
	result server.ends "$STATUS"

	start_under a strace -f -o /dev/null ncat -l -k --send-only -e '/bin/date +constant' "$SERVER" 8082
	echo=$!
	listening a 8082
	result forked "$(for _ in 1 2 3 4 5; do under b strace -f -o /dev/null ncat --recv-only "$SERVER" 8082; done | sort | uniq -c)"
	stop_traced "$echo" TERM
}
