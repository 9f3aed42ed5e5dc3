/* SPDX-License-Identifier: MIT */
/* The connection manager's machine with peers that say anything and users that do anything. The
 * input is a list of steps: messages, made right and then changed, about connections that there
 * are; calls of users; time. Users are told once of each thing, a message brings one answer at
 * most, and a question at most whether a connection is known; in the end nothing is left. */
#include <netinet/in.h>

#include "daemon/cm/machine.h"
#include "proto/ibcm/ip.h"
#include "tests/fuzz/records.h"

enum {
	MAX_CONNS = 64,
	MAX_SENT = 16, /* messages of the machine that are kept */
	PORT = 445,
};

struct user {
	struct cm_machine_conn *conn; /* NULL: free */
	bool answered, connected, ended;
	int qp; /* the queue pair that the machine gets a pointer to */
};

static struct run {
	struct cm_machine *machine;
	uint64_t now, random;
	struct user users[MAX_CONNS];
	uint8_t sent[MAX_SENT][IBCM_MAD_LEN];
	unsigned int num_sent, num_answers;
	bool running, fail;
} run;

static int listeners[2];

static void gid_of(uint8_t host, uint8_t ret_gid[16])
{
	const uint8_t gid[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, host };
	memcpy(ret_gid, gid, sizeof(gid));
}

/* ---- what the machine calls */

static void on_send(void *ctx, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		    const uint8_t mad[IBCM_MAD_LEN])
{
	struct ibcm_msg msg;
	(void)ctx;
	must(local_gid[15] <= 2 && peer_gid[12] == 10);
	must(ibcm_decode(mad, IBCM_MAD_LEN, &msg) == 0);
	memcpy(run.sent[run.num_sent++ % MAX_SENT], mad, IBCM_MAD_LEN);
	/* A DREQ to no queue pair is the question (CM-23). */
	run.num_answers += msg.type != IBCM_DREQ || msg.dreq_qpn != 0;
}

static void on_random(void *ctx, void *buf, size_t len)
{
	uint8_t *bytes = buf;
	(void)ctx;
	while (len-- > 0) {
		run.random = run.random * 6364136223846793005u + 1442695040888963407u;
		*bytes++ = (uint8_t)(run.random >> 56);
	}
}

static bool on_may_use(void *ctx, const struct cm_addr *local, const struct cm_addr *peer)
{
	(void)ctx;
	(void)local;
	return peer->addr[3] != 9;
}

static void *on_find_listener(void *ctx, const struct cm_addr *local)
{
	(void)ctx;
	return local->port >= PORT && local->port <= PORT + 1 ? &listeners[local->port - PORT]
							      : NULL;
}

static int on_qp(void *ctx, void *qp, const struct cm_machine_qp *how)
{
	(void)ctx;
	must(*(int *)qp >= 0 && how->peer_qpn >= 2 && how->peer_qpn < 1 << 24);
	must(how->path_mtu >= 1 && how->path_mtu <= 3 && how->rnr_retry <= 7);
	must(how->reads_asked <= 16 && how->reads_answered <= 16);
	must(how->rq_psn < 1 << 24 && how->sq_psn < 1 << 24);
	return run.fail ? -1 : 0;
}

static void on_qp_error(void *ctx, void *qp)
{
	(void)ctx;
	must(*(int *)qp >= 0); /* not freed */
}

static struct user *user_of(struct cm_machine_conn *conn)
{
	for (int i = 0; i < MAX_CONNS; i++) {
		if (run.users[i].conn == conn)
			return &run.users[i];
	}
	return NULL;
}

static void on_event(void *ctx, struct cm_machine_conn *conn, void *conn_ctx,
		     const struct cm_event *event)
{
	struct user *user = user_of(event->type == CM_REQUEST ? NULL : conn);
	(void)ctx;
	must(run.running);
	if (event->type == CM_REQUEST) {
		must(conn_ctx == &listeners[0] || conn_ctx == &listeners[1]);
		must(event->private_len == CM_REQUEST_PRIVATE_MAX);
		if (!user) {
			cm_machine_conn_free(conn);
			return;
		}
		*user = (struct user){ .conn = conn };
		cm_machine_conn_set_ctx(conn, user);
		return;
	}
	must(user && conn_ctx == user && !user->ended);
	if (event->type == CM_CONNECTED) {
		must(user->answered && !user->connected);
		user->connected = true;
	} else {
		must(event->end != CM_END_NONE && event->text && *event->text);
		user->ended = true;
	}
}

static const struct cm_machine_ops ops = {
	.send = on_send,
	.random = on_random,
	.may_use = on_may_use,
	.find_listener = on_find_listener,
	.qp_connect = on_qp,
	.qp_start = on_qp,
	.qp_error = on_qp_error,
	.event = on_event,
};

/* ---- messages */

static void pump(void)
{
	run.running = true;
	while (cm_machine_deadline(run.machine) <= run.now)
		cm_machine_run(run.machine, run.now);
	run.running = false;
}

static void receive(uint8_t from, const uint8_t *mad, size_t len)
{
	uint8_t own[16], peer[16];
	uint8_t *copy = malloc(len ? len : 1);
	must(copy);
	memcpy(copy, mad, len);
	gid_of(1, own);
	gid_of(from, peer);
	run.num_answers = 0;
	cm_machine_receive(run.machine, own, peer, copy, len, run.now);
	must(run.num_answers <= 1);
	free(copy);
	pump();
}

static void make_req(const struct record *step, struct ibcm_msg *msg)
{
	const struct ibcm_ip ip = { .version = 4,
				    .source_port = step->small,
				    .source = { 10, 0, 0, 2 },
				    .destination = { 10, 0, 0, 1 } };
	msg->local_id = step->small % 32;
	msg->remote_id = 0;
	msg->req = (struct ibcm_req){
		.service_id = IBCM_SERVICE_TCP + PORT + step->large % 3,
		.qpn = 2 + (step->small >> 5) % 32,
		.responder_resources = (uint8_t)(step->large >> 8),
		.initiator_depth = (uint8_t)(step->large >> 16),
		.local_timeout = step->large >> 24 & 31,
		.pkey = 0xFFFF,
		.path_mtu = 1 + (step->small >> 10) % 3,
		.max_cm_retries = step->small >> 12,
	};
	gid_of(step->who % 4, msg->req.primary.local_gid);
	gid_of(1, msg->req.primary.remote_gid);
	must(ibcm_ip_encode(&ip, msg->private_data) == 0);
}

/* A message of any type about a connection that there is, with its ids. */
static void make_msg(const struct record *step, struct ibcm_msg *msg)
{
	struct cm_conn_view view = { 0 };
	const struct user *user = &run.users[step->small % MAX_CONNS];
	if (user->conn)
		cm_machine_conn_view(user->conn, &view);
	*msg = (struct ibcm_msg){
		.type = IBCM_REQ + (step->what >> 4) % 9,
		.transaction_id = step->large,
		.local_id = view.peer_id,
		.remote_id = view.local_id,
	};
	switch (msg->type) {
	case IBCM_REQ: make_req(step, msg); break;
	case IBCM_MRA:
		msg->mra.subject = step->large % 3;
		msg->mra.service_timeout = step->large >> 2 & 31;
		break;
	case IBCM_REJ:
		msg->rej.subject = step->large % 3;
		msg->rej.reason = (uint16_t)(step->large >> 2 & 31);
		if (step->large >> 8 & 1)
			msg->remote_id = 0;
		break;
	case IBCM_REP:
		msg->rep.qpn = step->large % 64;
		msg->rep.responder_resources = (uint8_t)(step->large >> 8);
		msg->rep.rnr_retry = step->large >> 16 & 7;
		if (!msg->local_id)
			msg->local_id = step->large >> 20;
		break;
	case IBCM_DREQ: msg->dreq_qpn = view.local_qpn + (step->large % 8 == 7); break;
	default: break;
	}
}

static void send_msg(const struct record *step, bool change)
{
	struct ibcm_msg msg;
	uint8_t mad[IBCM_MAD_LEN];
	make_msg(step, &msg);
	must(ibcm_encode(&msg, mad) == 0);
	if (change)
		mad[step->large >> 24] ^= (uint8_t)(step->large >> 16);
	receive(step->who % 4, mad, sizeof(mad));
}

/* One that the machine has sent comes back to it, perhaps changed or cut. */
static void reflect(const struct record *step)
{
	uint8_t mad[IBCM_MAD_LEN];
	memcpy(mad, run.sent[step->small % MAX_SENT], sizeof(mad));
	for (int i = 0; i < 4; i++)
		mad[step->large >> 24] ^= (uint8_t)(step->large >> 8 * i);
	receive(step->who % 4, mad, step->what & 0x80 ? step->large % 257 : sizeof(mad));
}

/* ---- users */

static struct cm_offer offer_of(const struct record *step)
{
	return (struct cm_offer){ .reads_answered = (uint8_t)step->large,
				  .reads_asked = (uint8_t)(step->large >> 8),
				  .rnr_retry = step->large >> 16 & 7 };
}

static void ask(const struct record *step)
{
	struct user *user = user_of(NULL);
	struct cm_machine_connect_params params = {
		.local = { .family = AF_INET, .addr = { 10, 0, 0, 1 } },
		.peer = { .family = AF_INET, .addr = { 10, 0, 0, step->who % 4 }, .port = PORT },
		.offer = offer_of(step),
		.timeout_ms = step->small,
		.conn_ctx = user,
	};
	if (!user)
		return;
	*user = (struct user){ .answered = true };
	params.qp = (struct cm_machine_own_qp){ &user->qp, 2 + step->small % 4096, 1 };
	if (cm_machine_connect(run.machine, &params, &user->conn) < 0)
		user->conn = NULL;
}

static void forget(struct user *user)
{
	cm_machine_conn_free(user->conn);
	user->conn = NULL;
	user->qp = -1;
}

static void use(const struct record *step)
{
	struct user *user = &run.users[step->small % MAX_CONNS];
	const struct cm_offer offer = offer_of(step);
	const struct cm_machine_own_qp own = { &user->qp, 2 + step->small % 4096, 1 };
	if (!user->conn)
		return;
	switch (step->who % 6) {
	case 0:
	case 1:
		if (cm_machine_accept(user->conn, &own, &offer, user) == 0) {
			must(!user->answered);
			user->answered = true;
		}
		break;
	case 2:
		cm_machine_reject(user->conn, &step->large, sizeof(step->large));
		user->conn = NULL;
		user->qp = -1;
		break;
	case 3: cm_machine_disconnect(user->conn); break;
	case 4: forget(user); break;
	case 5: cm_machine_heard(user->conn); break;
	}
}

/* ---- all together */

static void set_rnic(unsigned int num_gids)
{
	struct rnic_info info = { .max_path_mtu = 3,
				  .max_reads_answered = 16,
				  .max_reads_asked = 16,
				  .num_gids = num_gids };
	for (unsigned int i = 0; i < num_gids; i++) {
		info.gids[i].type = RNIC_GID_ROCE_V2;
		gid_of((uint8_t)(i + 1), info.gids[i].raw);
	}
	cm_machine_set_rnic(run.machine, &info);
}

static void pass(uint64_t us)
{
	uint64_t end = run.now + us, next;
	while ((next = cm_machine_deadline(run.machine)) <= end) {
		if (next > run.now)
			run.now = next;
		pump();
	}
	run.now = end;
	cm_machine_set_time(run.machine, end);
}

static void do_step(const struct record *step)
{
	switch (step->what % 8) {
	case 0:
	case 1: send_msg(step, false); break;
	case 2: send_msg(step, true); break;
	case 3: reflect(step); break;
	case 4: ask(step); break;
	case 5: use(step); break;
	case 6: pass((uint64_t)step->small << step->who % 12); break;
	case 7:
		run.fail = step->who & 1;
		if (step->who == 0xFF)
			cm_machine_close(run.machine);
		else if (step->who & 2)
			cm_machine_listener_gone(run.machine, &listeners[step->who >> 2 & 1]);
		else if (step->who & 8)
			set_rnic(step->small % 3);
		break;
	}
	if (step->what & 8) /* else, what is due waits */
		pump();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct records records = { data, size };
	struct record step;
	struct cm_machine_sizes sizes;
	run = (struct run){ .now = 1, .random = 1 };
	const struct cm_machine_params params = {
		.ops = &ops,
		.limits = { .conns = 24, .conns_per_peer = 12, .requests_per_peer = 6 },
	};
	must(cm_machine_new(&params, &run.machine) == 0);
	set_rnic(2);
	for (int i = 0; i < RECORDS_MOST && record_next(&records, &step); i++)
		do_step(&step);
	for (int i = 0; i < MAX_CONNS; i++) {
		if (run.users[i].conn)
			forget(&run.users[i]);
	}
	pass(UINT64_C(1000000000)); /* also what was on its way to a user */
	for (int i = 0; i < MAX_CONNS; i++) {
		if (run.users[i].conn)
			forget(&run.users[i]);
	}
	pass(UINT64_C(1000000000));
	cm_machine_get_sizes(run.machine, &sizes);
	must(!sizes.conns && !sizes.leaving && !sizes.time_wait && !sizes.peers);
	must(cm_machine_deadline(run.machine) == UINT64_MAX);
	cm_machine_free(run.machine);
	return 0;
}
