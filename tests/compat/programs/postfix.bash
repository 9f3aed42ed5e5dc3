# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="postfix on both hosts, its processes in chroots: swaks and smtp-source send to one host, which relays to the other; STARTTLS, large mails, a hundred from ten connections, refused recipients, reload"
PACKAGES=(postfix swaks libnet-ssleay-perl openssl)
LIMIT=120

# configure HOST ADDRESS SETTING..: each host's postfix writes to a separate directory
configure() {
	local host=$1 addr=$2 dir=$DIR/$1
	shift 2
	mkdir -p "$dir/etc" "$dir/spool" "$dir/data" "$dir/mail"
	cp -r /etc/postfix/. "$dir/etc/"
	chmod 755 "$dir" "$dir/etc"
	chown postfix "$dir/data"
	chown nobody "$dir/mail"
	cat >"$dir/etc/main.cf" <<-END
	compatibility_level = 3.6
	queue_directory = $dir/spool
	data_directory = $dir/data
	inet_interfaces = $addr
	inet_protocols = ipv4
	myhostname = $host.example
	mydestination =
	mynetworks = 10.77.0.0/24
	smtpd_recipient_restrictions = permit_mynetworks, reject
	smtpd_tls_cert_file = $DIR/cert.pem
	smtpd_tls_key_file = $DIR/key.pem
	smtpd_tls_security_level = may
	smtp_tls_security_level = may
	smtp_bind_address = $addr
	message_size_limit = 8000000
	mailbox_size_limit = 0
	maillog_file = $dir/spool/postfix.log
	maillog_file_prefixes = $dir
	disable_dns_lookups = yes
	smtp_host_lookup = native
	smtpd_peername_lookup = no
	END
	printf '%s\n' "$@" >>"$dir/etc/main.cf"
	# postfix listens only on ADDRESS. Daemons that can run in the chroot of the queue do so.
	sed -i -E 's/^(smtp +inet +n +- +)[yn]/\1y/; s/^(smtp +unix +- +- +)[yn]/\1y/' "$dir/etc/master.cf"
	grep -q '^postlog' "$dir/etc/master.cf" ||
		echo 'postlog unix-dgram n - n - 1 postlogd' >>"$dir/etc/master.cf"
	postconf -c "$dir/etc" -F '*/*/chroot' >"$host.chroots.log" 2>&1
	start_under "$host" postfix -c "$dir/etc" start-fg >"$host.start.log" 2>&1
	printf -v "postfix_$host" %s "$!"
	listening "$host" 25
}

mail_count() {
	[ "$(find "$DIR/b/mail" -path '*/new/*' -type f | wc -l)" = "$1" ]
}

send() {
	under b swaks --server "$SERVER" --from one@b.example --helo b.example --timeout 20 --silent 3 "$@" >swaks.out 2>&1
}

run() {
	local postfix_a postfix_b
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	configure b "$CLIENT" "virtual_mailbox_domains = to.example" "virtual_mailbox_base = $DIR/b/mail" \
		"virtual_mailbox_maps = static:all/" "virtual_uid_maps = static:$(id -u nobody)" \
		"virtual_gid_maps = static:$(id -g nobody)" "virtual_minimum_uid = 1" "virtual_mailbox_limit = 0" \
		"smtpd_recipient_restrictions = reject_unauth_destination"
	configure a "$SERVER" "relayhost = [$CLIENT]"
	base64 -w 76 /dev/urandom | head -c 5000000 >large
	status small send --to two@to.example --body "a small mail"
	status tls send --to two@to.example --tls --body "a mail by TLS"
	status large send --to two@to.example --body @large
	right delivered until_true 40 mail_count 3
	right large.same eval 'grep -l "$(sed -n 1000p large)" -r b/mail | xargs -I{} bash -c "tr -d \"\\r\" <{} | sed \"1,/^\$/d\" | head -n 60000 | cmp - <(head -n 60000 large)"'
	head -c 9000000 /dev/zero | tr '\0' x | fold -w 70 >toolarge
	status too.large send --to two@to.example --body @toolarge
	status refused under b swaks --server "$CLIENT" --from one@x --to two@elsewhere.example --quit-after RCPT --silent 3
	status source under b smtp-source -s 10 -m 100 -l 20000 -f one@b.example -t two@to.example "$SERVER:25"
	right source.delivered until_true 60 mail_count 103
	status reload under a postfix -c "$DIR/a/etc" reload 2>/dev/null
	status again send --to two@to.example --body "one more"
	right again.delivered until_true 40 mail_count 104
	result queue "$(under a postqueue -c "$DIR/a/etc" -p)"
	result complaints "$(grep -hEo 'fatal:.*|panic:.*|lost connection.*' {a,b}/spool/postfix.log | sort -u)"
	under a postfix -c "$DIR/a/etc" stop 2>/dev/null
	under b postfix -c "$DIR/b/etc" stop 2>/dev/null
	right ends until_true 20 ended "$postfix_a"
}
