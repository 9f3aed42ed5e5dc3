# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="NBD in user space: nbd-server and qemu-nbd, asked by qemu-img, qemu-io, nbdinfo and nbdcopy: images copied both ways, several connections to an export, writes, zeroes, discards, read-only exports, TLS, block status, unknown exports, servers that are killed or restarted"
PACKAGES=(nbd-server qemu-utils libnbd-bin openssl)
LIMIT=60

at() {
	under b timeout 60 "$@"
}

# says NAME COMMAND..: its exit status and what it says are the result, without times, and in any order.
says() {
	local name=$1 rc=0
	shift
	at "$@" >"$name.log" 2>&1 || rc=$?
	result "$name" "$rc $(grep -v 'ops; ' "$name.log" | sort)"
}

nbd_server() {
	mkdir exports
	random_file exports/large 40000
	random_file exports/fixed 1000
	truncate -s 30M exports/empty
	chmod 666 exports/*
	chmod 777 exports
	cat >nbd.conf <<-END
		[generic]
			port = 10809
			listenaddr = $SERVER
			allowlist = true
			user = nobody
			group = nogroup
		[large]
			exportname = $DIR/exports/large
		[fixed]
			exportname = $DIR/exports/fixed
			readonly = true
		[copied]
			exportname = $DIR/exports/fixed
			copyonwrite = true
		[empty]
			exportname = $DIR/exports/empty
			flush = true
			fua = true
			trim = true
	END
	# It becomes a daemon, which has a process for each client.
	status server under a nbd-server -C "$DIR/nbd.conf" -p "$DIR/nbd.pid"
	listening a 10809
	PID=$(cat nbd.pid)
	says list nbdinfo --list "nbd://$SERVER"
	status download at qemu-img convert -f raw -O raw "nbd://$SERVER/large" fetched
	same download.same fetched exports/large
	status copy at nbdcopy --connections=4 --threads=2 "nbd://$SERVER/large" copied
	same copy.same copied exports/large
	random_file sent 30720
	status upload at nbdcopy --connections=1 sent "nbd://$SERVER/empty"
	same upload.same sent exports/empty
	says io qemu-io -f raw -c 'write -P 7 1M 2M' -c 'read -P 7 1M 2M' -c 'write -z 2M 64k' -c 'read -P 0 2M 64k' \
		-c 'aio_write -P 9 4M 1M' -c 'aio_read 8M 1M' -c aio_flush -c 'discard 10M 1M' -c flush -c 'read -P 9 4M 1M' "nbd://$SERVER/empty"
	says read.only qemu-io -f raw -c 'write -P 7 0 64k' "nbd://$SERVER/fixed"
	says beyond qemu-io -f raw -r -c 'read 100M 64k' "nbd://$SERVER/fixed"
	says on.write qemu-io -f raw -c 'write -P 7 0 64k' -c 'read -P 7 0 64k' "nbd://$SERVER/copied"
	says unknown qemu-img info "nbd://$SERVER/nothing"
	at qemu-img bench -f raw -c 2000 -d 32 -s 4096 "nbd://$SERVER/large" >bench.log 2>&1
	result bench "$?"
	start_under b timeout 60 qemu-io -f raw -r -c 'read 0 1M' -c 'sleep 3000' -c 'read 1M 1M' "nbd://$SERVER/large" >left.log 2>&1
	client=$!
	until_true 20 grep -q 'read 1048576' left.log
	# Its process for the client goes on without it.
	kill -TERM "$PID"
	until_true 20 ended "$PID" || fault "nbd-server does not end"
	wait "$client"
	result left "$? $(grep -v 'ops; ' left.log)"
}

# serve_image OPTIONS..: serve an image by qemu-nbd
serve_image() {
	start_under a qemu-nbd -b "$SERVER" -p 10810 -t "$@" >>qemu-nbd.log 2>&1
	PID=$!
	listening a 10810
}

qemu_nbd() {
	local i clients=()
	qemu-img create -q -f qcow2 image.qcow2 100M
	serve_image -f qcow2 -x disk -e 8 image.qcow2
	says info nbdinfo "nbd://$SERVER:10810/disk"
	status image.upload at qemu-img convert -n -f raw -O raw sent "nbd://$SERVER:10810/disk"
	says image.map nbdinfo --map --totals "nbd://$SERVER:10810/disk"
	says image.compare qemu-img compare -f raw -F raw sent "nbd://$SERVER:10810/disk"
	status image.download at nbdcopy --connections=4 "nbd://$SERVER:10810/disk" image.raw
	same image.same <(head -c 30M image.raw) sent
	for i in 1 2 3 4 5 6; do
		start_under b timeout 60 qemu-io -f raw -c "write -P $i ${i}0M 5M" -c "read -P $i ${i}0M 5M" "nbd://$SERVER:10810/disk" >"many$i.log" 2>&1
		clients+=($!)
	done
	for i in "${clients[@]}"; do wait "$i" || result "many" "$?"; done
	right many.same at qemu-io -f raw -r -c 'read -P 1 10M 5M' -c 'read -P 6 60M 5M' "nbd://$SERVER:10810/disk"
	# The server is killed and comes again: a client that asks for it connects again.
	start_under b timeout 60 qemu-io -c 'read 0 1M' -c 'sleep 4000' -c 'read 1M 1M' \
		--image-opts "driver=nbd,host=$SERVER,port=10810,export=disk,reconnect-delay=30" >again.log 2>&1
	client=$!
	until_true 20 grep -q 'read 1048576' again.log
	stop "$PID" KILL
	serve_image -f qcow2 -x disk -e 8 image.qcow2
	wait "$client"
	result again "$? $(grep -c '^read 1048576/1048576' again.log)"
	stop "$PID"
	result image.server "$STATUS"
	says refused qemu-img info "nbd://$SERVER:10810/disk"
	right image.check qemu-img check -q image.qcow2
}

tls() {
	local subject
	mkdir certs
	(
		cd certs || exit 1
		openssl req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -out ca-cert.pem -days 2 -subj /CN=authority
		for subject in server client; do
			openssl req -newkey rsa:2048 -nodes -keyout "$subject-key.pem" -out request.pem -subj "/CN=$SERVER"
			openssl x509 -req -in request.pem -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
				-extfile <(echo "subjectAltName=IP:$SERVER") -out "$subject-cert.pem"
		done
	) >/dev/null 2>&1
	chmod -R a+rX certs
	serve_image -f raw --object "tls-creds-x509,id=t,endpoint=server,dir=$DIR/certs,verify-peer=yes" --tls-creds t -e 4 sent
	status tls at qemu-img convert -O raw --object "tls-creds-x509,id=t,endpoint=client,dir=$DIR/certs" \
		--image-opts "driver=nbd,host=$SERVER,port=10810,tls-creds=t" tls.raw
	same tls.same tls.raw sent
	says tls.none qemu-img info "nbd://$SERVER:10810"
	stop "$PID"
	result tls.server "$STATUS"
}

run() {
	local PID client
	nbd_server
	qemu_nbd
	tls
}
