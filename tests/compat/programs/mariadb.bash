# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="mariadb: queries, large rows both ways, LOAD DATA, TLS, compression, KILL, a dump restored, mariadb-slap; a replica that follows"
PACKAGES=(mariadb-server mariadb-client openssl)
LIMIT=150

# server HOST ID OPTIONS..
server() {
	local host=$1 id=$2 data=$DIR/$1
	shift 2
	mkdir -p "$data"
	chown mysql "$data"
	on "$host" mariadb-install-db --no-defaults --user=mysql --datadir="$data" \
		--auth-root-authentication-method=normal --skip-test-db >"$host.install.log" 2>&1 ||
		fault "mariadb-install-db: $(tail -n 1 "$host.install.log")"
	start_under "$host" mariadbd --no-defaults --user=mysql --datadir="$data" --bind-address=0.0.0.0 \
		--port 3306 --socket="$DIR/$host.mysql" --pid-file="$DIR/$host.pid" --server-id="$id" \
		--log-bin --innodb-flush-log-at-trx-commit=0 --max-allowed-packet=64M --skip-name-resolve \
		--ssl-cert="$DIR/cert.pem" --ssl-key="$DIR/key.pem" "$@" 2>"$host.log"
	printf -v "server_$host" %s "$!"
	listening "$host" 3306
	until_true 20 on "$host" mariadb --no-defaults -S "$DIR/$host.mysql" -e 'select 1' >/dev/null 2>&1
	on "$host" mariadb --no-defaults -S "$DIR/$host.mysql" -e "create user u identified by 'p';
		grant all on *.* to u" || fault "no user on host $host"
}

sql() {
	under b mariadb --no-defaults -h "$SERVER" -u u -pp --max-allowed-packet=64M --local-infile=1 -N -B "$@" 2>&1
}

queries() {
	sql -e "create database d; create table d.t (i int primary key, s longblob)"
	result tls "$(sql --ssl -e "show status like 'Ssl_version'")"
	result plain "$(sql --skip-ssl -e "show status like 'Ssl_version'")"
	result error "$(sql -e 'select nothing')"
	result refused "$(sql -pwrong -e 'select 1')"
	result rows "$(sql -e "select seq, md5(seq) from seq_1_to_200000" | sha256sum)"
	result compressed "$(sql -C -e "select seq, md5(seq) from seq_1_to_200000" | sha256sum)"
	result large.in "$(head -c 6000000 /dev/zero | tr '\0' x | awk '{ print "insert into d.t values (1, \"" $0 "\")" }' | sql)"
	result large.out "$(sql -e 'select s from d.t where i = 1' | md5sum)"
	seq 2 200000 | awk '{ print $1 "\trow " $1 }' >rows
	result load "$(sql -e "load data local infile '$DIR/rows' into table d.t")"
	result count "$(sql -e 'select count(*), md5(group_concat(i)) from d.t')"
	result kill "$(sql -e 'select connection_id() into @c; kill @c; select 1')"
	result sleep "$(sql -e 'set max_statement_time = 1; select sleep(10)')"
}

dump() {
	under b mariadb-dump --no-defaults -h "$SERVER" -u u -pp --max-allowed-packet=64M --databases d --skip-dump-date >dump.sql
	result dump "$? $(grep -c '^INSERT' dump.sql)"
	sql -e 'drop database d'
	result restore "$(sql <dump.sql)"
	result restored "$(sql -e 'select count(*), md5(group_concat(i)) from d.t')"
	under b mariadb-slap --no-defaults -h "$SERVER" -u u -pp --concurrency=10 --iterations=2 --auto-generate-sql \
		--number-of-queries=1000 >slap.out 2>&1
	result slap "$? $(grep -c 'Number of clients' slap.out)"
	result connects "$(for i in $(seq 1 30); do sql -e "select $i"; done | md5sum)"
}

replica_sql() {
	on b mariadb --no-defaults -S "$DIR/b.mysql" -N -B -e "$1" 2>/dev/null
}

replica_has() {
	[ "$(replica_sql "$1")" = "$2" ]
}

replica() {
	server b 2
	replica_sql "change master to master_host='$SERVER', master_user='u', master_password='p',
		master_connect_retry=1, master_use_gtid=slave_pos; set global gtid_slave_pos='$(sql -e 'select @@gtid_current_pos')';
		start slave"
	sql -e "create database e; create table e.t select seq from e.seq_1_to_1000" >/dev/null
	sql -e "create table e.u as select * from (select 1 x union select 2) y"
	right replica.follows until_true 30 replica_has "select count(*) from e.u" 2
	sql -e "select id into @c from information_schema.processlist where command like 'Binlog Dump%'; kill @c"
	sql -e "insert into e.u values (3)"
	right replica.again until_true 30 replica_has "select count(*) from e.u" 3
	stop "$server_b"
	result replica.ends "$STATUS"
}

run() {
	local server_a server_b
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	chmod 644 key.pem
	server a 1
	queries
	dump
	replica
	stop "$server_a"
	result server.ends "$STATUS"
}
