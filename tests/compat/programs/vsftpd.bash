# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="vsftpd in its chroot, asked by curl and lftp: passive, extended passive and active, up and down, resumed, listed, mirrored, TLS, refused logins"
PACKAGES=(vsftpd curl lftp openssl)
LIMIT=120

# Its seccomp sandbox does not know newer system calls of the C library, so with it no transfer works.
start_vsftpd() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out key.pem.crt -days 2 -subj /CN=test 2>/dev/null
	cat key.pem.crt >>key.pem
	cat >vsftpd.conf <<-END
	listen=YES
	listen_address=$SERVER
	listen_port=2121
	background=NO
	anonymous_enable=YES
	anon_root=/srv
	anon_upload_enable=YES
	anon_mkdir_write_enable=YES
	anon_other_write_enable=YES
	anon_umask=022
	write_enable=YES
	local_enable=NO
	no_anon_password=NO
	connect_from_port_20=YES
	pasv_min_port=3000
	pasv_max_port=3100
	secure_chroot_dir=/srv/empty
	seccomp_sandbox=NO
	ssl_enable=YES
	allow_anon_ssl=YES
	force_anon_data_ssl=NO
	force_anon_logins_ssl=NO
	require_ssl_reuse=NO
	rsa_cert_file=$DIR/key.pem
	xferlog_enable=NO
	END
	chown root vsftpd.conf
	# shellcheck disable=SC2016
	start_under a bash -c 'mount -t tmpfs -o mode=755 none /srv && mkdir /srv/empty /srv/ftp && mkdir -m 777 /srv/in &&
		cp "$0/large" /srv/ && chmod 644 /srv/large && mkdir /srv/tree && cp "$0"/tree/* /srv/tree/ &&
		chmod 644 /srv/tree/* && exec vsftpd "$0/vsftpd.conf"' "$DIR"
	vsftpd=$!
	listening a 2121
}

ftp() {
	under b curl -sS --max-time 20 "$@"
}

# transfer NAME OPTIONS..: fetch a file, send it back, and fetch that
transfer() {
	local name=$1
	shift
	status "$name.down" ftp "$@" -o "$name.large" "ftp://$SERVER:2121/large"
	same "$name.down.same" "$name.large" large
	status "$name.up" ftp "$@" -T large "ftp://$SERVER:2121/in/$name"
	status "$name.back" ftp "$@" -o "$name.back" "ftp://$SERVER:2121/in/$name"
	same "$name.back.same" "$name.back" large
	result "$name.list" "$(ftp "$@" -l "ftp://$SERVER:2121/tree/" | sort | sha256sum)"
}

run() {
	local vsftpd i
	random_file large 9000
	mkdir tree
	for i in $(seq 1 60); do echo "file $i" >"tree/file$i"; done
	start_vsftpd
	result hello "$( (printf 'USER ftp\r\n'; sleep 1; printf 'PASS x@y\r\n'; sleep 1; printf 'QUIT\r\n'; sleep 1) | under b ncat "$SERVER" 2121)"
	transfer passive --disable-epsv
	transfer extended --disable-eprt
	transfer active -P - --disable-eprt
	transfer tls -k --ssl-reqd --tls-max 1.2
	head -c 4000000 large >part
	status resume ftp -C - -o part "ftp://$SERVER:2121/large"
	same resume.same part large
	result many "$(ftp "ftp://$SERVER:2121/tree/file[1-60]" | sort | sha256sum)"
	result missing "$(ftp "ftp://$SERVER:2121/nothing" 2>&1) $?"
	result refused "$(ftp -u root:wrong "ftp://$SERVER:2121/large" 2>&1) $?"
	status mirror under b env HOME="$DIR" lftp -c "set net:timeout 10; set net:max-retries 2; set ftp:ssl-allow no;
		open ftp://$SERVER:2121; mirror -P 4 tree mirrored"
	right mirror.same diff -r tree mirrored
	status mirror.active under b env HOME="$DIR" lftp -c "set net:timeout 10; set net:max-retries 2; set ftp:ssl-allow no;
		set ftp:passive-mode no; open ftp://$SERVER:2121; mirror -R tree in/tree; mirror in/tree again"
	right mirror.again diff -r tree again
	stop "$vsftpd"
	result vsftpd.ends "$STATUS"
}
