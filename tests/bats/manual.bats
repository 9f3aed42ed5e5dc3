#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Texts for operators agree with the programs: manual pages, --help, and the configuration file.
bats_require_minimum_version 1.5.0
load common

# manual PAGE: print the page as plain text.
manual() {
	mandoc -Tascii -Owidth=300 "$HOSTS_ROOT/man/$1" | col -bx
}

# options_of TEXT..: print options ("-x, --long" or "--long") at the start of lines, one a line.
options_of() {
	sed -En 's/^ +(-[a-zA-Z], )?(--?[a-z-]+)( .*)?$/\1\2/p' | sort -u
}

@test "the manual pages have no errors" {
	for page in "$HOSTS_ROOT"/man/*; do
		run -0 mandoc -Tlint -W warning "$page"
		[ -z "$output" ]
	done
}

@test "every option is in --help and in the manual page" {
	for page in smcrd.8 smcrctl.8 smcr-run.1; do
		diff <("$HOSTS_BUILD/bin/${page%.*}" --help | options_of) <(manual "$page" | options_of)
		[ "$("$HOSTS_BUILD/bin/${page%.*}" --help | options_of | wc -l)" -ge 5 ]
	done
}

@test "every command is in smcrctl --help and in the manual page, with its arguments" {
	commands() {
		grep -E '^ {2,5}(info|peer|device|linkgroup|link|failover|drain|connection|cm|smbdirect|top|rmb|stats|metrics|event|monitor|ueid|log|policy|doctor|check|capture)( |$)' |
			sed -E 's/^ +//; s/  .*//' | tr '[:upper:]' '[:lower:]' | sort
	}
	diff <("$HOSTS_BUILD/bin/smcrctl" --help | commands) \
		<(manual smcrctl.8 | sed '/^ *Filters say/,/^ *What is wrong/d; /^JSON/,$d' | commands)
	[ "$("$HOSTS_BUILD/bin/smcrctl" --help | commands | wc -l)" -ge 12 ]
}

@test "every object of smcrctl has a manual page, whose synopsis has its commands and whose text has its filters" {
	objects=$("$HOSTS_BUILD/bin/smcrctl" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | sort -u)
	[ "$(wc -l <<<"$objects")" -ge 16 ]
	for object in $objects; do
		[ "$object" != failover ] && [ "$object" != monitor ] && [ "$object" != metrics ] ||
			[ -L "$HOSTS_ROOT/man/smcrctl-$object.8" ] # it shares the page of another object
		page=$(manual "smcrctl-$object.8")
		help=$("$HOSTS_BUILD/bin/smcrctl" help "$object")
		grep -q "^smcrctl-$object(8) explains" <<<"$help"
		sed -n '/^NAME$/,/^SYNOPSIS$/p' <<<"$page" | grep -qw "smcrctl-$object"
		sed -n 's/^  \([a-z].*\)/\1/p' <<<"$help" | sed 's/  .*//' | tr '[:upper:]' '[:lower:]' >"$BATS_TEST_TMPDIR/commands"
		[ -s "$BATS_TEST_TMPDIR/commands" ]
		while read -r command; do
			sed -n '/^SYNOPSIS$/,/^DESCRIPTION$/s/^ *smcrctl .*options\] \(.*\)/\1/p' <<<"$page" |
				sed 's/^\[--number n\] //' | grep -qxF -- "$command" ||
				{ echo "smcrctl-$object(8) lacks: $command"; false; }
		done <"$BATS_TEST_TMPDIR/commands"
		sed -n 's/^Filters, each with its value: //p' <<<"$help" | sed 's/, /\n/g' | tr '[:upper:]' '[:lower:]' |
			while read -r filter; do
				tr -s ' \n' ' ' <<<"$page" | grep -qF -- " $filter" ||
					{ echo "smcrctl-$object(8) lacks the filter $filter"; false; }
			done
	done
}

# keys: print the keys of the JSON on standard input, one a line, as paths like those in the manual pages:
# "failures[].port"
keys() {
	jq -r '[path(.. | select(type != "object" and type != "array"))] | map(map(if type == "number" then "[]"
		else "." + . end) | join("") | sub("^(\\[\\])?\\."; "")) | unique | .[]' | sort
}

listens() {
	ss -Hlx src "$1" | grep -q .
}

# items PAGE: print the keys that the page describes
items() {
	sed -n 's/^\.It \(.* \)\?Va //p' "$HOSTS_ROOT/man/$1" | sed 's/ , /\n/g' | sort
}

# tests/unit/test_manual.c checks the keys that smcrd makes.
@test "every JSON key that smcrctl makes itself is in the manual page of its object" {
	socket=$BATS_TEST_TMPDIR/smcrd.sock
	smcrctl=("$HOSTS_BUILD/bin/smcrctl" --socket "$socket" --json)
	diff <({ "${smcrctl[@]}" check 127.0.0.1 9 || true; "${smcrctl[@]}" check --cm 127.0.0.1 9; } | jq .check | keys | sort -u) \
		<(items smcrctl-check.8)
	cat >"$BATS_TEST_TMPDIR/replies" <<-'END'
	{"linkgroup.show": [[{"peer": "192.0.2.1", "connections": 1}]], "link.show": [[]],
	 "host.show": [{"uid": 0}], "device.show": [[{"name": "soft:eth0", "kind": "soft", "netdev": "eth0"}]],
	 "config.show": [[]],
	 "policy.show": [{"failed": [{"peer": "192.0.2.1", "port": null, "uid": 0, "kind": "path", "text": "it failed",
	                              "seconds_left": 1}]}],
	 "event.show": [[{"peer": "192.0.2.1", "id": 1, "time_us": 1, "event": "link-up", "text": "it is up"}]]}
	END
	setpriv --pdeathsig KILL "$BATS_TEST_DIRNAME/canned_smcrd.py" "$socket" "$BATS_TEST_TMPDIR/replies" /dev/null 3>&- &
	canned=$!
	until_true 10 listens "$socket"
	diff <({ "${smcrctl[@]}" doctor | jq .doctor | keys; "${smcrctl[@]}" doctor --rules | jq .rules | keys; } | sort) \
		<(items smcrctl-doctor.8)
	diff <("${smcrctl[@]}" peer | jq .peer | keys) <(items smcrctl-peer.8)
	kill "$canned"
}

@test "the figures of smcr(7) and of the README are those of docs/performance.md" {
	figures=$(sed -nE 's/^\.It .* Ta ([0-9.]+) Ta ([0-9.]+)$/\1 \2/p' "$HOSTS_ROOT/man/smcr.7"
		sed -nE 's/^\| .* \| ([0-9.]+) \| ([0-9.]+) \|$/\1 \2/p' "$HOSTS_ROOT/README.md")
	[ "$(wc -l <<<"$figures")" -ge 14 ]
	while read -r standard jumbo; do
		grep -qE "^\| .* \| $standard \| .* \| $jumbo \|\$" "$HOSTS_ROOT/docs/performance.md" ||
			{ echo "docs/performance.md has no row with $standard and $jumbo"; false; }
	done <<<"$figures"
}

@test "the pages name the oldest kernel that smcrctl doctor accepts" {
	oldest=$(sed -n 's/^#define NEEDED_M[AJINOR]* \([0-9]*\)$/\1/p' "$HOSTS_ROOT/cli/smcrctl/doctor_kernel.c" | paste -sd .)
	[[ "$oldest" =~ ^[0-9]+\.[0-9]+$ ]]
	for page in README.md man/smcr.7; do
		grep -qF "Linux $oldest or later" "$HOSTS_ROOT/$page" || { echo "$page does not name Linux $oldest"; false; }
	done
}

@test "the exit statuses of smcrctl are the same in --help and in the manual page" {
	for line in '0 *done, or requested of the peer' '1 *refused or failed' '3 *no daemon' '4 *not found'; do
		manual smcrctl.8 | grep -qE "^ *$line\$"
	done
	"$HOSTS_BUILD/bin/smcrctl" --help | tr '\n' ' ' | grep -q \
		'0 done or requested of the peer, 1 refused or failed, 2 usage, 3 no daemon, 4 not found'
}

@test "every key of the configuration is in its manual page and in the file that is installed" {
	keys=$(sed -n '/^} keys\[\] = {/,/^};/s/^\t{ { "\([a-z_]*\)".*/\1/p' \
		"$HOSTS_ROOT/daemon/host/config.c" | sort)
	[ "$(wc -l <<<"$keys")" -ge 15 ]
	diff <(echo "$keys") <(sed -n 's/^\.It Cm //p' "$HOSTS_ROOT/man/smcrd.conf.5" | sed 's/ , /\n/g' | sort -u)
	diff <(echo "$keys") <(sed -n 's/^# \([a-z_]*\) =.*/\1/p' "$HOSTS_ROOT/etc/smcrd.conf" | sort -u)
	# and the manual tells for each key what a change at run time affects
	diff <(echo "$keys") <(sed -n '/^\.Sh CHANGES/,/^\.Sh RULES/s/^\.It Cm //p' "$HOSTS_ROOT/man/smcrd.conf.5" |
		sed 's/ , /\n/g' | sort)
}

@test "the page of the configuration has the default and the range of every number" {
	most_links=$(sed -n 's/^#define SMCR_MAX_LINKS  *\([0-9]*\).*/\1/p' "$HOSTS_ROOT/proto/smcr/wire.h")
	rows=$(sed -n '/^} keys\[\] = {/,/^};/s/^\t{ { "\([a-z_]*\)" }, "\([0-9]*\)", NULL, [A-Z_]*, \(.*\), \(.*\) },$/\1:\2:\3:\4/p' \
		"$HOSTS_ROOT/daemon/host/config.c" | sed "s/SMCR_MAX_LINKS/$most_links/")
	[ "$(wc -l <<<"$rows")" -ge 14 ]
	while IFS=: read -r key default least most; do
		sed '/^\.Sh CHANGES/,$d' "$HOSTS_ROOT/man/smcrd.conf.5" |
			awk -v key="$key" '/^\.It Cm/ { on = 0; for (i = 3; i <= NF; i++) on += $i == key } on' |
			grep -qF "$default; $((least)) to $((most))" ||
			{ echo "smcrd.conf(5) lacks for $key: $default; $((least)) to $((most))"; false; }
	done <<<"$rows"
}

@test "the file that is installed shows the defaults" {
	defaults=$(sed -n '/^} keys\[\] = {/,/^};/s/^\t{ { "\([a-z_]*\)"[^}]*}, "*\([^",]*\).*/\1 = \2/p' \
		"$HOSTS_ROOT/daemon/host/config.c" | sed 's/ = $/ =/; /= NULL/d' |
		sed "s#IPC_DEFAULT_SOCKET#/run/smcrd/smcrd.sock#; s#IPC_TRACE_NONE#none#" | sort)
	diff <(echo "$defaults") <(sed -n 's/^# \([a-z_]* =.*\)/\1/p' "$HOSTS_ROOT/etc/smcrd.conf" |
		grep -vE '^(rnic|smb_client|capable_subnet|ueid|deny|allow) ' | sort)
	# and these are the defaults of smcrd
	hosts_up 1500
	sed 's/^# \([a-z_]* =\)/\1/' "$HOSTS_ROOT/etc/smcrd.conf" >"$HOSTS_DIR/a.conf"
	smcrd_start a
	[ "$(show a device length)" = 2 ]
}

# synopsis PAGE: print its SYNOPSIS as C
synopsis() {
	manual "$1" | sed -n '/^SYNOPSIS$/,/^DESCRIPTION$/p' | sed '1d; $d'
}

# compiles: does standard input compile as a program that uses libsmcr?
compiles() {
	gcc -std=c99 -pedantic -Wall -Wextra -Werror -I"$HOSTS_ROOT/include" -fsyntax-only -x c -
}

@test "every function of libsmcr has a manual page whose synopsis is its declaration" {
	functions=$(sed -n 's/^\t\(smcr_[a-z_]*\);$/\1/p' "$HOSTS_ROOT/lib/libsmcr/libsmcr.map")
	[ "$(wc -l <<<"$functions")" -ge 14 ]
	for function in $functions; do
		synopsis "$function.3" | grep -qE "^ *$function\(.*\);\$"
		# The header comes first: a declaration that differs does not compile.
		{ echo '#include <smcr.h>'; synopsis "$function.3"; } | compiles
		manual "$function.3" | sed -n '/^NAME$/,/^LIBRARY$/p' | grep -qw "$function"
	done
	# and no page describes a function that does not exist
	diff <(sort <<<"$functions") <(for page in "$HOSTS_ROOT"/man/smcr_*.3; do basename "$page" .3; done | sort)
}

@test "every constant and field of smcr.h is in a manual page" {
	pages=$(for page in "$HOSTS_ROOT"/man/*.3; do manual "$(basename "$page")"; done)
	names=$(grep -oE '\bSMCR_[A-Z_]+\b' "$HOSTS_ROOT/include/smcr.h" | sort -u |
		grep -vE '^SMCR_(H|RNIC_NAME_MAX|INFO_)$')
	names+=" $(sed -n '/^struct smcr_info {/,/^};/p' "$HOSTS_ROOT/include/smcr.h" |
		sed 's#/\*.*##' | sed -nE 's/^\t[a-z0-9_]+ (.*);.*/\1/p; s/^\tconst char \*([a-z_]*);.*/\1/p' |
		sed 's/\[.*//; s/[*,]//g' | tr ' ' '\n' | grep -vx -e reserved -e char)"
	[ "$(wc -w <<<"$names")" -ge 28 ]
	for name in $names; do
		grep -qw "$name" <<<"$pages" || { echo "$name is in no page"; false; }
	done
}

@test "the example of libsmcr(3) compiles" {
	{
		printf '#include <smcr.h>\n#include <stdio.h>\n#include <string.h>\n'
		printf 'void example(int fd, const struct sockaddr *addr, socklen_t len);\n'
		printf 'void example(int fd, const struct sockaddr *addr, socklen_t len)\n{\n'
		sed -n '/^\.Bd -literal/,/^\.Ed/p' "$HOSTS_ROOT/man/libsmcr.3" | sed '/^\./d; s/\\e/\\/g'
		echo '}'
	} | compiles
}
