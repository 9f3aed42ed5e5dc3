/* SPDX-License-Identifier: MIT */
/* How the connection manager's machine makes connections, from both sides. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/lib/cmfix.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

/* ---- this side asks */

static void a_request_has_the_fields_that_linux_wants(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	struct ibcm_ip ip;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	const struct cmfix_mad *mad = cmfix_sent(fix, IBCM_REQ);
	const struct ibcm_req *req = &mad->msg.req;
	assert_memory_equal(mad->local_gid, cmfix_own, 16);
	assert_memory_equal(mad->peer_gid, cmfix_peer, 16);
	assert_int_not_equal(mad->msg.local_id, 0);
	assert_true(req->service_id == IBCM_SERVICE_TCP + 4711);
	assert_true(req->ca_guid == 0x505400fffe000001);
	assert_int_equal(req->qpn, fix->qps[0].qpn);
	assert_int_equal(req->responder_resources, 8);
	assert_int_equal(req->initiator_depth, 8);
	assert_int_equal(req->remote_timeout, 20);
	assert_int_equal(req->local_timeout, 20);
	assert_int_equal(req->max_cm_retries, 15);
	assert_int_equal(req->retry_count, 7);
	assert_int_equal(req->rnr_retry, 5);
	assert_int_equal(req->pkey, 0xFFFF);
	assert_int_equal(req->path_mtu, 3);
	assert_int_equal(req->transport, 0);
	assert_memory_equal(req->primary.local_gid, cmfix_own, 16);
	assert_memory_equal(req->primary.remote_gid, cmfix_peer, 16);
	assert_int_equal(req->primary.local_lid, 0xFFFF);
	assert_int_equal(req->primary.hop_limit, 64);
	assert_int_equal(req->primary.ack_timeout, 17);
	assert_int_equal(ibcm_ip_decode(mad->msg.private_data, &ip), 0);
	assert_int_equal(ip.version, 4);
	assert_true(ip.source_port >= 0xC000);
	assert_memory_equal(ip.source, ((uint8_t[16]){ 10, 0, 0, 1 }), 16);
	assert_memory_equal(ip.destination, ((uint8_t[16]){ 10, 0, 0, 2 }), 16);
	assert_memory_equal(mad->msg.private_data + IBCM_IP_LEN, "please\0", 7);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-5 CM-6");
}

static void a_rep_connects_and_is_answered_with_rtu(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	struct cm_conn_view view;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg, rep = cmfix_rep(&req);
	cmfix_no_event(fix);
	cmfix_receive(fix, cmfix_peer, &rep);
	const struct cmfix_mad *rtu = cmfix_sent(fix, IBCM_RTU);
	assert_int_equal(rtu->first_qp, CMFIX_RTS);
	assert_int_equal(rtu->msg.local_id, req.local_id);
	assert_int_equal(rtu->msg.remote_id, rep.local_id);
	assert_true(rtu->msg.transaction_id == req.transaction_id);
	const struct cmfix_event *event = cmfix_event(fix, CM_CONNECTED);
	assert_ptr_equal(event->conn, conn);
	assert_ptr_equal(event->ctx, fix);
	assert_int_equal(event->event.reads_answered, 8);
	assert_int_equal(event->event.reads_asked, 3);
	assert_int_equal(event->event.private_len, IBCM_REP_PRIVATE_LEN);
	assert_string_equal(event->private_data, "accepted");
	const struct cm_machine_qp *how = &fix->qps[0].how;
	assert_memory_equal(how->local_gid, cmfix_own, 16);
	assert_memory_equal(how->peer_gid, cmfix_peer, 16);
	assert_int_equal(how->peer_qpn, 0x22);
	assert_int_equal(how->rq_psn, req.req.starting_psn);
	assert_int_equal(how->sq_psn, 0x654321);
	assert_int_equal(how->path_mtu, 3);
	assert_int_equal(how->reads_asked, 3);
	assert_int_equal(how->reads_answered, 8);
	assert_int_equal(how->rnr_retry, 4);
	assert_int_equal(how->retry_ms, 1234);
	cm_machine_conn_view(conn, &view);
	assert_int_equal(view.state, CM_STATE_CONNECTED);
	assert_true(view.active);
	assert_int_equal(view.peer_qpn, 0x22);
	assert_int_equal(view.local_id, req.local_id);
	assert_int_equal(view.peer_id, rep.local_id);
	assert_int_equal(view.peer.port, 4711);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-4 CM-12 CM-13 CM-15 CM-31");
}

static void a_repeated_rep_gets_the_rtu_again(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg, rep = cmfix_rep(&req);
	cmfix_receive(fix, cmfix_peer, &rep);
	const struct cmfix_mad *first = cmfix_sent(fix, IBCM_RTU);
	for (int i = 0; i < 3; i++) {
		cmfix_pass(fix, 10 * CMFIX_SECOND);
		cmfix_receive(fix, cmfix_peer, &rep);
		assert_memory_equal(cmfix_sent(fix, IBCM_RTU)->bytes, first->bytes, IBCM_MAD_LEN);
	}
	cmfix_event(fix, CM_CONNECTED);
	cmfix_no_event(fix);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-4 CM-19");
}

static void an_unanswered_req_is_repeated_until_the_user_gives_up(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	const struct cmfix_mad *first = cmfix_sent(fix, IBCM_REQ);
	for (int i = 0; i < 4; i++) {
		cmfix_pass(fix, CMFIX_REPEAT - 1);
		cmfix_silent(fix);
		cmfix_pass(fix, 1);
		assert_memory_equal(cmfix_sent(fix, IBCM_REQ)->bytes, first->bytes, IBCM_MAD_LEN);
	}
	cmfix_no_event(fix);
	cmfix_pass(fix, CMFIX_REPEAT);
	/* 20 s are over */
	const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
	assert_int_equal(rej->rej.reason, IBCM_REJ_TIMEOUT);
	assert_int_equal(rej->local_id, first->msg.local_id);
	assert_int_equal(rej->rej.info_len, 8);
	assert_memory_equal(rej->rej.info, "\x50\x54\x00\xff\xfe\x00\x00\x01", 8);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_TIMEOUT);
	cmfix_pass(fix, 100 * CMFIX_SECOND);
	cmfix_silent(fix);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-4 CM-18");
}

static void a_req_is_repeated_sixteen_times_at_most(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	const struct cm_machine_connect_params params = {
		.local = { .family = AF_INET, .addr = { 10, 0, 0, 1 }, .port = 1111 },
		.peer = { .family = AF_INET, .addr = { 10, 0, 0, 2 }, .port = 4711 },
		.qp = cmfix_own_qp(fix, 0),
		.offer = cmfix_offer(NULL),
		.timeout_ms = 3600000,
	};
	(void)state;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), 0);
	cmfix_pass(fix, 16 * CMFIX_REPEAT);
	for (int i = 0; i < 16; i++)
		cmfix_sent(fix, IBCM_REQ);
	cmfix_sent(fix, IBCM_REJ);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_TIMEOUT);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-18");
}

static void an_mra_stops_repeats_of_the_req(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg;
	struct ibcm_msg mra = cmfix_about(IBCM_MRA, req.transaction_id, 0x2002, req.local_id);
	mra.mra.subject = IBCM_SUBJECT_REP; /* about another message */
	mra.mra.service_timeout = 21;
	cmfix_receive(fix, cmfix_peer, &mra);
	mra.mra.subject = IBCM_SUBJECT_REQ;
	cmfix_receive(fix, cmfix_peer, &mra);
	cmfix_pass(fix, 2 * CMFIX_REPEAT - 1);
	cmfix_silent(fix);
	cmfix_pass(fix, 1);
	cmfix_sent(fix, IBCM_REQ);
	mra.mra.service_timeout = 31; /* two hours: the user's limit counts */
	cmfix_receive(fix, cmfix_peer, &mra);
	cmfix_pass(fix, 20 * CMFIX_SECOND);
	cmfix_sent(fix, IBCM_REJ);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_TIMEOUT);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-21");
}

static void what_cannot_be_asked_is_refused_at_once(void **state)
{
	const struct cm_limits limits = { .conns = 2 };
	struct cmfix *fix = cmfix_new(&limits);
	struct cm_machine_conn *conn, *other;
	static const uint8_t much[CM_REQUEST_PRIVATE_MAX + 1];
	const struct cm_machine_connect_params sound = {
		.local = { .family = AF_INET, .addr = { 10, 0, 0, 1 } },
		.peer = { .family = AF_INET, .addr = { 10, 0, 0, 2 }, .port = 4711 },
		.qp = cmfix_own_qp(fix, 0),
		.offer = cmfix_offer(NULL),
	};
	struct cm_machine_connect_params params = sound;
	(void)state;
	params.peer.port = 0;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EINVAL);
	params = sound;
	params.peer.family = AF_INET6;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EINVAL);
	params.local.family = AF_INET6;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EADDRNOTAVAIL);
	params.local.family = params.peer.family = AF_UNIX;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EINVAL);
	params = sound;
	params.offer.rnr_retry = 8;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EINVAL);
	params = sound;
	params.offer.private_data = much;
	params.offer.private_len = sizeof(much);
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EINVAL);
	params.offer.private_len--;
	fix->stranger = true;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EACCES);
	fix->stranger = false;
	params.qp.qpn = 1 << 24;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -EINVAL);
	params.qp.qpn = 3;
	cmfix_silent(fix);
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), 0);
	assert_int_equal(cm_machine_connect(fix->machine, &params, &other), 0);
	cm_machine_conn_free(other);
	assert_int_equal(cm_machine_connect(fix->machine, &params, &other), 0);
	struct cm_machine_conn *third;
	assert_int_equal(cm_machine_connect(fix->machine, &params, &third), -EAGAIN);
	cm_machine_conn_free(conn);
	cm_machine_conn_free(other);
	cm_machine_close(fix->machine);
	assert_int_equal(cm_machine_connect(fix->machine, &params, &conn), -ENODEV);
	cmfix_free(fix);
}

static void a_queue_pair_that_fails_ends_the_attempt(void **state)
{
	(void)state;
	for (int start = 0; start < 2; start++) {
		TRIES("%s", start ? "start" : "connect");
		struct cmfix *fix = cmfix_new(NULL);
		struct cm_machine_conn *conn;
		*(start ? &fix->fail_start : &fix->fail_connect) = true;
		assert_int_equal(cmfix_connect(fix, &conn), 0);
		struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg, rep = cmfix_rep(&req);
		cmfix_receive(fix, cmfix_peer, &rep);
		const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
		assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REP);
		assert_int_equal(rej->rej.reason, IBCM_REJ_NO_RESOURCES);
		assert_int_equal(rej->remote_id, rep.local_id);
		assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_LOCAL);
		assert_int_equal(fix->qps[0].state, CMFIX_ERR);
		cm_machine_conn_free(conn);
		cmfix_free(fix);
	}
}

/* ---- the peer asks */

static void a_request_reaches_the_listener_and_is_accepted(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	const struct cm_machine_own_qp own = cmfix_own_qp(fix, 0);
	const struct cm_offer offer = cmfix_offer("welcome");
	struct cm_addr local, peer;
	(void)state;
	cmfix_receive(fix, cmfix_peer, &req);
	const struct cmfix_event *asked = cmfix_event(fix, CM_REQUEST);
	assert_int_equal(asked->event.reads_answered, 2); /* the peer asks for 2 */
	assert_int_equal(asked->event.reads_asked, 4);    /* and answers 4 */
	assert_int_equal(asked->event.private_len, CM_REQUEST_PRIVATE_MAX);
	assert_string_equal(asked->private_data, "asked");
	cm_machine_conn_addrs(asked->conn, &local, &peer);
	assert_memory_equal(local.addr, ((uint8_t[]){ 10, 0, 0, 1 }), 4);
	assert_int_equal(local.port, CMFIX_PORT);
	assert_memory_equal(peer.addr, ((uint8_t[]){ 10, 0, 0, 2 }), 4);
	assert_int_equal(peer.port, 0x9999);
	cmfix_silent(fix);
	assert_int_equal(cm_machine_accept(asked->conn, &own, &offer, &local), 0);
	const struct cmfix_mad *rep = cmfix_sent(fix, IBCM_REP);
	assert_int_equal(rep->first_qp, CMFIX_RTR);
	assert_memory_equal(rep->peer_gid, cmfix_peer, 16);
	assert_int_equal(rep->msg.remote_id, req.local_id);
	assert_true(rep->msg.transaction_id == req.transaction_id);
	assert_int_equal(rep->msg.rep.qpn, own.qpn);
	assert_int_equal(rep->msg.rep.responder_resources, 2);
	assert_int_equal(rep->msg.rep.initiator_depth, 4);
	assert_int_equal(rep->msg.rep.rnr_retry, 5);
	assert_string_equal(rep->msg.private_data, "welcome");
	const struct cm_machine_qp *how = &fix->qps[0].how;
	assert_int_equal(how->peer_qpn, 0x11);
	assert_int_equal(how->sq_psn, 0x123456);
	assert_int_equal(how->rq_psn, rep->msg.rep.starting_psn);
	assert_int_equal(how->path_mtu, 3);
	assert_int_equal(how->rnr_retry, 6);
	assert_int_equal(how->reads_answered, 2);
	assert_int_equal(how->reads_asked, 4);
	cmfix_no_event(fix);
	struct ibcm_msg rtu =
		cmfix_about(IBCM_RTU, req.transaction_id, req.local_id, rep->msg.local_id);
	cmfix_receive(fix, cmfix_peer, &rtu);
	const struct cmfix_event *connected = cmfix_event(fix, CM_CONNECTED);
	assert_ptr_equal(connected->ctx, &local);
	assert_int_equal(fix->qps[0].state, CMFIX_RTS);
	cmfix_receive(fix, cmfix_peer, &rtu); /* once more */
	cmfix_no_event(fix);
	cmfix_silent(fix);
	cm_machine_conn_free(asked->conn);
	cmfix_free(fix);
	PROVES("CM-4 CM-12 CM-13 CM-14 CM-15 CM-16");
}

static void a_side_has_no_more_reads_than_it_has_offered(void **state)
{
	static const struct {
		uint8_t peer_answers, peer_asks, answered, asked; /* offers */
		uint8_t told_answers, told_asks;
	} rows[] = {
		{ 0, 0, 8, 8, 0, 0 }, { 1, 128, 8, 8, 8, 1 },         { 128, 1, 8, 8, 1, 8 },
		{ 4, 4, 0, 0, 0, 0 }, { 255, 255, 255, 255, 16, 16 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%zu", i);
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req();
		req.req.responder_resources = rows[i].peer_answers;
		req.req.initiator_depth = rows[i].peer_asks;
		cmfix_receive(fix, cmfix_peer, &req);
		struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
		const struct cm_machine_own_qp own = cmfix_own_qp(fix, 0);
		const struct cm_offer offer = { .reads_answered = rows[i].answered,
						.reads_asked = rows[i].asked };
		assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), 0);
		const struct ibcm_rep *rep = &cmfix_sent(fix, IBCM_REP)->msg.rep;
		assert_int_equal(rep->responder_resources, rows[i].told_answers);
		assert_int_equal(rep->initiator_depth, rows[i].told_asks);
		assert_int_equal(fix->qps[0].how.reads_answered, rows[i].told_answers);
		assert_int_equal(fix->qps[0].how.reads_asked, rows[i].told_asks);
		cm_machine_conn_free(conn);
		cmfix_free(fix);
	}
	PROVES("CM-13");
}

static void what_linux_does_not_look_at_does_not_matter(void **state)
{
	(void)state;
	for (int i = 0; i < 14; i++) {
		TRIES("%d", i);
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req(), rep;
		struct ibcm_req *r = &req.req;
		switch (i) {
		case 0: r->ca_guid = 0; break;
		case 1: r->primary.local_lid = r->primary.remote_lid = 0; break;
		case 2: r->primary.flow_label = 0x12345; break;
		case 3: r->primary.packet_rate = 3; break;
		case 4: r->primary.traffic_class = 32; break;
		case 5: r->primary.hop_limit = 0; break;
		case 6: r->primary.subnet_local = true; break;
		case 7: r->max_cm_retries = 0; break;
		case 8: r->pkey = 0x7FFF; break;
		case 9: r->path_mtu = 1; break;
		case 10: r->remote_timeout = 0; break;
		case 11: r->local_timeout = 31; break;
		case 12: r->primary.ack_timeout = 0; break;
		case 13: req.private_data[IBCM_IP_LEN - 17] ^= 1; break; /* source address */
		}
		cmfix_passive(fix, &req, 0, &rep);
		cm_machine_conn_free(fix->events[0].conn);
		cmfix_free(fix);
	}
	PROVES("CM-3 CM-11");
}

static void data_count_as_the_rtu(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	(void)state;
	cm_machine_heard(conn);
	assert_int_equal(fix->qps[0].state, CMFIX_RTS);
	cmfix_no_event(fix); /* never inside the call */
	cmfix_run(fix);
	cmfix_event(fix, CM_CONNECTED);
	cm_machine_heard(conn);
	cmfix_pass(fix, 100 * CMFIX_SECOND);
	cmfix_silent(fix); /* the REP is not repeated any more */
	cmfix_no_event(fix);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-17");
}

static void a_repeated_req_is_answered_as_before(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	const struct cm_machine_own_qp own = cmfix_own_qp(fix, 0);
	const struct cm_offer offer = cmfix_offer(NULL);
	(void)state;
	cmfix_receive(fix, cmfix_peer, &req);
	struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
	cmfix_receive(fix, cmfix_peer, &req);
	cmfix_no_event(fix);
	cmfix_silent(fix); /* nobody has answered yet */
	assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), 0);
	const struct cmfix_mad *rep = cmfix_sent(fix, IBCM_REP);
	cmfix_receive(fix, cmfix_peer, &req);
	assert_memory_equal(cmfix_sent(fix, IBCM_REP)->bytes, rep->bytes, IBCM_MAD_LEN);
	assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), -ENOTCONN);
	cm_machine_heard(conn);
	cmfix_receive(fix, cmfix_peer, &req);
	cmfix_silent(fix); /* it has the REP */
	cmfix_event(fix, CM_CONNECTED);
	cmfix_no_event(fix);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-4 CM-22");
}

static void an_unanswered_rep_is_repeated_as_the_req_tells(void **state)
{
	static const struct {
		uint8_t timeout, retries;
		uint64_t interval;
	} rows[] = {
		{ 20, 15, CMFIX_REPEAT }, { 18, 3, CMFIX_REPEAT / 4 }, { 0, 2, 100000 },
		{ 31, 1, 10000000 },      { 20, 0, CMFIX_REPEAT },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("timeout %u, retries %u", rows[i].timeout, rows[i].retries);
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req(), rep;
		req.req.local_timeout = rows[i].timeout;
		req.req.max_cm_retries = rows[i].retries;
		struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
		for (int n = 0; n < rows[i].retries; n++) {
			cmfix_pass(fix, rows[i].interval);
			cmfix_sent(fix, IBCM_REP);
			cmfix_silent(fix);
		}
		cmfix_no_event(fix);
		cmfix_pass(fix, rows[i].interval);
		const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
		assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REP);
		assert_int_equal(rej->rej.reason, IBCM_REJ_TIMEOUT);
		assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_TIMEOUT);
		assert_int_equal(fix->qps[0].state, CMFIX_ERR);
		cm_machine_conn_free(conn);
		cmfix_free(fix);
	}
	PROVES("CM-18");
}

/* A peer may ask for hours. */
static void an_mra_counts_for_a_minute_at_most(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	struct ibcm_msg mra = cmfix_about(IBCM_MRA, req.transaction_id, req.local_id, rep.local_id);
	(void)state;
	mra.mra.subject = IBCM_SUBJECT_REP;
	mra.mra.service_timeout = 31;
	cmfix_receive(fix, cmfix_peer, &mra);
	cmfix_pass(fix, 60 * CMFIX_SECOND - 1);
	cmfix_silent(fix);
	cmfix_pass(fix, 1);
	cmfix_sent(fix, IBCM_REP);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-21");
}

static void an_mra_stops_repeats_of_the_rep(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	struct ibcm_msg mra = cmfix_about(IBCM_MRA, req.transaction_id, req.local_id, rep.local_id);
	(void)state;
	mra.mra.subject = IBCM_SUBJECT_REP;
	mra.mra.service_timeout = 22;
	cmfix_receive(fix, cmfix_peer, &mra);
	cmfix_pass(fix, 4 * CMFIX_REPEAT);
	cmfix_silent(fix);
	cmfix_pass(fix, CMFIX_SECOND);
	cmfix_sent(fix, IBCM_REP);
	/* A peer that goes on like that does not hold the connection up for ever. */
	for (int i = 0; i < 40; i++) {
		cmfix_receive(fix, cmfix_peer, &mra);
		cmfix_pass(fix, 10 * CMFIX_SECOND);
	}
	cmfix_sent(fix, IBCM_REJ);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_TIMEOUT);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-21");
}

static void a_queue_pair_that_cannot_be_connected_leaves_the_request(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	const struct cm_machine_own_qp own = cmfix_own_qp(fix, 0);
	struct cm_offer offer = cmfix_offer(NULL);
	(void)state;
	cmfix_receive(fix, cmfix_peer, &req);
	struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
	offer.rnr_retry = 8;
	assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), -EINVAL);
	offer.rnr_retry = 7;
	fix->fail_connect = true;
	assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), -EINVAL);
	cmfix_silent(fix);
	fix->fail_connect = false;
	fix->fail_start = true;
	assert_int_equal(cm_machine_accept(conn, &own, &offer, NULL), 0);
	struct ibcm_msg rep = cmfix_sent(fix, IBCM_REP)->msg;
	cm_machine_heard(conn);
	struct ibcm_msg dreq = cmfix_sent(fix, IBCM_DREQ)->msg;
	struct ibcm_msg drep =
		cmfix_about(IBCM_DREP, dreq.transaction_id, req.local_id, rep.local_id);
	cmfix_receive(fix, cmfix_peer, &drep);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_LOCAL);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

static void a_request_that_nobody_answers_ends(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	(void)state;
	cmfix_receive(fix, cmfix_peer, &req);
	struct cm_machine_conn *conn = cmfix_event(fix, CM_REQUEST)->conn;
	cmfix_pass(fix, 90 * CMFIX_SECOND);
	assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason, IBCM_REJ_TIMEOUT);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_TIMEOUT);
	cm_machine_reject(conn, NULL, 0); /* too late, and it is freed all the same */
	cmfix_silent(fix);
	cmfix_free(fix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_has_the_fields_that_linux_wants),
		cmocka_unit_test(a_rep_connects_and_is_answered_with_rtu),
		cmocka_unit_test(a_repeated_rep_gets_the_rtu_again),
		cmocka_unit_test(an_unanswered_req_is_repeated_until_the_user_gives_up),
		cmocka_unit_test(a_req_is_repeated_sixteen_times_at_most),
		cmocka_unit_test(an_mra_stops_repeats_of_the_req),
		cmocka_unit_test(what_cannot_be_asked_is_refused_at_once),
		cmocka_unit_test(a_queue_pair_that_fails_ends_the_attempt),
		cmocka_unit_test(a_request_reaches_the_listener_and_is_accepted),
		cmocka_unit_test(a_side_has_no_more_reads_than_it_has_offered),
		cmocka_unit_test(what_linux_does_not_look_at_does_not_matter),
		cmocka_unit_test(data_count_as_the_rtu),
		cmocka_unit_test(a_repeated_req_is_answered_as_before),
		cmocka_unit_test(an_unanswered_rep_is_repeated_as_the_req_tells),
		cmocka_unit_test(an_mra_counts_for_a_minute_at_most),
		cmocka_unit_test(an_mra_stops_repeats_of_the_rep),
		cmocka_unit_test(a_queue_pair_that_cannot_be_connected_leaves_the_request),
		cmocka_unit_test(a_request_that_nobody_answers_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
