# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Samba on the hosts of hosts.bash, and a gateway on either side: smbd on host a, which only knows TCP; smbclient on host b, which
# connects to the address where its smcrd takes programs. SMB Direct is between the two. Sourced by the demo and the bats tests.

SMB_PORT=445         # of smbd on host a
SMB_DOOR=1445        # where smcrd of host b takes programs
SMB_USER=root%secret # signing and encryption need a user with a password

# smb_can: are Samba's programs there? Else says which is not.
smb_can() {
	local program
	for program in smbd smbclient smbpasswd; do
		command -v "$program" >/dev/null || {
			echo "$program is not installed (make check-deps)"
			return 1
		}
	done
}

# smb_gateways [LINES..]: configure smcrd of both hosts, with these lines besides, and start it.
smb_gateways() {
	local host
	chmod 711 "$HOSTS_DIR"
	{
		echo 'rnic = soft:eth0'
		echo "smb_server = 127.0.0.1:$SMB_PORT"
		printf '%s\n' "$@"
	} >"$HOSTS_DIR/a.conf"
	{
		echo 'rnic = soft:eth0'
		echo "smb_client = 127.0.0.1:$SMB_DOOR 10.77.0.1"
		printf '%s\n' "$@"
	} >"$HOSTS_DIR/b.conf"
	for host in a b; do
		# Either NIC of a host would answer ARP for the other one, which has no RNIC here.
		on "$host" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
		smcrd_start "$host"
	done
}

# smb_share: make the share, $HOSTS_DIR/share, and smbd's configuration.
smb_share() {
	local dir=$HOSTS_DIR/samba
	mkdir -p "$dir/nc" "$HOSTS_DIR/share"
	cat >"$dir/smb.conf" <<-END
	[global]
	server role = standalone server
	private dir = $dir
	lock directory = $dir
	state directory = $dir
	cache directory = $dir
	pid directory = $dir
	ncalrpc dir = $dir/nc
	log file = $dir/log.%m
	smb ports = $SMB_PORT
	interfaces = ${SMB_INTERFACES:-lo}
	bind interfaces only = yes
	disable netbios = yes
	load printers = no
	[share]
	path = $HOSTS_DIR/share
	read only = no
	END
	printf '%s\n' "${SMB_USER#*%}" "${SMB_USER#*%}" |
		smbpasswd -c "$dir/smb.conf" -s -a "${SMB_USER%\%*}" >"$dir/smbpasswd.log"
}

# smbd_start: start smbd on host a, and wait until it listens. $SMBD_PID is its process. It has a session of its own, since it ends all of
# its process group when it ends.
smbd_start() {
	start_on a setsid smbd -F --no-process-group -s "$HOSTS_DIR/samba/smb.conf" \
		</dev/null >"$HOSTS_DIR/samba/smbd.out" 2>&1
	SMBD_PID=$!
	until_true 20 tcp_listens a "$SMB_PORT"
}

# smbd_stop: end smbd and the processes that it has made, and wait until nobody listens.
smbd_stop() {
	kill "$SMBD_PID"
	wait "$SMBD_PID" || true
	until_true 20 eval "! tcp_listens a $SMB_PORT"
}

# smb [OPTIONS..] COMMANDS: smbclient on host b. It uses no configuration of this machine.
smb() {
	on b smbclient --configfile=/dev/null -p "$SMB_DOOR" -U "$SMB_USER" //127.0.0.1/share \
		"${@:1:$#-1}" -c "${*: -1}"
}
