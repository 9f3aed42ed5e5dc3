# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="mosquitto: publish and subscribe at QoS 0, 1 and 2, large messages, retained ones, a last will, TLS, a bridge to a broker on the other host"
PACKAGES=(mosquitto mosquitto-clients openssl)
LIMIT=90

pub() {
	under b mosquitto_pub -h "$SERVER" -p 1883 "$@"
}

subscribed() {
	[ "$(grep -c SUBSCRIBE mosquitto.log)" -gt "$1" ]
}

# hear NAME COUNT OPTIONS..: start a subscriber; $! is its process.
hear() {
	local name=$1 count=$2 before
	shift 2
	before=$(grep -c SUBSCRIBE mosquitto.log)
	start_under b mosquitto_sub -h "$SERVER" -p 1883 -C "$count" -W 30 "$@" >"$name.heard"
	until_true 10 subscribed "$before"
}

run() {
	local mosquitto bridge pid qos before
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj "/CN=$SERVER" \
		-addext "subjectAltName=IP:$SERVER" 2>/dev/null
	chmod 644 key.pem
	printf '%s\n' "listener 1883 $SERVER" "listener 8883 $SERVER" "certfile $DIR/cert.pem" "keyfile $DIR/key.pem" \
		>mosquitto.conf
	printf '%s\n' "allow_anonymous true" "log_dest file $DIR/mosquitto.log" "log_type all" >>mosquitto.conf
	start_under a mosquitto -c "$DIR/mosquitto.conf"
	mosquitto=$!
	listening a 8883
	for qos in 0 1 2; do
		hear "qos$qos" 500 -t news -q $qos
		pid=$!
		seq 1 500 | pub -t news -q $qos -l
		wait "$pid"
		result "qos$qos" "$? $(sha256sum <"qos$qos.heard")"
	done
	random_file large 3000
	hear large 1 -t large -q 1 -N
	pid=$!
	pub -t large -q 1 -f large
	wait "$pid"
	same large large.heard large
	pub -t kept -r -m "retained message"
	result retained "$(under b mosquitto_sub -h "$SERVER" -p 1883 -t kept -C 1 -W 10)"
	result tls "$(under b mosquitto_sub -h "$SERVER" -p 8883 --cafile cert.pem -t kept -C 1 -W 10)"
	hear will 1 -t wills
	pid=$!
	before=$(grep -c SUBSCRIBE mosquitto.log)
	start_under b mosquitto_sub -h "$SERVER" -p 1883 -t other --will-topic wills --will-payload gone
	local dying=$!
	until_true 20 subscribed "$before"
	kill -KILL "$dying"
	wait "$pid"
	result will "$? $(cat will.heard)"
	printf '%s\n' "listener 1884 $CLIENT" "allow_anonymous true" "connection c" "address $SERVER:1883" \
		"topic # both 1" "restart_timeout 1" "log_dest file $DIR/bridge.log" >bridge.conf
	start_under b mosquitto -c "$DIR/bridge.conf"
	bridge=$!
	listening b 1884
	result bridge "$(under b mosquitto_sub -h "$CLIENT" -p 1884 -t kept -C 1 -W 20)"
	stop "$bridge"
	result bridge.ends "$STATUS"
	stop "$mosquitto"
	result mosquitto.ends "$STATUS"
}
