/* SPDX-License-Identifier: MIT */
#include "tests/lib/cmfix.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

const uint8_t cmfix_own[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, 1 };
const uint8_t cmfix_own_second[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, 11 };
const uint8_t cmfix_peer[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, 2 };
const uint8_t cmfix_other[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, 3 };

static int listener;

/* ---- what the machine calls */

static void on_send(void *ctx, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		    const uint8_t mad[IBCM_MAD_LEN])
{
	struct cmfix *fix = ctx;
	struct cmfix_mad *at = &fix->sent[fix->num_sent++];
	assert_true(fix->num_sent <= CMFIX_SENT);
	memcpy(at->local_gid, local_gid, 16);
	memcpy(at->peer_gid, peer_gid, 16);
	memcpy(at->bytes, mad, IBCM_MAD_LEN);
	at->first_qp = fix->qps[0].state;
	assert_int_equal(ibcm_decode(mad, IBCM_MAD_LEN, &at->msg), 0);
}

static void on_random(void *ctx, void *buf, size_t len)
{
	struct cmfix *fix = ctx;
	random_bytes(&fix->random, buf, len);
}

static bool on_may_use(void *ctx, const struct cm_addr *local, const struct cm_addr *peer)
{
	struct cmfix *fix = ctx;
	assert_int_equal(local->family, peer->family);
	return !fix->stranger;
}

static void *on_find_listener(void *ctx, const struct cm_addr *local)
{
	struct cmfix *fix = ctx;
	return local->port == fix->port ? &listener : NULL;
}

static int on_qp_connect(void *ctx, void *qp, const struct cm_machine_qp *how)
{
	struct cmfix *fix = ctx;
	struct cmfix_qp *own = qp;
	if (fix->fail_connect)
		return -EINVAL;
	assert_int_equal(own->state, CMFIX_INIT);
	own->state = CMFIX_RTR;
	own->how = *how;
	return 0;
}

static int on_qp_start(void *ctx, void *qp, const struct cm_machine_qp *how)
{
	struct cmfix *fix = ctx;
	struct cmfix_qp *own = qp;
	if (fix->fail_start)
		return -EINVAL;
	assert_int_equal(own->state, CMFIX_RTR);
	assert_memory_equal(&own->how, how, sizeof(*how));
	own->state = CMFIX_RTS;
	return 0;
}

static void on_qp_error(void *ctx, void *qp)
{
	struct cmfix_qp *own = qp;
	(void)ctx;
	own->state = CMFIX_ERR;
}

static void on_event(void *ctx, struct cm_machine_conn *conn, void *conn_ctx,
		     const struct cm_event *event)
{
	struct cmfix *fix = ctx;
	struct cmfix_event *at = &fix->events[fix->num_events++];
	assert_true(fix->num_events <= CMFIX_EVENTS);
	*at = (struct cmfix_event){ .conn = conn, .ctx = conn_ctx, .event = *event };
	memcpy(at->private_data, event->private_data, event->private_len);
	if (event->text)
		memcpy(at->text, event->text, strlen(event->text) + 1);
	at->event.private_data = at->private_data;
	at->event.text = at->text;
	if (fix->on_event)
		fix->on_event(fix, at);
}

static void on_refused(void *ctx, const struct cm_addr *local, const struct cm_addr *peer,
		       uint16_t reason, const char *text)
{
	struct cmfix *fix = ctx;
	assert_int_equal(local->family, AF_INET);
	assert_int_equal(peer->family, AF_INET);
	assert_non_null(text);
	fix->refused++;
	fix->refused_reason = reason;
	fix->refused_port = peer->port;
}

static const struct cm_machine_ops ops = {
	.send = on_send,
	.random = on_random,
	.may_use = on_may_use,
	.find_listener = on_find_listener,
	.qp_connect = on_qp_connect,
	.qp_start = on_qp_start,
	.qp_error = on_qp_error,
	.event = on_event,
	.refused = on_refused,
};

/* ---- life */

void cmfix_set_mtu(struct cmfix *fix, uint8_t max_path_mtu)
{
	struct rnic_info info = {
		.mac = { 0x52, 0x54, 0, 0, 0, 1 },
		.max_path_mtu = max_path_mtu,
		.max_reads_answered = 16,
		.max_reads_asked = 16,
		.num_gids = 3,
		.gids = { { .type = RNIC_GID_ROCE_V1 },
			  { .type = RNIC_GID_ROCE_V2 },
			  { .type = RNIC_GID_ROCE_V2 } },
	};
	memcpy(info.gids[1].raw, cmfix_own, 16);
	memcpy(info.gids[2].raw, cmfix_own_second, 16);
	cm_machine_set_rnic(fix->machine, &info);
}

struct cmfix *cmfix_new(const struct cm_limits *limits)
{
	struct cmfix *fix = calloc(1, sizeof(*fix));
	assert_non_null(fix);
	fix->random.state = 42;
	fix->now = CMFIX_SECOND;
	struct cm_machine_params params = { .ops = &ops, .ctx = fix, .now = fix->now };
	if (limits)
		params.limits = *limits;
	assert_int_equal(cm_machine_new(&params, &fix->machine), 0);
	for (unsigned int i = 0; i < CMFIX_QPS; i++)
		fix->qps[i].qpn = 0x777 + i;
	fix->port = CMFIX_PORT;
	cmfix_set_mtu(fix, 3);
	return fix;
}

void cmfix_free(struct cmfix *fix)
{
	struct cm_machine_sizes sizes;
	cmfix_pass(fix, 600 * CMFIX_SECOND);
	cm_machine_get_sizes(fix->machine, &sizes);
	assert_int_equal(sizes.conns + sizes.leaving, 0);
	assert_int_equal(sizes.time_wait, 0);
	assert_int_equal(sizes.peers, 0);
	assert_true(cm_machine_deadline(fix->machine) == UINT64_MAX);
	cm_machine_free(fix->machine);
	free(fix);
}

/* ---- messages */

struct ibcm_msg cmfix_req(void)
{
	struct ibcm_msg msg = {
		.type = IBCM_REQ,
		.transaction_id = 0x1122334455667788,
		.local_id = 0x1001,
		.req = {
			.service_id = IBCM_SERVICE_TCP + CMFIX_PORT,
			.ca_guid = 0x505400fffe000002,
			.qpn = 0x11,
			.responder_resources = 4,
			.initiator_depth = 2,
			.remote_timeout = 20,
			.starting_psn = 0x123456,
			.local_timeout = 20,
			.retry_count = 7,
			.pkey = 0xFFFF,
			.path_mtu = 3,
			.rnr_retry = 6,
			.max_cm_retries = 15,
			.primary = { .local_lid = 0xFFFF, .remote_lid = 0xFFFF, .hop_limit = 64,
				     .ack_timeout = 17 },
		},
	};
	const struct ibcm_ip ip = { .version = 4,
				    .source_port = 0x9999,
				    .source = { 10, 0, 0, 2 },
				    .destination = { 10, 0, 0, 1 } };
	memcpy(msg.req.primary.local_gid, cmfix_peer, 16);
	memcpy(msg.req.primary.remote_gid, cmfix_own, 16);
	assert_int_equal(ibcm_ip_encode(&ip, msg.private_data), 0);
	memcpy(msg.private_data + IBCM_IP_LEN, "asked", 5);
	return msg;
}

struct ibcm_msg cmfix_rep(const struct ibcm_msg *req)
{
	struct ibcm_msg msg = cmfix_about(IBCM_REP, req->transaction_id, 0x2002, req->local_id);
	msg.rep.qpn = 0x22;
	msg.rep.starting_psn = 0x654321;
	msg.rep.responder_resources = 3;
	msg.rep.initiator_depth = 5;
	msg.rep.ack_delay = 15;
	msg.rep.rnr_retry = 4;
	memcpy(msg.private_data, "accepted", 8);
	return msg;
}

struct ibcm_msg cmfix_about(enum ibcm_type type, uint64_t transaction_id, uint32_t peer_id,
			    uint32_t own_id)
{
	return (struct ibcm_msg){ .type = type,
				  .transaction_id = transaction_id,
				  .local_id = peer_id,
				  .remote_id = own_id };
}

void cmfix_receive(struct cmfix *fix, const uint8_t from[16], const struct ibcm_msg *msg)
{
	uint8_t mad[IBCM_MAD_LEN];
	assert_int_equal(ibcm_encode(msg, mad), 0);
	cm_machine_receive(fix->machine, cmfix_own, from, mad, sizeof(mad), fix->now);
	cmfix_run(fix);
}

const struct cmfix_mad *cmfix_sent(struct cmfix *fix, enum ibcm_type type)
{
	assert_true(fix->num_taken < fix->num_sent);
	const struct cmfix_mad *mad = &fix->sent[fix->num_taken++];
	assert_string_equal(ibcm_type_name(mad->msg.type), ibcm_type_name(type));
	return mad;
}

void cmfix_silent(const struct cmfix *fix)
{
	assert_int_equal(fix->num_taken, fix->num_sent);
}

const struct cmfix_event *cmfix_event(struct cmfix *fix, enum cm_event_type type)
{
	assert_true(fix->num_seen < fix->num_events);
	const struct cmfix_event *event = &fix->events[fix->num_seen++];
	assert_int_equal(event->event.type, type);
	return event;
}

void cmfix_no_event(const struct cmfix *fix)
{
	assert_int_equal(fix->num_seen, fix->num_events);
}

void cmfix_run(struct cmfix *fix)
{
	while (cm_machine_deadline(fix->machine) <= fix->now)
		cm_machine_run(fix->machine, fix->now);
}

void cmfix_pass(struct cmfix *fix, uint64_t us)
{
	uint64_t end = fix->now + us, next;
	while ((next = cm_machine_deadline(fix->machine)) <= end) {
		if (next > fix->now)
			fix->now = next;
		cmfix_run(fix);
	}
	fix->now = end;
	cm_machine_set_time(fix->machine, end);
}

/* ---- users */

struct cm_offer cmfix_offer(const char *text)
{
	return (struct cm_offer){ .reads_answered = 8,
				  .reads_asked = 8,
				  .rnr_retry = 5,
				  .private_data = text,
				  .private_len = text ? strlen(text) : 0 };
}

struct cm_machine_own_qp cmfix_own_qp(struct cmfix *fix, unsigned int qp)
{
	assert_true(qp < CMFIX_QPS);
	return (struct cm_machine_own_qp){ .qp = &fix->qps[qp],
					   .qpn = fix->qps[qp].qpn,
					   .retry_ms = 1234 };
}

int cmfix_connect(struct cmfix *fix, struct cm_machine_conn **ret_conn)
{
	const struct cm_machine_connect_params params = {
		.local = { .family = AF_INET, .addr = { 10, 0, 0, 1 } },
		.peer = { .family = AF_INET, .addr = { 10, 0, 0, 2 }, .port = 4711 },
		.qp = cmfix_own_qp(fix, 0),
		.offer = cmfix_offer("please"),
		.conn_ctx = fix,
	};
	return cm_machine_connect(fix->machine, &params, ret_conn);
}

struct cm_machine_conn *cmfix_active(struct cmfix *fix, struct ibcm_msg *ret_req)
{
	struct cm_machine_conn *conn;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	*ret_req = cmfix_sent(fix, IBCM_REQ)->msg;
	struct ibcm_msg rep = cmfix_rep(ret_req);
	cmfix_receive(fix, cmfix_peer, &rep);
	cmfix_sent(fix, IBCM_RTU);
	cmfix_event(fix, CM_CONNECTED);
	return conn;
}

struct cm_machine_conn *cmfix_passive(struct cmfix *fix, const struct ibcm_msg *req,
				      unsigned int qp, struct ibcm_msg *ret_rep)
{
	const struct cm_machine_own_qp own = cmfix_own_qp(fix, qp);
	const struct cm_offer offer = cmfix_offer("welcome");
	cmfix_receive(fix, req->req.primary.local_gid, req);
	struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
	assert_int_equal(cm_machine_accept(conn, &own, &offer, fix), 0);
	*ret_rep = cmfix_sent(fix, IBCM_REP)->msg;
	return conn;
}
