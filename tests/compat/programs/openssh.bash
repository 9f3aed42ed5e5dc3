# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="sshd and its clients: commands and their exit status, large input, scp and sftp both ways, sftp in a chroot, a terminal, rekeying; forwarding -L, -R and -D; ControlMaster; rsync and git over ssh"
PACKAGES=(openssh-server openssh-client openssh-sftp-server rsync git curl ncat)
LIMIT=120
QUICK=yes

# Only root may own the chroot's path, so mount a separate file system for it.
start_sshd() {
	ssh-keygen -q -t ed25519 -N '' -f host_key
	ssh-keygen -q -t ed25519 -N '' -f key
	cp key.pub authorized
	cat >sshd_config <<-END
	Port 2222
	ListenAddress $SERVER
	HostKey $DIR/host_key
	PidFile $DIR/sshd.pid
	AuthorizedKeysFile $DIR/authorized
	StrictModes no
	UsePAM no
	PasswordAuthentication no
	PermitRootLogin yes
	PermitUserEnvironment no
	Subsystem sftp internal-sftp
	MaxStartups 100
	Match User nobody
		ChrootDirectory /srv
		ForceCommand internal-sftp
	END
	# shellcheck disable=SC2016
	start_under a bash -c 'mkdir -p /run/sshd && mount -t tmpfs -o mode=755 none /srv && mkdir -m 777 /srv/in &&
		exec /usr/sbin/sshd -D -f "$0" -E "$1"' "$DIR/sshd_config" "$DIR/sshd.log"
	sshd=$!
	listening a 2222
}

options() {
	printf '%s\n' -F none -i "$DIR/key" -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
		-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes
}

remote() {
	under b ssh "${opts[@]}" -p 2222 "root@$SERVER" "$@"
}

commands() {
	result command "$(remote 'echo out; echo err >&2; exit 7' 2>&1) $?"
	status command.killed remote 'kill -9 $$'
	remote cat <large >back
	same cat.same back large
	result terminal "$(remote -tt 'tty -s && stty -echo; read x; echo "got $x"' <<<"word" | tr -d '\r' | tail -n 1)"
	remote -o RekeyLimit=1M cat <large >back
	same rekey.same back large
	result parallel "$(for i in 1 2 3 4 5 6 7 8; do remote "echo $i" & done | sort | tr '\n' ' ')"
}

copies() {
	status scp.up under b scp -q "${opts[@]}" -P 2222 large "root@$SERVER:$DIR/up"
	same scp.up.same up large
	status scp.down under b scp -q "${opts[@]}" -P 2222 "root@$SERVER:$DIR/large" down
	same scp.down.same down large
	status scp.old under b scp -q -O "${opts[@]}" -P 2222 "root@$SERVER:$DIR/large" old
	same scp.old.same old large
	printf 'put large in/file\nget in/file got\nrename in/file in/other\nls in\npwd\n' >./batch
	result sftp.chroot "$(under b sftp -q "${opts[@]}" -P 2222 -b batch "nobody@$SERVER" 2>&1 | tr '\n' ' ')"
	same sftp.chroot.same got large
	status rsync under b rsync -a -e "ssh ${opts[*]} -p 2222" "root@$SERVER:$DIR/large" synced
	same rsync.same synced large
	git init -q --bare repo.git
	git init -q -b main tree
	cp large tree/
	git -C tree add large
	git -C tree -c user.name=a -c user.email=b commit -qm one
	status git.push under b env GIT_SSH_COMMAND="ssh ${opts[*]} -p 2222" git -C tree push -q "root@$SERVER:$DIR/repo.git" main
	status git.clone under b env GIT_SSH_COMMAND="ssh ${opts[*]} -p 2222" git clone -q -b main "root@$SERVER:$DIR/repo.git" cloned
	same git.same cloned/large large
}

answers_at() {
	under b curl -sS --max-time 10 -o /dev/null "$@" 2>/dev/null
}

forwarding() {
	start_under a python3 -m http.server --bind "$SERVER" 8000 >http.log 2>&1
	listening a 8000
	start_under b python3 -m http.server --bind "$CLIENT" 8001 >http2.log 2>&1
	listening b 8001
	start_under b ssh "${opts[@]}" -p 2222 -N -o ExitOnForwardFailure=yes -L "9001:$SERVER:8000" \
		-R "9002:$CLIENT:8001" -D 9003 "root@$SERVER"
	local tunnel=$!
	listening b 9001
	listening b 9003
	listening a 9002
	status forward.local under b curl -sS --max-time 200 -o local http://127.0.0.1:9001/large
	same forward.local.same local large
	status forward.remote under a curl -sS --max-time 200 -o remote http://127.0.0.1:9002/large
	same forward.remote.same remote large
	status forward.socks under b curl -sS --max-time 200 --socks5 127.0.0.1:9003 -o socks "http://$SERVER:8000/large"
	same forward.socks.same socks large
	stop "$tunnel"
	result tunnel.ends "$STATUS"
	status stdio under b ssh "${opts[@]}" -p 2222 -W "$SERVER:8000" "root@$SERVER" \
		<<<"GET /nothing HTTP/1.0" >stdio.out
}

master() {
	local control=(-o "ControlPath=$DIR/control")
	status master remote -fN -o ControlMaster=yes -o ControlPersist=60 "${control[@]}"
	result master.used "$(remote "${control[@]}" echo through)"
	status master.check remote "${control[@]}" -O check
	remote "${control[@]}" cat <large >back
	same master.same back large
	status master.exit remote "${control[@]}" -O exit
}

run() {
	local sshd opts
	random_file large 8000
	mapfile -t opts < <(options)
	start_sshd
	commands
	copies
	forwarding
	master
	stop "$sshd"
	result sshd.ends "$STATUS"
}
