# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Ruby's own tests of sockets, HTTP, TLS, DRb and of IO, each one; its listeners on one host, its clients on the other"
PACKAGES=(ruby3.1 dpkg-dev)
SOURCE=ruby3.1
LIMIT=120

# The tests need no building.
build() {
	:
}

# ruby_says FILE: a line of NAME, a tab and ok, Failure, Error or Skipped for each test of a log. The log has
# "[ 1/9] TestSocket#test_x = 0.00 s" for each one, and "  1) Failure:", then "TestSocket#test_x [file:1]:", for some.
ruby_says() {
	awk '$NF == "s" && $(NF - 2) == "=" && /^\[/ { said[$(NF - 3)] = "ok" }
		kind { sub(/[:(\[].*/, "", $1); said[$1] = kind; kind = "" }
		/^ *[0-9]+\) (Failure|Error|Skipped):$/ { kind = $2; sub(/:/, "", kind) }
		END { for (n in said) print n "\t" said[n] }' "$1"
}

run() {
	local dir
	dir=$(realpath "$(source_tree)")
	mkdir tmp
	# A test connects to 192.0.2.1, where nobody must answer.
	ip -n "$HOSTS_ID-b" route add 192.0.2.1 via 10.77.0.14
	on_two_hosts env TMPDIR="$DIR/tmp" ruby3.1 "$dir/test/runner.rb" --ruby=ruby3.1 -q --tty=no -v \
		"$dir"/test/socket/test_{tcp,basicsocket,nonblock,socket,sockopt,addrinfo}.rb "$dir/test/net" \
		"$dir/test/fiber/test_io.rb" "$dir"/test/openssl/test_{ssl,ssl_session,pair}.rb "$dir/test/drb" \
		"$dir/test/open-uri/test_open-uri.rb" >suite.log 2>&1
	result suite "$?"
	ruby_says suite.log >outcomes
	grep -q '^[0-9]* tests, ' suite.log || fault "the suite does not end in order: $(tail -n 1 suite.log)"
	outcomes outcomes
}
