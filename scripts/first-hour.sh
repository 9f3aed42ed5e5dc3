#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Make the page docs/first-hour.md: what an operator does and sees in the first hour. Runs the programs of the Debian
# packages (build/deb, by make deb) on two hosts, which are network namespaces here, and prints the page. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/hosts.bash
. scripts/hosts.bash

trap hosts_down EXIT
trap 'trap "" INT TERM HUP; exit 130' INT TERM HUP # make passes signals on a second time

debs=(build/deb/smcrd_*.deb build/deb/smcr-run_*.deb)
if [ ! -e "${debs[0]}" ] || [ ! -e "${debs[1]}" ]; then
	echo "first-hour: there are no packages in build/deb: make deb" >&2
	exit 1
fi
hosts_up 1500
root=$HOSTS_DIR/root
for deb in "${debs[@]}"; do dpkg-deb -x "$deb" "$root"; done
PATH=$root/usr/sbin:$root/usr/bin:$PATH
www=$HOSTS_DIR/www
mkdir "$www" "$HOSTS_DIR/home"
head -c 200M /dev/urandom >"$www/file"

name_of() {
	[ "$1" = a ] && echo server || echo client
}

# Replace the paths of this script by those on a real host, leave out what doctor says of the configuration that
# smcrd_start names to smcrd, and indent the lines.
as_on_a_host() {
	local socket=$HOSTS_DIR/b.sock in_table
	printf -v in_table '%-*s  ' ${#socket} /run/smcrd/smcrd.sock
	sed -uE "/^ok: smcrd reads its configuration from .* as its option --config says\$/d; s#$socket  #$in_table#; s#$HOSTS_DIR/[ab]\.sock#/run/smcrd/smcrd.sock#g; s#$www#/srv/www#g; s#$root##g; s/(Linux [0-9.]+)-[^ ]*/\1/; s/[[:space:]]*\$//; s/^/    /; s/^ *\$//"
}

text() {
	printf '\n%s\n\n' "$*"
}

heading() {
	printf '\n## %s\n' "$1"
}

# see HOST COMMAND: print the command as typed, and its output
see() {
	printf '    %s# %s\n' "$(name_of "$1")" "$2"
	on "$1" sh -c "cd '$HOSTS_DIR/home' && $2" 2>&1 | as_on_a_host || true
}

# daemon HOST: start smcrd as systemctl would
daemon() {
	printf '    %s# systemctl start smcrd\n' "$(name_of "$1")"
	SMCRD=$root/usr/sbin/smcrd smcrd_start "$1"
}

# program HOST COMMAND: start a program in the background
program() {
	printf '    %s# %s &\n' "$(name_of "$1")" "$2" | sed "s#$www#/srv/www#g"
	start_on "$1" sh -c "cd '$HOSTS_DIR/home' && exec $2" >/dev/null 2>&1
}

listens() {
	tcp_listens a "$1"
}

# active_on NIC: how many active links of the client use this NIC
active_on() {
	smcrctl_on b -j link |
		jq --arg rnic "soft:$1" '[.link[] | select(.state == "active" and .rnic == $rnic)] | length'
}

has_link_on() {
	[ "$(active_on "$1")" -ge 1 ]
}

has_no_link_on() {
	[ "$(active_on "$1")" -eq 0 ]
}

flows() {
	smcrctl_on b -j connection |
		jq -e 'any(.connection[]; .mode == "smcr" and .state == "active" and .rx_bytes > 20000000)' >/dev/null
}

# ---- the page

cat <<'END'
# The first hour

Made by `sudo scripts/first-hour.sh`, which runs the programs of the Debian packages on two hosts with two NICs each: `server`
(10.77.0.1 and 10.77.0.11) and `client` (10.77.0.2 and 10.77.0.12). Everything below a `#` is what they printed. The hosts are
network namespaces of one machine, so that systemd did not start the service; its socket is shown where it would be.

## Install and start
END
text 'On both hosts:'
cat <<'END'
    # apt-get install ./smcrd_*.deb ./smcr-run_*.deb
END
text 'Before the service runs:'
see b 'smcrctl info'
text 'Start it on both hosts, and ask what is wrong with them:'
daemon a
daemon b
see a 'smcrctl doctor'
see b 'smcrctl doctor'
text 'Each finding that is not ok says what to do. Which NICs are in use?'
see b 'smcrctl device'

heading 'The first connection'
text 'A web server, and would a connection to it use SMC-R?'
program a "smcr-run python3 -m http.server --directory $www 80"
until_true 20 listens 80
see b 'smcrctl check 10.77.0.1 80'
text 'Then a program:'
see b 'smcr-run -v curl -s -o file http://10.77.0.1/file'
until_true 30 has_link_on eth1
see b 'smcrctl connection'
see b 'smcrctl link'
see b 'smcrctl peer'

heading 'One that is not SMC-R'
text 'A second server, without smcr-run:'
program a "python3 -m http.server --directory $www 8080"
until_true 20 listens 8080
see b 'smcr-run -v curl -s -o file http://10.77.0.1:8080/file'
see b 'smcrctl check 10.77.0.1 8080'
text 'Connections that are TCP are counted by reason ([reasons](reasons.md)):'
see b "smcrctl info | grep -E 'so far|why|which'"

heading 'A cable is pulled'
text 'While a file is on its way, one of the NICs loses its link. The download goes on over the other one, and is whole:'
program b 'smcr-run curl -s --limit-rate 20M -o whole http://10.77.0.1/file'
download=$!
until_true 30 flows
used=$(smcrctl_on b -j link | jq -r '[.link[] | select(.connections > 0)][0].rnic | sub("soft:"; "")')
see b 'smcrctl link'
see b "ip link set $used down"
until_true 20 has_no_link_on "$used"
see b 'smcrctl link'
wait "$download" || true
cmp "$www/file" "$HOSTS_DIR/home/whole" || {
	echo "first-hour: the download is not whole" >&2
	exit 1
}
printf '    client# cmp whole /srv/www/file && echo whole\n    whole\n'
see b "ip link set $used up"
until_true 60 has_link_on "$used"
see b 'smcrctl event'

heading 'A firewall drops RoCE'
text 'Here it is that of the client, and check finds the rule:'
see b 'nft add table inet f && nft add chain inet f in "{ type filter hook input priority 0; }" && nft add rule inet f in udp dport 4791 drop'
see b 'smcrctl check 10.77.0.1 80'
text 'Connections are TCP meanwhile, and programs work. It is mended, and SMC-R may be tried again at once:'
see b 'nft delete table inet f'
see b 'smcrctl policy forget 10.77.0.1'
see b 'smcrctl check 10.77.0.1 80'

heading 'Change something'
text 'Rules and values hold at once, for what begins from then on, and a reload takes the files over:'
see b 'smcrctl policy add deny port 22'
see b 'smcrctl config set log_level debug'
see b "smcrctl config | grep -v 'default\$'"
see b 'smcrctl config reload'

heading 'Stop'
text 'A restart resets connections over SMC-R. Without any reset:'
see b 'smcrctl drain --wait'
printf '    client# systemctl restart smcrd\n'
text 'From here: smcrctl(8) has a page for each of these words, smcr(7) tells when SMC-R pays, [operations.md](operations.md) has the
questions that come up later.'
