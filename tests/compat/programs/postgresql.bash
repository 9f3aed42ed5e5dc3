# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="psql: queries, COPY of 20 MB both ways, large objects, LISTEN and NOTIFY, cancelling, errors, TLS; pgbench with lasting and with new connections; pg_basebackup and a standby that follows"
PACKAGES=(postgresql-15 postgresql-client-15 openssl)
LIMIT=150
bin=/usr/lib/postgresql/15/bin

initialize() {
	as a postgres $bin/initdb -D "$DIR/data" -A trust -N -U postgres >initdb.log 2>&1 ||
		fault "initdb: $(tail -n 1 initdb.log)"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout data/server.key -out data/server.crt -days 2 \
		-subj /CN=test 2>/dev/null
	chown postgres data/server.key data/server.crt
	chmod 600 data/server.key
	cat >>data/postgresql.conf <<-END
	listen_addresses = '$SERVER'
	port = 5432
	ssl = on
	fsync = off
	unix_socket_directories = '$DIR'
	max_connections = 50
	END
	printf 'host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n' >>data/pg_hba.conf
}

sql() {
	under b psql -X -A -t -q -h "$SERVER" -U postgres "$@" 2>&1
}

queries() {
	result version "$(sql -c "show server_version")"
	result tls "$(PGSSLMODE=require sql -c 'select ssl from pg_stat_ssl where pid = pg_backend_pid()')"
	result plain "$(PGSSLMODE=disable sql -c 'select ssl from pg_stat_ssl where pid = pg_backend_pid()')"
	result error "$(sql -c 'select nothing') $?"
	result rows "$(sql -c "select i, md5(i::text) from generate_series(1, 200000) i" | sha256sum)"
	result addresses "$(sql -c "select inet_client_addr(), inet_server_addr(), inet_server_port()")"
	seq 1 400000 | awk '{ print $1 "\t" "row number " $1 " of many more" }' >rows
	sql -c "create table t (i int, s text)"
	result copy.in "$(sql -c "\\copy t from '$DIR/rows'")"
	result copy.out "$(sql -c "\\copy t to '$DIR/copied'")"
	same copy.same rows copied
	random_file object 4000
	sql -c "\\lo_import '$DIR/object'" >lo
	sql -c "\\lo_export $(sql -c 'select max(oid) from pg_largeobject_metadata') '$DIR/exported'" >lo
	same object.same object exported
	result transaction "$(printf 'begin;\ndelete from t;\nrollback;\nselect count(*) from t;\n' | sql)"
}

cancel() {
	start_under b psql -X -h "$SERVER" -U postgres -c "select pg_sleep(60)" >cancel.out 2>&1
	local psql=$!
	until_true 10 eval '[ "$(sql -c "select count(*) from pg_stat_activity where query like '"'select pg_sleep%'"'")" = 1 ]'
	# psql sends the cancel request over a separate connection.
	kill -INT "$psql"
	wait "$psql"
	result cancel "$? $(cat cancel.out)"
	result notify "$(printf 'listen news;\nnotify news, %s;\nselect 1;\n' "'something'" | sql | sed 's/PID [0-9]*/PID/')"
	start_under b psql -X -h "$SERVER" -U postgres -c "select pg_sleep(60)" >terminated.out 2>&1
	psql=$!
	until_true 10 eval '[ "$(sql -c "select count(*) from pg_stat_activity where query like '"'select pg_sleep%'"'")" = 1 ]'
	sql -c "select pg_terminate_backend(pid) from pg_stat_activity where query like 'select pg_sleep%'" >/dev/null
	wait "$psql"
	result terminated "$? $(cat terminated.out)"
}

bench() {
	under b pgbench -h "$SERVER" -U postgres -i -q -s 1 postgres >pgbench.log 2>&1
	result pgbench.init "$?"
	result pgbench "$(under b pgbench -h "$SERVER" -U postgres -n -c 8 -j 2 -t 150 postgres 2>&1 |
		grep -E 'actually processed|failed')"
	result pgbench.prepared "$(under b pgbench -h "$SERVER" -U postgres -n -S -M prepared -c 8 -j 2 -t 500 postgres 2>&1 |
		grep -E 'actually processed|failed')"
	result pgbench.connects "$(under b pgbench -h "$SERVER" -U postgres -n -S -C -c 4 -j 2 -t 25 postgres 2>&1 |
		grep -E 'actually processed|failed')"
	result sum "$(sql -c "select sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts")"
}

standby_has() {
	[ "$(as b postgres psql -X -A -t -h "$DIR" -p 5433 -U postgres -c "$1" 2>/dev/null)" = "$2" ]
}

standby() {
	status basebackup as b postgres $bin/pg_basebackup --checkpoint=fast -h "$SERVER" -U postgres -D "$DIR/standby" -R -X stream \
		2>basebackup.log
	printf "port = 5433\nlisten_addresses = ''\n" >>standby/postgresql.conf
	start_as b postgres $bin/postgres -D "$DIR/standby" 2>standby.log
	local standby=$!
	sql -c "create table follows as select generate_series(1, 1000) i"
	right standby.follows until_true 30 standby_has "select count(*) from follows" 1000
	sql -c "select pg_terminate_backend(pid) from pg_stat_replication" >/dev/null
	sql -c "insert into follows select generate_series(1, 1000)"
	right standby.again until_true 30 standby_has "select count(*) from follows" 2000
	stop "$standby" INT
	result standby.ends "$STATUS"
}

run() {
	initialize
	start_as a postgres $bin/postgres -D "$DIR/data" 2>postgres.log
	local server=$!
	listening a 5432
	until_true 20 sql -c "select 1" >/dev/null
	queries
	cancel
	bench
	standby
	stop "$server" INT
	result server.ends "$STATUS"
}
