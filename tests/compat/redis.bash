# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# redis's own test suite: unmodified, with the programs that Debian installs. Each test's outcome is a result.

# shellcheck disable=SC2034 # mode.bash and run read them
PACKAGES=(redis-server redis-tools tcl dpkg-dev) SOURCE=redis-server LIMIT=200

# build: the suite runs these programs from its own directory
build() {
	ln -s "$(command -v redis-server)" "$(command -v redis-cli)" "$(command -v redis-benchmark)" src/
}

# redis_suite HOW.. -- UNITS..: run units of the suite by the command HOW
redis_suite() {
	local how=() units=() status=0
	while [ "$1" != -- ]; do
		how+=("$1")
		shift
	done
	shift
	mapfile -t units < <(printf -- '--single\n%s\n' "$@")
	cp -r "$(source_tree)" suite # its temporary files are below its own directory
	(cd suite && "${how[@]}" "${units[@]}") >suite.log 2>&1 || status=$?
	result suite "$status"
	grep -q 'The End' suite.log || fault "the suite does not end in order: $(tail -n 1 suite.log)"
	python3 - suite.log >outcomes <<-'END'
	import re, sys
	unit = ""
	for line in open(sys.argv[1], errors="replace"):
	    line = re.sub(r"\x1b\[[0-9;]*m", "", line.rstrip("\n"))
	    if line.startswith("Testing "):
	        unit = line.split("/")[-1]
	    elif found := re.match(r"\[(ok|err|skip|exception)\]: (.*)", line):
	        kind, name = found.groups()
	        # Behind the name are a time or the place in a file.
	        name = re.sub(r" \(\d+ ms\)$| in tests/\S+\.tcl$", "", name)
	        print(f"{unit}: {name}".replace("|", "/"), kind, sep="\t")
	END
	outcomes outcomes
}
