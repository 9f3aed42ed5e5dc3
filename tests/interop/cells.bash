# shellcheck shell=bash disable=SC2016,SC2034 # jq has variables too; CELLS are matrix.sh's
# SPDX-License-Identifier: MIT
# The cells of the matrix, sourced by matrix.sh, with those of cells-end.bash and cells-begin.bash. CLIENT and SERVER are
# the numbers of the hosts in these roles, C and S their kinds. A cell is a function cell_NAME. reason_NAME prints why the
# cell cannot exist in this pairing, if it cannot. The output of a cell is shown if it fails.

CELLS=(echo links bulk stall half urgent module-client module-server abort many crowd ipv6 views
	loss-client loss-server first-client first-server silent remove-client remove-server delete-client
	delete-server idle programs pause-client pause-server one-client one-server fallback-there
	fallback-back dialect-rfc dialect-deployed versions ueid both-client both-server restart-client
	restart-server cut-client)

declare -A CELL_TITLE=(
	[echo]="requests and answers"
	[links]="the group gets two links, and both sides call it symmetric"
	[bulk]="bulk, both ways at once"
	[stall]="a receiver that does not read stops the sender, both ways"
	[half]="half close, from either side"
	[urgent]="urgent data, both ways"
	[abort]="close with unread data, by either side"
	[many]="200 connections at a time"
	[crowd]="400 connections at a time, more than a link group has"
	[ipv6]="requests and answers over IPv6"
	[views]="both sides tell the same of group, links and connections"
	[loss-client]="a NIC of the client goes down under traffic and comes back"
	[loss-server]="a NIC of the server goes down under traffic and comes back"
	[first-client]="as loss-client, the NIC that the group began with"
	[first-server]="as loss-server, the NIC that the group began with"
	[silent]="the LAN loses all on one path under traffic, nobody is told; and mends"
	[remove-client]="an RDMA device of the client is removed under traffic and comes back"
	[remove-server]="an RDMA device of the server is removed under traffic and comes back"
	[delete-client]="the client's operator deletes a link under traffic and adds one"
	[delete-server]="the server's operator deletes a link under traffic and adds one"
	[idle]="idle links are tested and stay; so when an operator asks"
	[programs]="curl, ncat and iperf3, unmodified"
	[restart-client]="the client's smcrd stops in order and starts again; also when killed"
	[pause-client]="the client's host stands still for a moment, then for longer than links live"
	[pause-server]="the server's host stands still for a moment, then for longer than links live"
	[both-client]="both NICs of the client go down: connections are reset; and come back"
	[both-server]="both NICs of the server go down: connections are reset; and come back"
	[module-client]="the client's module is unloaded and loaded again"
	[module-server]="the server's module is unloaded and loaded again"
	[one-client]="the group begins while the client has one NIC, then its other one comes"
	[one-server]="the group begins while the server has one NIC, then its other one comes"
	[fallback-there]="what the client sends by RoCE is lost in first contact: TCP, whole; then SMC-R again"
	[fallback-back]="what the server sends by RoCE is lost in first contact: TCP, whole; then SMC-R again"
	[dialect-rfc]="smcrd speaks the dialect of the RFC only"
	[dialect-deployed]="smcrd speaks the deployed dialect only"
	[versions]="the two sides have no version in common"
	[ueid]="the two sides have no UEID in common"
	[cut-client]="a NIC of the client goes down under traffic: the streams stay whole"
	[restart-server]="the server's smcrd stops in order and starts again; also when killed"
)

PROGRAMS=$VM_TOP/$LAB_BUILD/tests/programs
PORT=5000

server_address() {
	echo "10.88.0.$SERVER"
}

# wrap_of HOST: set WRAP to the command that starts an unmodified program on that host over SMC-R. With MAY_BE_TCP it may
# fall back.
wrap_of() {
	if has_smcrd "$1"; then
		WRAP=("$VM_TOP/$LAB_BUILD/bin/smcr-run")
		[ -n "${MAY_BE_TCP:-}" ] || WRAP+=(--require)
	else
		WRAP=(env "LD_PRELOAD=$VM_TOP/$LAB_BUILD/tests/interop/afsmc.so")
	fi
}

# program_start HOST JOB PROGRAM..: start a program over SMC-R.
program_start() {
	local n=$1 job=$2 WRAP
	shift 2
	wrap_of "$n"
	job_start "$n" "$job" "${WRAP[@]}" "$@"
}

# show_jobs NAME..: print the output of these jobs. The names of those on the server's host end in "server".
show_jobs() {
	local n name
	for name in "$@"; do
		n=$CLIENT
		[[ $name != *server ]] || n=$SERVER
		[ ! -e "$(job_out "$n" "$name")" ] ||
			sed "s/^/$name on ${LAB_KIND[$n]}: /" "$(job_out "$n" "$name")"
	done
}

# ---- the shapes of tests/programs/flow.c

# flow_start HOST JOB ARGUMENTS..: start flow, with AF_SMC sockets on a host with the kernel's SMC-R.
flow_start() {
	local n=$1 job=$2
	shift 2
	if has_smcrd "$n"; then
		program_start "$n" "$job" "$PROGRAMS/flow" "$@"
	else
		job_start "$n" "$job" "$PROGRAMS/flow" --smc "$@"
	fi
}

# flow SHAPE [AMOUNT]
flow() {
	flow_to "$(server_address)" "$@"
}

# flow_to ADDRESS SHAPE [AMOUNT]
flow_to() {
	local status=0 address=$1 seconds=${FLOW_SECONDS:-110}
	shift
	PORT=$((PORT + 1))
	flow_start "$SERVER" flow-server --seconds $((seconds - 10)) serve "$address" $PORT "$@"
	until_true 30 job_says_or_ends "$SERVER" flow-server '^listening'
	flow_start "$CLIENT" flow-client --seconds $((seconds - 10)) connect "$address" $PORT "$@"
	job_wait "$CLIENT" flow-client "$seconds" || status=1
	[ "$status" = 0 ] || job_kill "$SERVER" flow-server TERM
	job_wait "$SERVER" flow-server 20 || status=1
	show_jobs flow-server flow-client
	return "$status"
}

cell_echo() { flow echo; }
cell_bulk() { flow bulk; }
cell_stall() { flow stall; }
cell_half() { flow half; }
cell_abort() { flow abort; }
cell_many() { flow many; }

# The second group has to end, because other cells expect one group.
cell_crowd() {
	local status=0
	FLOW_SECONDS=300 flow many 400 || status=1
	groups_end && as_before || status=1
	return "$status"
}


cell_urgent() { flow urgent 3; }

# ---- the views of both sides

# Is the link group in this direction symmetric? A side may have a group in the other direction too, and the kernel's
# links do not tell to which they belong. So links are found by the user IDs that both sides know.
is_symmetric() {
	views "$1" --arg role "$2" \
		'[.linkgroup[] | select(.role == $role)] | length == 1 and .[0].type == "symmetric"'
}

both_symmetric() {
	is_symmetric "$CLIENT" client && is_symmetric "$SERVER" server
}

both_sides() {
	local n
	echo "$C, client: $(view "$CLIENT" | jq -c .)"
	echo "$S, server: $(view "$SERVER" | jq -c .)"
	for n in 1 2; do
		! has_smcrd "$n" || smcrctl_on "$n" event | tail -n 15 | sed "s/^/host $n: /"
	done
}

cell_links() {
	until_true 30 both_symmetric && return
	both_sides
	return 1
}

# jq, with the view of the client's host in $c and of the server's in $s. Each side chooses on which link a
# connection writes, so the numbers of connections on the links are not compared.
SAME_VIEW='
def group($role): [.linkgroup[] | select(.role == $role)][0];
def links($group): [.link[] | select(.state == "active" and
	(if has("linkgroup") then .linkgroup == $group.id else true end))];
def mirrored: {number, uid: .peer_uid, peer_uid: .uid, local_gid: .peer_gid, peer_gid: .local_gid};
def plain: {number, uid, peer_uid, local_gid, peer_gid};
def mirror_type: {"asymmetric-local": "asymmetric-peer", "asymmetric-peer": "asymmetric-local"}[.] // .;
($c | group("client")) as $cg | ($s | group("server")) as $sg
| ($c | links($cg)) as $cl | ($s | links($sg)) as $sl
| ([$cl[].peer_uid] | map({"\(.)": true}) | add) as $known_c
| ([$sl[].peer_uid] | map({"\(.)": true}) | add) as $known_s
| {client: {type: $cg.type, connections: $cg.connections,
	version: $cg.version, eid: $cg.eid,
	links: [$cl[] | select($known_s["\(.uid)"]) | plain] | sort},
   server: {type: ($sg.type | mirror_type), connections: $sg.connections,
	version: $sg.version, eid: $sg.eid,
	links: [$sl[] | select($known_c["\(.uid)"]) | mirrored] | sort}}'

view_pair() {
	jq -cn --argjson c "$(view "$CLIENT")" --argjson s "$(view "$SERVER")" "$SAME_VIEW"
}

views_agree() {
	VIEWS=$(view_pair) &&
		jq -e '.client == .server and (.client.links | length) == 2 and
			.client.connections >= 4' <<<"$VIEWS" >/dev/null
}

cell_views() {
	local status=0
	steady_start --bulk 2 --pingpong 2 || return
	until_true 90 views_agree || status=1
	[ "$status" = 0 ] || {
		jq . <<<"$VIEWS"
		both_sides
	}
	steady_stop || status=1
	return "$status"
}

# ---- traffic that goes on while links come and go: tests/programs/steady.c, on ordinary sockets

# steady_start --bulk N --pingpong N: returns when all connections are open and use SMC-R.
steady_start() {
	local count=$(($2 + $4))
	PORT=$((PORT + 1))
	program_start "$SERVER" steady-server "$PROGRAMS/steady" serve "$(server_address)" $PORT --gap 1000
	until_true 30 job_says_or_ends "$SERVER" steady-server '^ready'
	program_start "$CLIENT" steady-client "$PROGRAMS/steady" connect "$(server_address)" $PORT \
		--rate "$(steady_rate)" --pace 20000 --gap 1000 "$@"
	until_true 60 job_says_or_ends "$CLIENT" steady-client '^ready'
	job_says "$CLIENT" steady-client '^ready' && until_true 60 all_settled $count && return
	echo "no $count connections over SMC-R"
	job_kill "$CLIENT" steady-client KILL
	job_kill "$SERVER" steady-server KILL
	show_jobs steady-server steady-client
	return 1
}

# all_settled COUNT: do so many connections use SMC-R on each smcrd? (connect() under smcr-run may return earlier.)
all_settled() {
	local n
	for n in "$CLIENT" "$SERVER"; do
		! has_smcrd "$n" || smcrctl_on "$n" -j connection | jq -e --arg port ":$PORT" --argjson count "$1" \
			'[.connection[] | select((.local, .peer) | endswith($port)) |
			select(.mode == "smcr" and .state == "active")] | length >= $count' >/dev/null || return
	done
}

# steady_rate: print the rate in kB/s each way. After losing a link the kernel (6.12) may free space in its send buffer
# twice for the same bytes, and loses 64 KB when that buffer is full next (docs/interop.md), so the rate must be too low to
# fill the buffer. Also, rdma_rxe of an emulated machine moves only some 2 MB/s in all, less on a busy host, and repeats
# packets beyond that.
steady_rate() {
	case $C$S in
	SS) echo 500 ;;
	*K*) echo 50 ;;
	*) echo 150 ;;
	esac
}

# steady_stop: both programs must end in order, and every byte must have arrived once and in order.
steady_stop() {
	local status=0
	job_kill "$CLIENT" steady-client TERM
	job_wait "$CLIENT" steady-client 70 || status=1
	job_kill "$SERVER" steady-server TERM
	job_wait "$SERVER" steady-server 20 || status=1
	show_jobs steady-server steady-client
	return "$status"
}

# cut_begins, cut_ends: the period between them is an explanation of repeated requests for wirecheck.
cut_begins() {
	CUT_FROM=$EPOCHREALTIME
}

cut_ends() {
	CUTS+=("$CUT_FROM-$EPOCHREALTIME")
}


is_not_symmetric() {
	! is_symmetric "$@"
}

# under_traffic DO NOTICED UNDO [AGAIN]: run traffic on two links. DO takes one link away, and NOTICED must become true.
# UNDO brings it back, and AGAIN must become true: by default, both sides are symmetric again.
under_traffic() {
	local status=0
	until_true 40 both_symmetric || {
		echo "there are no two links to start with"
		both_sides
		return 1
	}
	steady_start --bulk 2 --pingpong 2 || return
	cut_begins
	$1 || { echo "$1 failed"; status=1; }
	until_true 40 "$2" || { echo "not noticed"; both_sides; status=1; }
	$3 || { echo "$3 failed"; status=1; }
	until_true 60 "${4:-both_symmetric}" || { echo "not symmetric again"; both_sides; status=1; }
	cut_ends
	steady_stop || status=1
	return "$status"
}

# nic_is_down HOST NIC
nic_is_down() {
	on "$1" ip link set "net$2" down
}

# nic_is_up HOST NIC
nic_is_up() {
	on "$1" bash -c ". $VM_HERE/guest/nic.bash; nic_up $2"
}

# Do both sides know that a link is gone? The kernel as server is not asked. When the client tells it, the kernel waits
# until its requests on the link have completed, and rdma_rxe repeats them until an answer comes over the lost path
# (docs/interop.md).
not_both_symmetric() {
	is_not_symmetric "$CLIENT" client && { [ "$S" = K ] || is_not_symmetric "$SERVER" server; }
}

client_down() { nic_is_down "$CLIENT" 1; }
client_up() { nic_is_up "$CLIENT" 1; }
server_down() { nic_is_down "$SERVER" 1; }
server_up() { nic_is_up "$SERVER" 1; }
cell_loss-client() { under_traffic client_down not_both_symmetric client_up; }
# As loss-client, which cannot run in every pairing; but here the second link need not come back. Where the kernel's
# requests on the lost link stay outstanding for ever, autocorking is off, so that small writes do not wait for them
# (docs/interop.md).
cell_cut-client() {
	[ -z "$(reason_rxe)" ] || on "$SERVER" sysctl -qw net.smc.autocorking_size=0 || return
	under_traffic client_down not_both_symmetric client_up true
}
cell_loss-server() { under_traffic server_down not_both_symmetric server_up; }

# The group's first link fails, which carries the LLC messages until then.
first_client_down() { nic_is_down "$CLIENT" 0; }
first_client_up() { nic_is_up "$CLIENT" 0; }
first_server_down() { nic_is_down "$SERVER" 0; }
first_server_up() { nic_is_up "$SERVER" 0; }
cell_first-client() { under_traffic first_client_down not_both_symmetric first_client_up; }
cell_first-server() { under_traffic first_server_down not_both_symmetric first_server_up; }

# The switch drops RoCE on the port of one NIC, in both directions.
path_dead() {
	ip netns exec "$LAB" nft -f - <<-EOF
	table bridge cut {
		chain forward {
			type filter hook forward priority -10
			iifname host${SERVER}1 udp dport 4791 drop
			oifname host${SERVER}1 udp dport 4791 drop
		}
	}
	EOF
}

path_alive() {
	ip netns exec "$LAB" nft delete table bridge cut
}

cell_silent() { under_traffic path_dead not_both_symmetric path_alive; }

# The RDMA device is removed, its interface stays.
device_goes() { on "$1" rdma link delete rxe1; }
device_comes() { on "$1" rdma link add rxe1 type rxe netdev net1; }
client_device_goes() { device_goes "$CLIENT"; }
client_device_comes() { device_comes "$CLIENT"; }
server_device_goes() { device_goes "$SERVER"; }
server_device_comes() { device_comes "$SERVER"; }
cell_remove-client() { under_traffic client_device_goes not_both_symmetric client_device_comes; }
cell_remove-server() { under_traffic server_device_goes not_both_symmetric server_device_comes; }

reason_remove() {
	[ "$1" != S ] || echo "a software RNIC is its interface"
}

# docs/interop.md tells more, and why two kernels hang.
reason_rxe() {
	[ "$C$S" != VK ] || echo "asked to delete the link the kernel's server waits for its outstanding sends," \
		"which rdma_rxe repeats for ever; rdma_rxe does not answer for a queue pair that is gone"
}

reason_loss-client() { reason_rxe; }
reason_first-client() { reason_rxe; }
reason_silent() { reason_rxe; }
reason_remove-client() { reason_remove "$C"; reason_rxe; }
reason_remove-server() { reason_remove "$S"; }

# a_link HOST ROLE: GROUP/NUMBER of the newest active link.
a_link() {
	all_links "$@" | sort -t / -k 2n | tail -n 1
}

link_is_gone() {
	views "$DELETE_HOST" --arg link "$DELETE_LINK" \
		'all(.link[]; "\(.linkgroup)/\(.number)" != $link or .state != "active")'
}

# rdma_rxe may have ended the link by itself meanwhile (docs/interop.md). Then delete the link that has replaced it.
operator_deletes() {
	smcrctl_on "$DELETE_HOST" link delete "$DELETE_LINK" && return
	[ $? = 4 ] || return 1
	DELETE_LINK=$(a_link "$DELETE_HOST" "$DELETE_ROLE")
	smcrctl_on "$DELETE_HOST" link delete "$DELETE_LINK"
}
# The server may have added a link by itself by then.
operator_adds() { smcrctl_on "$DELETE_HOST" link add "${DELETE_LINK%/*}" || true; }

delete_link() {
	DELETE_HOST=$1 DELETE_ROLE=$2 DELETE_LINK=$(a_link "$1" "$2")
	under_traffic operator_deletes link_is_gone operator_adds
}

cell_delete-client() { delete_link "$CLIENT" client; }
cell_delete-server() { delete_link "$SERVER" server; }

reason_delete() {
	[ "$1" != K ] || echo "the kernel has no command that deletes a link (see loss and remove)"
}

reason_delete-client() { reason_delete "$C"; }
reason_delete-server() { reason_delete "$S"; }

# ---- idle links

# tested SINCE: on how many paths has a TEST LINK been sent and answered since then?
tested() {
	"$VM_TOP/$LAB_BUILD/tests/interop/wirecheck" --list "$VM_WORK/lan.pcap" | awk -v since="$1" '
		$1 < since || $4 != "TEST" { next }
		{ split($2, pair, "-") }
		$6 != "reply" { asked[$2] = 1 }
		$6 == "reply" { answered[pair[2] "-" pair[1]] = 1 }
		END {
			for (path in asked)
				if (path in answered) {
					split(path, pair, "-")
					paths[pair[1] < pair[2] ? path : pair[2] "-" pair[1]] = 1
				}
			print length(paths)
		}'
}

all_tested() {
	[ "$(tested "$1")" = 2 ]
}

# The two sides have different intervals, so that the kernel is the one that tests, if one side is the kernel (lab.bash).
cell_idle() {
	local since=$EPOCHREALTIME status=0 n link role=client
	until_true 40 all_tested "$since" || { echo "not tested"; status=1; }
	for n in "$CLIENT" "$SERVER"; do
		for link in $(has_smcrd "$n" && all_links "$n" $role); do
			smcrctl_on "$n" link test "$link" || { echo "link test $link fails"; status=1; }
		done
		role=server
	done
	both_symmetric || { echo "no longer symmetric"; status=1; }
	[ "$status" = 0 ] || both_sides
	return "$status"
}

# all_links HOST ROLE: GROUP/NUMBER of each active link.
all_links() {
	view "$1" | jq -r --arg role "$2" '[.linkgroup[] | select(.role == $role)][0].id as $group |
		.link[] | select(.linkgroup == $group and .state == "active") |
		"\(.linkgroup)/\(.number)"'
}

# ---- real programs

# transfer_ncat: send a file from the client to the server and compare it.
transfer_ncat() {
	local file=$VM_TOP/$LAB_BUILD/bin/smcrd status=0
	PORT=$((PORT + 1))
	program_start "$SERVER" ncat-server bash -c "ncat -l 0.0.0.0 $PORT --recv-only >/tmp/$LAB.got; \
		cmp /tmp/$LAB.got $file; s=\$?; rm -f /tmp/$LAB.got; exit \$s"
	until_true 20 listens "$SERVER" $PORT
	program_start "$CLIENT" ncat-client bash -c "ncat --send-only $(server_address) $PORT <$file"
	job_wait "$CLIENT" ncat-client 60 || status=1
	job_wait "$SERVER" ncat-server 20 || status=1
	show_jobs ncat-server ncat-client
	return "$status"
}

listens() {
	[ -n "$(on "$1" ss -Hltn "sport = :$2")" ]
}

# transfer_curl: download a file with curl from Python's web server and compare it.
transfer_curl() {
	local file=$LAB_BUILD/bin/smcrctl status=0
	PORT=$((PORT + 1))
	program_start "$SERVER" web-server python3 -m http.server -d "$VM_TOP" -b "$(server_address)" $PORT
	until_true 40 listens "$SERVER" $PORT
	program_start "$CLIENT" curl bash -c "set -o pipefail
		curl -sS --max-time 60 http://$(server_address):$PORT/$file | cmp - $VM_TOP/$file"
	job_wait "$CLIENT" curl 70 || status=1
	job_kill "$SERVER" web-server TERM
	job_wait "$SERVER" web-server 10
	[ "$status" = 0 ] || show_jobs web-server curl
	return "$status"
}

transfer_iperf3() {
	local status=0
	PORT=$((PORT + 1))
	program_start "$SERVER" iperf3-server iperf3 -s -1 -p $PORT
	until_true 20 listens "$SERVER" $PORT
	program_start "$CLIENT" iperf3-client iperf3 -c "$(server_address)" -p $PORT -n 2M "$@"
	job_wait "$CLIENT" iperf3-client 60 || status=1
	[ "$status" = 0 ] || job_kill "$SERVER" iperf3-server KILL
	job_wait "$SERVER" iperf3-server 20 || status=1
	show_jobs iperf3-server iperf3-client
	return "$status"
}

cell_programs() {
	local status=0
	transfer_ncat || { echo "ncat failed"; status=1; }
	transfer_curl || { echo "curl failed"; status=1; }
	transfer_iperf3 || { echo "iperf3 failed"; status=1; }
	transfer_iperf3 -R || { echo "iperf3 -R failed"; status=1; }
	return "$status"
}
