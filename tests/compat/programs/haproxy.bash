# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="haproxy with Debian's settings (chroot, user, threads, master and worker): TCP and HTTP, TLS, keep-alive to servers, health checks, a server that is gone; reload with descriptors passed on (expose-fd) under requests, statistics socket"
PACKAGES=(haproxy curl nginx-light openssl nghttp2-client)
LIMIT=120

start_backends() {
	local port
	mkdir www
	random_file www/large 6000
	for i in $(seq 1 20); do echo "this is number $i" >"www/small$i"; done
	for port in 8001 8002; do
		cat >"nginx$port.conf" <<-END
		daemon off;
		master_process off;
		pid $DIR/nginx$port.pid;
		error_log $DIR/nginx$port.log;
		events { worker_connections 256; }
		http {
			access_log off;
			client_body_temp_path $DIR/t1; proxy_temp_path $DIR/t2; fastcgi_temp_path $DIR/t3;
			uwsgi_temp_path $DIR/t4; scgi_temp_path $DIR/t5;
			server { listen $CLIENT:$port; root $DIR/www; }
		}
		END
		start_under b nginx -c "$DIR/nginx$port.conf" -e "$DIR/nginx$port.log"
		backends+=($!)
		listening b "$port"
	done
}

configure() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test 2>/dev/null
	cat cert.pem key.pem >both.pem
	chmod 644 both.pem
	mkdir -m 755 empty
	cat >haproxy.cfg <<-END
	global
		log stderr local0 warning
		chroot $DIR/empty
		stats socket $DIR/haproxy.sock mode 660 level admin expose-fd listeners
		user haproxy
		group haproxy
		nbthread 2
		maxconn 500
	defaults
		mode http
		timeout connect 5s
		timeout client 30s
		timeout server 30s
		timeout check 10s
		option redispatch
		retries 2
	frontend web
		bind $SERVER:8080
		bind $SERVER:8443 ssl crt $DIR/both.pem alpn h2,http/1.1
		default_backend servers
	backend servers
		balance roundrobin
		option httpchk GET /small1
		http-reuse always
		default-server inter 300ms rise 1 fall 2
		server one $CLIENT:8001 check
		server two $CLIENT:8002 check
	listen raw
		mode tcp
		bind $SERVER:8081
		server one $CLIENT:8001
	listen dead
		bind $SERVER:8082
		server none $CLIENT:1
	END
}

get() {
	under b curl -sS --max-time 20 "$@"
}

statistics() {
	on a python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode() + b"\n")
while (d := s.recv(65536)): sys.stdout.write(d.decode())' "$DIR/haproxy.sock" "$1"
}

server_is() {
	statistics "show stat" 2>/dev/null | awk -F, -v name="$1" -v state="$2" \
		'$1 == "servers" && $2 == name { found = $18 == state } END { exit !found }'
}

requests() {
	local name=$1
	status "$name.http" get -o fetched "http://$SERVER:8080/large"
	same "$name.http.same" fetched www/large
	status "$name.tcp" get -o fetched "http://$SERVER:8081/large"
	same "$name.tcp.same" fetched www/large
	status "$name.tls" get -k --http2 -o fetched "https://$SERVER:8443/large"
	same "$name.tls.same" fetched www/large
	result "$name.many" "$(get "http://$SERVER:8080/small[1-20]" | sha256sum)"
	result "$name.dead" "$(get -o /dev/null -w '%{http_code}' "http://$SERVER:8082/")"
	under b h2load -n 2000 -c 20 -m 5 "https://$SERVER:8443/small1" >h2load.out
	result "$name.h2load" "$? $(grep '^requests:' h2load.out)"
	under b h2load --h1 -n 400 -c 20 "http://$SERVER:8080/small1" >h2load.out
	result "$name.h1" "$? $(grep '^requests:' h2load.out)"
}

# ask_often PID: make requests until the process has ended; prints errors
ask_often() {
	local answer asked=0
	until ended "$1" && [ "$asked" -gt 20 ]; do
		answer=$(get "http://$SERVER:8080/small7" 2>&1)
		[ "$answer" = "this is number 7" ] || echo "$answer"
		asked=$((asked + 1))
	done
}

loaded() {
	[ "$(grep -c 'Loading success' haproxy.log)" -ge "$1" ] &&
		[ "$(grep -c 'Former worker .* exited' haproxy.log)" -ge $(($1 - 1)) ]
}

reload() {
	local i
	for i in 2 3 4; do
		kill -USR2 "$haproxy"
		until_true 40 loaded "$i" || fault "no new worker"
	done
}

run() {
	local haproxy backends=() i
	start_backends
	configure
	start_under a haproxy -W -f "$DIR/haproxy.cfg" -p "$DIR/haproxy.pid" 2>haproxy.log
	haproxy=$!
	listening a 8080
	until_true 10 server_is one UP
	until_true 10 server_is two UP
	requests first
	reload &
	result reload "$(ask_often $! | sort -u)"
	requests reloaded
	stop "${backends[1]}" QUIT
	right down until_true 10 server_is two DOWN
	result one.left "$(get "http://$SERVER:8080/small[1-20]" | sha256sum)"
	kill -USR1 "$haproxy"
	right ends until_true 40 ended "$haproxy"
}
