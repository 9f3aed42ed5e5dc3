/* SPDX-License-Identifier: MIT */
/* Queue pair 1 of a soft RNIC, and the connection manager above it, against hosts that send
 * anything. The input is a list of datagrams, which are bytes as they are, or messages that are
 * nearly right, of calls of users, and of runs of the event loop. Datagrams have a valid ICRC most
 * of the time, or else they would be dropped early. Each connection has to get its events in order
 * and once, and nothing may be left at the end. Needs root. */
#include <errno.h>
#include <event2/event.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/cm/internal.h"
#include "daemon/rnic/soft/internal.h"
#include "proto/ibcm/ip.h"
#include "proto/roce/roce.h"
#include "tests/fuzz/fuzz.h"

#define PORT   445
#define USERS  4 /* connections at a time that have a queue pair */
#define HEADER (ROCE_BTH_LEN + ROCE_DETH_LEN)
#define LEN    (HEADER + IBCM_MAD_LEN + ROCE_ICRC_LEN)
#define SEEN   8

static struct event_base *base;
static struct rnic *rnic;
static struct rnic_pd *pd;

struct user {
	struct cm_conn *conn; /* NULL: this place is free */
	struct rnic_qp *qp;
	bool connected, ended;
};

static struct run {
	const uint8_t *data;
	size_t left;
	struct cm *cm;
	struct cm_listener *listener;
	struct user users[USERS];
	uint8_t manners;            /* of the listener */
	struct ibcm_msg seen[SEEN]; /* what was sent last; a ring */
	unsigned int num_seen;
} run;

static void open_device(void)
{
	char error[RNIC_ERROR_LEN];
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;
	if (unshare(CLONE_NEWNET) || (fd = socket(AF_INET, SOCK_DGRAM, 0)) < 0 ||
	    ioctl(fd, SIOCSIFFLAGS, &ifr)) {
		perror("fuzz_gsi: network namespace (root is needed)");
		exit(1);
	}
	close(fd);
	base = event_base_new();
	const struct rnic_open_params params = { .base = base };
	if (rnic_open("soft:lo", &params, &rnic, error)) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	must(rnic_pd_alloc(rnic, &pd) == 0);
}

static uint8_t take8(void)
{
	if (run.left == 0)
		return 0;
	run.left--;
	return *run.data++;
}

/* ---- users */

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

/* @return NULL: there are enough */
static struct user *new_user(void)
{
	const struct rnic_qp_params params = { .send_depth = 1,
					       .recv_depth = 1,
					       .user_receives = true,
					       .on_completion = on_completion };
	for (size_t i = 0; i < USERS; i++) {
		struct user *user = &run.users[i];
		if (user->conn)
			continue;
		*user = (struct user){ 0 };
		must(rnic_qp_create(pd, &params, &user->qp) == 0);
		return user;
	}
	return NULL;
}

static void forget(struct user *user)
{
	if (!user->conn)
		return;
	cm_conn_free(user->conn);
	user->conn = NULL;
	rnic_qp_destroy(user->qp);
}

static void read_private(const struct cm_event *event)
{
	/* Every byte, so that the address sanitizer sees a wrong length. */
	volatile uint8_t sum = 0;
	must(event->private_len <= CM_PRIVATE_MAX);
	for (size_t i = 0; i < event->private_len; i++)
		sum = (uint8_t)(sum + event->private_data[i]);
}

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct user *user = ctx;
	must(user->conn == conn && !user->ended);
	read_private(event);
	if (event->type == CM_CONNECTED) {
		must(!user->connected);
		user->connected = true;
		if (run.manners & 4)
			cm_disconnect(conn);
	} else {
		must(event->type == CM_ENDED && event->end != CM_END_NONE && *event->text);
		user->ended = true;
		if (run.manners & 8)
			forget(user);
	}
}

/* Of a request, before a user has it. */
static void on_request(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	const struct cm_offer offer = { .reads_answered = 4, .rnr_retry = 7 };
	char error[CM_ERROR_LEN];
	(void)ctx;
	must(event->type == CM_REQUEST);
	read_private(event);
	struct user *user = run.manners & 1 ? new_user() : NULL;
	if (!user) {
		cm_reject(conn, "no", run.manners & 2 ? 2 : 0);
		return;
	}
	user->conn = conn;
	if (cm_accept(conn, user->qp, &offer, 1000, on_event, user, error) < 0)
		forget(user);
}

static void ask(uint8_t peer)
{
	struct user *user = new_user();
	char error[CM_ERROR_LEN];
	if (!user)
		return;
	const struct cm_connect_params params = {
		.rnic = rnic,
		.local = { .family = AF_INET, .addr = { 127, 0, 0, 1 } },
		.peer = { .family = AF_INET, .addr = { 127, 0, 0, peer }, .port = PORT },
		.qp = user->qp,
		.offer = { .rnr_retry = 7 },
		.fn = on_event,
		.ctx = user,
	};
	/* Those that were freed count until their peers have answered. */
	const int r = cm_connect(run.cm, &params, &user->conn, error);
	must(r == 0 || r == -EAGAIN);
	if (r < 0)
		rnic_qp_destroy(user->qp);
}

static void use(uint8_t what)
{
	struct user *user = &run.users[what % USERS];
	if (!user->conn) {
		ask((uint8_t)(2 + (what >> 2 & 1)));
		return;
	}
	switch (what >> 4 & 3) {
	case 0: cm_conn_heard(user->conn); break;
	case 1: cm_disconnect(user->conn); break;
	default: forget(user); break;
	}
}

/* ---- hosts that send */

static void on_message(void *ctx, const struct cm_message *message)
{
	(void)ctx;
	if (message->sent)
		must(ibcm_decode(message->mad, IBCM_MAD_LEN, &run.seen[run.num_seen++ % SEEN]) ==
		     0);
}

static void feed(const uint8_t *buf, size_t len, uint8_t peer)
{
	struct soft_endpoint *ep = soft_device_of(rnic)->endpoints;
	const struct sockaddr_in from = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(0x7F000000u | peer),
					  .sin_port = htons(ROCE_UDP_PORT) };
	uint8_t *exact = malloc(len ? len : 1);
	must(exact != NULL);
	if (len)
		memcpy(exact, buf, len);
	soft_rx_packet(ep, &(struct soft_arrival){ .from = &from }, exact, len, 0);
	free(exact);
}

static void seal(uint8_t *buf, size_t len, uint8_t peer)
{
	const struct roce_flow flow = { .saddr = htonl(0x7F000000u | peer),
					.daddr = htonl(INADDR_LOOPBACK),
					.sport = htons(ROCE_UDP_PORT),
					.dport = htons(ROCE_UDP_PORT) };
	uint32_t crc = roce_icrc_begin(&flow, len, 0, buf, HEADER);
	crc = roce_icrc_update(crc, buf + HEADER, len - HEADER - ROCE_ICRC_LEN);
	roce_icrc_put(crc, buf + len - ROCE_ICRC_LEN);
}

static void put_headers(uint8_t *buf)
{
	const struct roce_bth bth = { .opcode = ROCE_UD_SEND_ONLY,
				      .pkey = ROCE_PKEY_DEFAULT,
				      .dest_qp = 1 };
	const union roce_ext ext = { .deth = { .qkey = 0x80010000u, .src_qp = 1 } };
	roce_encode_bth(&bth, buf);
	roce_encode_ext(bth.opcode, &ext, buf + ROCE_BTH_LEN);
}

/* Bytes as they are, of any length. */
static void raw(uint8_t peer)
{
	uint8_t buf[LEN + 64];
	const uint8_t flags = take8();
	size_t len = flags & 0x80 ? LEN : (size_t)take8() + (flags & 0x3F);
	for (size_t i = 0; i < len; i++)
		buf[i] = take8();
	if (flags & 0x40 && len >= HEADER + ROCE_ICRC_LEN)
		put_headers(buf);
	if (len >= HEADER + ROCE_ICRC_LEN)
		seal(buf, len, peer);
	feed(buf, len, peer);
}

/* A REQ, or a message about what was sent. */
static struct ibcm_msg message(uint8_t peer)
{
	static const enum ibcm_type types[] = { IBCM_REQ, IBCM_MRA,  IBCM_REJ,  IBCM_REP,
						IBCM_RTU, IBCM_DREQ, IBCM_DREP, IBCM_SIDR_REQ };
	const uint8_t what = take8();
	const struct ibcm_msg *about = &run.seen[what >> 5];
	struct ibcm_msg msg = { .type = types[what & 7],
				.transaction_id = about->transaction_id,
				.local_id = about->remote_id ? about->remote_id : what,
				.remote_id = about->local_id };
	if (msg.type == IBCM_REP) {
		msg.rep.qpn = 0x10 + take8() % 4;
		msg.rep.responder_resources = what;
	} else if (msg.type == IBCM_DREQ) {
		if (about->type == IBCM_REQ || about->type == IBCM_REP)
			msg.dreq_qpn = about->type == IBCM_REQ ? about->req.qpn : about->rep.qpn;
	} else if (msg.type == IBCM_REQ) {
		const struct ibcm_ip ip = { .version = 4,
					    .source = { 127, 0, 0, peer },
					    .destination = { 127, 0, 0, 1 } };
		const struct ibcm_path path = {
			.local_gid = { [10] = 0xFF, 0xFF, 127, 0, 0, peer },
			.remote_gid = { [10] = 0xFF, 0xFF, 127, 0, 0, 1 },
		};
		const uint8_t number = take8();
		msg.local_id = 0x1000u + (number & 7);
		msg.req = (struct ibcm_req){ .service_id = IBCM_SERVICE_TCP + PORT,
					     .qpn = 0x10u + (number >> 3 & 7),
					     .responder_resources = what,
					     .initiator_depth = number,
					     .pkey = 0xFFFF,
					     .path_mtu = 1,
					     .rnr_retry = 7,
					     .primary = path };
		must(ibcm_ip_encode(&ip, msg.private_data) == 0);
	}
	return msg;
}

/* One that is nearly right: some of its bytes are others. */
static void nearly(uint8_t peer)
{
	uint8_t buf[LEN] = { 0 };
	const struct ibcm_msg msg = message(peer);
	put_headers(buf);
	must(ibcm_encode(&msg, buf + HEADER) == 0);
	for (uint8_t left = take8() % 4; left > 0; left--) {
		const size_t at = take8();
		buf[at + (take8() & 1 ? HEADER : 0)] ^= take8();
	}
	seal(buf, sizeof(buf), peer);
	feed(buf, sizeof(buf), peer);
}

/* ---- */

static void start(void)
{
	const struct cm_params params = {
		.base = base, .limits = { .conns = 6, .conns_per_peer = 5, .requests_per_peer = 3 }
	};
	const struct cm_addr local = { .family = AF_INET, .port = PORT };
	char error[CM_ERROR_LEN];
	must(cm_new(&params, &run.cm) == 0);
	must(cm_add_rnic(run.cm, rnic, error) == 0);
	cm_set_tap(run.cm, on_message, NULL);
	must(cm_listen(run.cm, &local, on_request, NULL, &run.listener, error) == 0);
}

/* The RNIC goes before the users do, or behind them. */
static void finish(bool rnic_first)
{
	if (rnic_first)
		cm_remove_rnic(run.cm, rnic);
	for (size_t i = 0; i < USERS; i++) {
		must(!rnic_first || !run.users[i].conn || run.users[i].ended);
		forget(&run.users[i]);
	}
	cm_listener_free(run.listener);
	cm_free(run.cm);
	event_base_loop(base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!rnic)
		open_device();
	run = (struct run){ .data = data, .left = size };
	start();
	const bool rnic_first = take8() & 1;
	while (run.left > 0) {
		const uint8_t what = take8();
		const uint8_t peer = (uint8_t)(1 + (what >> 6));
		switch (what & 7) {
		case 0: raw(peer); break;
		case 1: run.manners = take8(); break;
		case 2: use(take8()); break;
		case 3: event_base_loop(base, EVLOOP_NONBLOCK); break;
		default: nearly(peer); break;
		}
		if (what & 8)
			soft_gsi_deliver(soft_device_of(rnic));
		if (what & 16)
			event_base_loop(base, EVLOOP_NONBLOCK);
	}
	soft_gsi_deliver(soft_device_of(rnic));
	event_base_loop(base, EVLOOP_NONBLOCK);
	finish(rnic_first);
	return 0;
}
