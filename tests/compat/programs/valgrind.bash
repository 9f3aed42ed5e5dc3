# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="nginx, curl and a Python client with threads under memcheck: what they transfer, errors found, descriptors open at the end, memory lost"
PACKAGES=(valgrind nginx-light curl python3)
LIMIT=150

configure() {
	mkdir -p www
	cat >nginx.conf <<-END
	daemon off;
	master_process off;
	pid $DIR/nginx.pid;
	error_log $DIR/error.log notice;
	events { worker_connections 64; }
	http {
		access_log off;
		sendfile on;
		client_body_temp_path $DIR/t1; proxy_temp_path $DIR/t2; fastcgi_temp_path $DIR/t3;
		uwsgi_temp_path $DIR/t4; scgi_temp_path $DIR/t5;
		server {
			listen $SERVER:8080;
			root $DIR/www;
		}
	}
	END
	cat >client.py <<-'END'
	import hashlib, sys, threading, urllib.request
	sums = [None] * 6
	def fetch(i):
	    with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
	        sums[i] = hashlib.sha256(answer.read()).hexdigest()
	threads = [threading.Thread(target=fetch, args=(i,)) for i in range(len(sums))]
	for t in threads: t.start()
	for t in threads: t.join()
	print(len(set(sums)), sums[0])
	END
}

# checked LOG COMMAND..: run the command under memcheck
checked() {
	local log=$1
	shift
	printf '%s\n' valgrind -q --error-exitcode=99 --track-fds=yes --leak-check=full \
		--show-leak-kinds=definite --errors-for-leak-kinds=none "--log-file=$DIR/$log.log" "$@"
}

# found NAME LOG: record memcheck's findings, without addresses and process ids
found() {
	result "$1" "$(sed -E 's/^==[0-9]+== *//; s/0x[0-9A-F]+//g' "$2.log" |
		grep -E '^(Invalid|Conditional|Syscall|Use of|Process terminating|Warning|FILE DESC|[0-9,]+ .*definitely lost)' |
		sort | uniq -c | tr '\n' ';')"
}

run() {
	local server words
	configure
	random_file www/large 3000
	mapfile -t words < <(checked server /usr/sbin/nginx -c "$DIR/nginx.conf" -e "$DIR/error.log")
	start_under a "${words[@]}"
	server=$!
	listening a 8080
	mapfile -t words < <(checked curl curl -sS --max-time 60 -o fetched "http://$SERVER:8080/large" -o again "http://$SERVER:8080/large")
	status curl under b "${words[@]}"
	same curl.same fetched www/large
	same curl.again again www/large
	found curl.found curl
	mapfile -t words < <(checked refused curl -s --max-time 60 "http://$SERVER:1/")
	status refused under b "${words[@]}"
	found refused.found refused
	mapfile -t words < <(checked python env PYTHONMALLOC=malloc /usr/bin/python3 client.py "http://$SERVER:8080/large")
	status python under b "${words[@]}" >python.out
	right python.same grep -qx "1 $(sha256sum <www/large | cut -d' ' -f1)" python.out
	status plain.client under b curl -sS --max-time 60 -o fetched "http://$SERVER:8080/large"
	same plain.client.same fetched www/large
	stop "$server" QUIT
	result server.ends "$STATUS"
	found server.found server
}
