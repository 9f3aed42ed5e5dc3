# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Tornado's own tests (streams, TCP and TLS servers, HTTP with its own client and with curl's, websockets), each one; its listeners on one host, its clients on the other"
PACKAGES=(python3-tornado python3-pycurl)
LIMIT=60

run() {
	local parts=(curl_httpclient http1connection httpclient httpserver iostream netutil process simple_httpclient tcpclient
		tcpserver web websocket)
	parts=("${parts[@]/#/tornado.test.}")
	mkdir tmp
	on_two_hosts env TMPDIR="$DIR/tmp" ASYNC_TEST_TIMEOUT=60 /usr/bin/python3 -m tornado.test --verbose \
		"${parts[@]/%/_test}" >suite.log 2>&1
	result suite "$?"
	grep -q '^Ran [0-9]* tests' suite.log || fault "the suite does not end in order: $(tail -n 1 suite.log)"
	# "test_read (tornado.test.iostream_test.TestPipe.test_read) ... ok"
	sed -En 's/^test_[^ ]+ \(tornado\.test\.([^)]*)\).* \.\.\. (ok|FAIL|ERROR|skipped).*/\1\t\2/p' suite.log >outcomes
	outcomes outcomes
}
