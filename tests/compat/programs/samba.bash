# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="smbd, which serves each connection in a process as the user who asks, and smbclient: SMB 2 and 3, signed and encrypted, up and down, trees, many at once, wrong passwords; reload"
PACKAGES=(samba smbclient)
LIMIT=120

configure() {
	local part
	for part in private locks state cache pid ncalrpc; do mkdir -p "smb/$part"; done
	mkdir -m 777 share
	cat >smb.conf <<-END
	[global]
	workgroup = TEST
	netbios name = A
	server role = standalone server
	security = user
	map to guest = never
	interfaces = $SERVER/24
	bind interfaces only = yes
	disable netbios = yes
	smb ports = 445
	private dir = $DIR/smb/private
	lock directory = $DIR/smb/locks
	state directory = $DIR/smb/state
	cache directory = $DIR/smb/cache
	pid directory = $DIR/smb/pid
	ncalrpc dir = $DIR/smb/ncalrpc
	log file = $DIR/smbd.log
	passdb backend = tdbsam:$DIR/smb/passdb.tdb
	load printers = no
	printing = bsd
	socket options = TCP_NODELAY SO_KEEPALIVE IPTOS_LOWDELAY
	use sendfile = yes
	deadtime = 0
	[share]
	path = $DIR/share
	read only = no
	[guarded]
	path = $DIR/share
	read only = no
	smb encrypt = required
	END
	printf 'secret\nsecret\n' | on a smbpasswd -c "$DIR/smb.conf" -s -a nobody >smbpasswd.log 2>&1 ||
		fault "smbpasswd fails: $(tail -n 1 smbpasswd.log)"
}

# smb SHARE OPTIONS..
smb() {
	local share=$1
	shift
	under b smbclient -s "$DIR/client.conf" "//$SERVER/$share" -U nobody%secret -t 20 "$@" 2>&1
}

# transfer NAME OPTIONS..: send a file to the server, and fetch it back
transfer() {
	local name=$1 share=$2
	shift 2
	smb "$share" "$@" -c "put large $name; get $name $name.back" >"$name.log"
	result "$name" "$? $(grep -o 'NT_STATUS.*' "$name.log")"
	same "$name.up" large "share/$name"
	same "$name.down" large "$name.back"
}

run() {
	local smbd i
	printf '[global]\nworkgroup = TEST\ndisable netbios = yes\n' >client.conf
	configure
	random_file large 12000
	start_under a smbd -F -s "$DIR/smb.conf" >smbd.out 2>&1
	smbd=$!
	listening a 445
	transfer smb3 share -m SMB3
	transfer smb2 share -m SMB2
	transfer signed share --option="client signing=required"
	transfer encrypted guarded
	mkdir tree back
	for i in $(seq 1 100); do echo "file $i" >"tree/file$i"; done
	smb share -c 'prompt off; recurse on; mput tree; lcd back; mget tree' >tree.log
	result tree "$? $(diff -r tree back/tree && echo same)"
	result list "$(smb share -c 'ls tree/file1*' | awk '$1 ~ /^file/ { print $1, $3 }' | sort)"
	result wrong "$(under b smbclient -s "$DIR/client.conf" "//$SERVER/share" -U nobody%wrong -c ls 2>&1)"
	result nothing "$(smb nothing -c ls)"
	result parallel "$(for i in $(seq 1 12); do
		smb share -c "get smb3 parallel.$i" >/dev/null && cmp -s large "parallel.$i" && echo same &
	done | sort | uniq -c)"
	# a client that is killed in the middle
	start_under b timeout -s KILL 0.3 smbclient -s "$DIR/client.conf" "//$SERVER/share" -U nobody%secret \
		-c 'put large cut; put large cut; put large cut; put large cut' >/dev/null 2>&1
	wait $!
	kill -HUP "$smbd"
	transfer reloaded share
	result status "$(on a smbstatus -s "$DIR/smb.conf" -L 2>/dev/null | grep -c cut)"
	stop "$smbd"
	result smbd.ends "$STATUS"
	result panics "$(grep -ciE 'panic|INTERNAL ERROR' smbd.log)"
}
