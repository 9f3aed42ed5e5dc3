# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="nginx with workers of another user, asked by curl, wrk and h2load: sendfile, ranges, TLS, HTTP/2, uploads through a proxy on the other host; reload and binary upgrade (USR2) while it serves"
PACKAGES=(nginx-light curl wrk nghttp2-client openssl)
LIMIT=120

configure() {
	local host=$1 addr=$2 dir=$DIR/$1
	mkdir -p "$dir/www" "$dir/uploads"
	chmod 777 "$dir" "$dir/uploads"
	cat >"$dir/nginx.conf" <<-END
	user www-data;
	worker_processes 3;
	pid $dir/nginx.pid;
	error_log $dir/error.log notice;
	events { worker_connections 512; }
	http {
		access_log off;
		sendfile on;
		tcp_nopush on;
		keepalive_requests 100000;
		client_max_body_size 100m;
		client_body_temp_path $dir/t1; proxy_temp_path $dir/t2; fastcgi_temp_path $dir/t3;
		uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
		server {
			listen $addr:8080;
			listen $addr:8443 ssl http2;
			ssl_certificate $DIR/cert.pem;
			ssl_certificate_key $DIR/key.pem;
			root $dir/www;
			location /proxied/ { proxy_pass http://$CLIENT:8080/; proxy_http_version 1.1; }
			location /unbuffered/ {
				proxy_pass http://$CLIENT:8080/; proxy_buffering off; proxy_request_buffering off;
			}
			location /dead/ { proxy_pass http://$CLIENT:1/; }
			location /echo { proxy_pass http://$addr:8080/uploads; }
		}
	}
	END
}

# start_nginx HOST: start it as a daemon, as distributions do
start_nginx() {
	local dir=$DIR/$1
	status "$1.start" under "$1" /usr/sbin/nginx -c "$dir/nginx.conf" -e "$dir/error.log"
	listening "$1" 8080
}

get() {
	under b curl -sS --max-time 20 "$@"
}

# fetch NAME OPTIONS.. URL: fetch the URL, which must be the file NAME of the tree.
fetch() {
	local name=$1 what=$2
	shift 2
	status "$what" get -o fetched "$@"
	same "$what.same" fetched "a/www/$name"
}

downloads() {
	fetch large sendfile "http://$SERVER:8080/large"
	fetch large tls -k --http1.1 "https://$SERVER:8443/large"
	fetch large http2 -k --http2 "https://$SERVER:8443/large"
	fetch large proxied "http://$SERVER:8080/proxied/large"
	fetch large unbuffered "http://$SERVER:8080/unbuffered/large"
	fetch large slow --limit-rate 20M "http://$SERVER:8080/large"
	status range get -r 1000000-1999999 -o range "http://$SERVER:8080/large"
	right range.same cmp range <(tail -c +1000001 a/www/large | head -c 1000000)
	result many "$(get "http://$SERVER:8080/small[1-40]" | sha256sum)"
	result parallel "$(get -Z --parallel-max 20 "http://$SERVER:8080/small[1-40]" | tr -d '\n' | wc -c)"
	result missing "$(get -o /dev/null -w '%{http_code}' "http://$SERVER:8080/nothing")"
	result dead "$(get -o /dev/null -w '%{http_code}' "http://$SERVER:8080/dead/")"
	result post "$(get -o /dev/null -w '%{http_code}' --data-binary @a/www/large "http://$SERVER:8080/unbuffered/large")"
	result too.large "$(head -c 101M /dev/zero | get -o /dev/null -w '%{http_code}' -H Expect: --data-binary @- "http://$SERVER:8080/large" 2>/dev/null)"
}

# loads NAME
loads() {
	under b wrk -t2 -c30 -d2s "http://$SERVER:8080/small1" >wrk.out
	result "$1.wrk" "$? $(grep -E 'Non-2xx|Socket errors' wrk.out)"
	under b h2load -n 3000 -c 20 -m 10 "https://$SERVER:8443/small1" >h2load.out
	result "$1.h2load" "$? $(grep '^requests:' h2load.out)"
	under b h2load --h1 -n 200 -c 20 "http://$SERVER:8080/large" >h2load.out
	result "$1.h2load.h1" "$? $(grep '^requests:' h2load.out)"
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
	on a ps -o pid= --ppid "$(cat a/nginx.pid)" | wc -l
}

old_workers_are_gone() {
	local pid
	for pid in $1; do
		ended "$pid" || return 1
	done
}

reloads() {
	local old i
	for i in 1 2 3; do
		old=$(on a ps -o pid= --ppid "$(cat a/nginx.pid)")
		under a /usr/sbin/nginx -c "$DIR/a/nginx.conf" -s reload 2>/dev/null || fault "reload $i fails"
		until_true 20 old_workers_are_gone "$old" || fault "workers stay after reload $i"
	done
}

upgrade() {
	local old
	old=$(cat a/nginx.pid)
	kill -USR2 "$old"
	until_true 20 [ -s a/nginx.pid.oldbin ] || fault "no new master"
	until_true 20 eval '[ -s a/nginx.pid ] && [ "$(cat a/nginx.pid)" != '"$old"' ]'
	kill -WINCH "$old"
	kill -QUIT "$old"
	until_true 20 ended "$old" || fault "the old master stays"
}

run() {
	local i
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test \
		2>/dev/null
	configure a "$SERVER"
	configure b "$CLIENT"
	random_file a/www/large 12000
	cp a/www/large b/www/large
	for i in $(seq 1 40); do echo "this is number $i" >"a/www/small$i"; done
	start_nginx b
	start_nginx a
	downloads
	loads first
	reloads &
	result reload "$(ask_often $! | sort -u)"
	loads reloaded
	upgrade &
	result upgrade "$(ask_often $! | sort -u)"
	right upgraded [ ! -e a/nginx.pid.oldbin ]
	loads upgraded
	result many.again "$(get "http://$SERVER:8080/small[1-40]" | sha256sum)"
	kill -QUIT "$(cat a/nginx.pid)"
	right ends until_true 20 [ ! -e a/nginx.pid ]
	result signals "$(grep -c 'exited on signal' a/error.log b/error.log | tr '\n' ' ')"
}
