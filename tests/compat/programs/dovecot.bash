# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="dovecot with its login processes in chroots: IMAP and POP3, plain and TLS, APPEND and FETCH of large mails, IDLE told of new mail, wrong passwords, reload"
PACKAGES=(dovecot-imapd dovecot-pop3d openssl python3)
LIMIT=90

configure() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	mkdir -m 777 mail state
	echo "user:{PLAIN}secret:$(id -u nobody):$(id -g nobody)::$DIR/mail" >users
	cat >dovecot.conf <<-END
	base_dir = /run/dovecot
	state_dir = $DIR/state
	protocols = imap pop3
	listen = $SERVER
	log_path = $DIR/dovecot.log
	ssl = yes
	ssl_cert = <$DIR/cert.pem
	ssl_key = <$DIR/key.pem
	disable_plaintext_auth = no
	mail_location = maildir:$DIR/mail/%u
	auth_mechanisms = plain
	mail_max_userip_connections = 50
	first_valid_uid = 1
	passdb {
		driver = passwd-file
		args = $DIR/users
	}
	userdb {
		driver = passwd-file
		args = $DIR/users
	}
	END
}

run() {
	configure
	# Its run directory is fixed, so mount a separate one for this host.
	# shellcheck disable=SC2016
	start_under a bash -c 'mount -t tmpfs -o mode=755 none /run/lock && mkdir -p /run/lock/dovecot /run/dovecot &&
		mount --bind /run/lock/dovecot /run/dovecot && exec dovecot -F -c "$0"' "$DIR/dovecot.conf"
	local dovecot=$!
	listening a 143
	listening a 993
	random_file large 3000
	local round
	for round in first reloaded; do
		under b python3 "$HOSTS_ROOT/tests/compat/clients/mail.py" "$SERVER" large >answers 2>client.log
		result "$round.client" "$? $(tail -n 1 client.log)"
		while read -r name value; do result "$round.$name" "$value"; done <answers
		[ "$round" = reloaded ] || kill -HUP "$dovecot"
	done
	stop "$dovecot"
	result dovecot.ends "$STATUS"
	result panics "$(grep -c 'Panic\|killed with signal' dovecot.log)"
}
