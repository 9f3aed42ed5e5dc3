# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="redis's own test suite, each test of its units about clients and connections, against a server on the other host"
PACKAGES=(redis-server redis-tools tcl dpkg-dev)
SOURCE=redis-server
LIMIT=200

# Units about connections, protocol, blocked clients and messages. The others are about data types.
UNITS=(
	unit/auth unit/protocol unit/info-command unit/type/list unit/type/stream-cgroups unit/multi unit/quit
	unit/slowlog unit/pubsub unit/scripting unit/introspection unit/introspection-2 unit/limits unit/obuf-limits
	unit/pause unit/querybuf unit/tracking unit/networking unit/client-eviction unit/violations unit/replybufsize
	integration/redis-cli integration/redis-benchmark
)

build() {
	# Tests run these.
	ln -s "$(command -v redis-cli)" "$(command -v redis-benchmark)" src/
}

run() {
	local server units=() status=0
	start_under a redis-server --port 6379 --bind 0.0.0.0 --protected-mode no --dir "$DIR" --save "" \
		--enable-debug-command yes --enable-protected-configs yes --logfile "$DIR/server.log"
	server=$!
	listening a 6379
	mapfile -t units < <(printf -- '--single\n%s\n' "${UNITS[@]}")
	# Its temporary files are below its own directory. One test takes a port on its own host so that the server, which
	# it takes to be there too, cannot have it: then the server moves to that port.
	cp -r "$(source_tree)" suite
	(cd suite && under b ./runtest --host "$SERVER" --port 6379 --durable --tags -needs:debug \
		--skiptest "CONFIG SET rollback on apply error" "${units[@]}") \
		>suite.log 2>&1 || status=$?
	result suite "$status"
	grep -q 'The End' suite.log || fault "the suite does not end in order: $(tail -n 1 suite.log)"
	python3 - suite.log >outcomes <<-'END'
	import re, sys
	unit = ""
	for line in open(sys.argv[1], errors="replace"):
	    line = re.sub(r"\x1b\[[0-9;]*m", "", line.rstrip("\n"))
	    if line.startswith("Testing "):
	        unit = line.split("/")[-1]
	    elif found := re.match(r"\[(ok|err|skip|ignore|exception)\]: (.*)", line):
	        kind, name = found.groups()
	        # Behind the name are a time, the place in a file, or a reason.
	        name = re.sub(r" \(\d+ ms\)$| in tests/\S+\.tcl$|: (Tag|Not supported|large memory).*", "", name)
	        if kind != "ignore":
	            print(f"{unit}: {name}".replace("|", "/"), kind, sep="\t")
	END
	outcomes outcomes
	stop "$server"
	result server.ends "$STATUS"
}
