# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Apache with each of its process models (event, worker, prefork): files by sendfile, TLS, HTTP/2, uploads by WebDAV, a proxy, CGI, keep-alive; graceful restarts under requests, graceful stop"
PACKAGES=(apache2-bin apache2-utils curl openssl nghttp2-client)
LIMIT=150

# configure HOST ADDRESS MODEL
# Each process has more threads than ab has connections: a process without an idle thread closes connections that are
# kept alive, and ab counts a request that it has just sent there as failed, over plain TCP too.
configure() {
	local dir=$DIR/$1 modules=/usr/lib/apache2/modules name
	mkdir -p "$dir/www/dav" "$dir/www/cgi" "$dir/locks"
	chmod 777 "$dir" "$dir/www/dav" "$dir/locks"
	{
		for name in "mpm_$3" authz_core mime dir alias cgi cgid ssl socache_shmcb http2 proxy proxy_http dav dav_fs status; do
			case $name in
			cgi) [ "$3" = prefork ] || continue ;;
			cgid | http2) [ "$3" != prefork ] || continue ;;
			esac
			echo "LoadModule ${name}_module $modules/mod_$name.so"
		done
		cat <<-END
		ServerName test
		ServerRoot $dir
		DefaultRuntimeDir $dir
		PidFile $dir/apache.pid
		ErrorLog $dir/error.log
		LogLevel warn
		TypesConfig /etc/mime.types
		User www-data
		Group www-data
		Listen $2:8080
		Listen $2:8443
		KeepAlive On
		MaxKeepAliveRequests 0
		KeepAliveTimeout 30
		DocumentRoot $dir/www
		EnableSendfile On
		EnableMMAP Off
		AcceptFilter http none
		DavLockDB $dir/locks/db
		ProxyPass /proxied http://$CLIENT:8080
		ScriptAlias /cgi $dir/www/cgi
		$([ "$3" = prefork ] || echo "ScriptSock $dir/cgisock
		Protocols h2 http/1.1
		ThreadsPerChild 40")
		<Location /dav>
			Dav On
		</Location>
		<Directory $dir/www>
			Require all granted
		</Directory>
		<VirtualHost *:8443>
			SSLEngine on
			SSLCertificateFile $DIR/cert.pem
			SSLCertificateKeyFile $DIR/key.pem
		</VirtualHost>
		END
	} >"$dir/apache.conf"
	printf '#!/bin/sh\necho Content-Type: text/plain\necho\necho "$REMOTE_ADDR $SERVER_ADDR $SERVER_PORT"; cat\n' >"$dir/www/cgi/names"
	chmod 755 "$dir/www/cgi/names"
}

# start_apache HOST: start it as a daemon, as distributions do
start_apache() {
	status "$model.$1.start" under "$1" /usr/sbin/apache2 -f "$DIR/$1/apache.conf" -k start
	listening "$1" 8080
}

get() {
	under b curl -sS --max-time 20 "$@"
}

fetch() {
	local name=$model.$1
	shift
	status "$name" get -o fetched "$@"
	same "$name.same" fetched a/www/large
}

downloads() {
	fetch sendfile "http://$SERVER:8080/large"
	fetch tls -k --http1.1 "https://$SERVER:8443/large"
	[ "$model" = prefork ] || fetch http2 -k --http2 "https://$SERVER:8443/large"
	fetch proxied "http://$SERVER:8080/proxied/large"
	fetch slow --limit-rate 20M "http://$SERVER:8080/large"
	result "$model.put" "$(get -o /dev/null -w '%{http_code}' -T a/www/large "http://$SERVER:8080/dav/up")"
	result "$model.put.again" "$(get -o /dev/null -w '%{http_code}' -T a/www/large -H Expect: "http://$SERVER:8080/dav/up")"
	fetch dav "http://$SERVER:8080/dav/up"
	result "$model.cgi" "$(get --data-binary @a/www/small7 "http://$SERVER:8080/cgi/names")"
	result "$model.many" "$(get "http://$SERVER:8080/small[1-40]" | sha256sum)"
	result "$model.parallel" "$(get -Z --parallel-max 20 "http://$SERVER:8080/small[1-40]" | tr -d '\n' | wc -c)"
	result "$model.missing" "$(get -o /dev/null -w '%{http_code}' "http://$SERVER:8080/nothing")"
	under b ab -q -k -n 3000 -c 30 "http://$SERVER:8080/small1" >ab.out 2>&1
	result "$model.ab.keep" "$? $(grep -E '^(Complete|Failed|Keep-Alive|Non-2xx)' ab.out)"
	under b ab -q -n 400 -c 20 "http://$SERVER:8080/small1" >ab.out 2>&1
	result "$model.ab" "$? $(grep -E '^(Complete|Failed|Non-2xx)' ab.out)"
}

# ask_often PID: make one connection after the other until the process ends; prints errors.
ask_often() {
	local answer asked=0
	until ended "$1" && [ "$asked" -gt 20 ]; do
		answer=$(get "http://$SERVER:8080/small7" 2>&1)
		[ "$answer" = "this is number 7" ] || echo "$answer"
		asked=$((asked + 1))
	done
}

workers() {
	on a ps -o pid= --ppid "$(cat a/apache.pid)" | sort
}

none_left() {
	[ -z "$(comm -12 <(echo "$1") <(workers))" ]
}

graceful() {
	local old i
	for i in 1 2 3; do
		old=$(workers)
		under a /usr/sbin/apache2 -f "$DIR/a/apache.conf" -k graceful || fault "restart $i fails"
		until_true 20 none_left "$old" || fault "$model: processes stay after restart $i"
	done
}

run() {
	local model i
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	for model in event worker prefork; do
		configure a "$SERVER" "$model"
		configure b "$CLIENT" "$model"
		if [ "$model" = event ]; then
			random_file a/www/large 10000
			cp a/www/large b/www/large
			for i in $(seq 1 40); do echo "this is number $i" >"a/www/small$i"; done
		fi
		start_apache b
		start_apache a
		downloads
		graceful &
		result "$model.graceful" "$(ask_often $! | sort -u)"
		fetch afterwards "http://$SERVER:8080/large"
		for i in a b; do
			status "$model.$i.stop" under "$i" /usr/sbin/apache2 -f "$DIR/$i/apache.conf" -k graceful-stop
			right "$model.$i.ends" until_true 20 [ ! -e "$i/apache.pid" ]
		done
	done
	result signals "$(grep -hoE 'exit signal [A-Za-z ]*' a/error.log b/error.log | sort | uniq -c)"
}
