/* SPDX-License-Identifier: MIT */
/* How the connection manager's machine ends connections, and what it remembers of them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "proto/ibcm/text.h"
#include "tests/lib/cmfix.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

static struct ibcm_msg rej_of(const struct ibcm_msg *req, uint32_t peer_id, uint16_t reason)
{
	struct ibcm_msg rej = cmfix_about(IBCM_REJ, req->transaction_id, peer_id, req->local_id);
	rej.rej.reason = reason;
	memcpy(rej.private_data, "no", 2);
	return rej;
}

static struct ibcm_msg dreq_of(const struct cmfix *fix, uint32_t peer_id, uint32_t own_id)
{
	struct ibcm_msg dreq = cmfix_about(IBCM_DREQ, 0x4444, peer_id, own_id);
	dreq.dreq_qpn = fix->qps[0].qpn;
	return dreq;
}

/* ---- REJ */

static void a_refusal_reaches_the_user(void **state)
{
	static const struct {
		uint16_t reason;
		enum cm_end end;
	} rows[] = {
		{ IBCM_REJ_INVALID_SERVICE_ID, CM_END_NO_LISTENER },
		{ IBCM_REJ_CONSUMER, CM_END_REFUSED },
		{ IBCM_REJ_STALE_CONNECTION, CM_END_PEER_REFUSED },
		{ 4711, CM_END_PEER_REFUSED },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("reason %u", rows[i].reason);
		struct cmfix *fix = cmfix_new(NULL);
		struct cm_machine_conn *conn;
		assert_int_equal(cmfix_connect(fix, &conn), 0);
		struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg;
		struct ibcm_msg rej = rej_of(&req, 0, rows[i].reason);
		cmfix_receive(fix, cmfix_peer, &rej);
		const struct cmfix_event *event = cmfix_event(fix, CM_ENDED);
		assert_int_equal(event->event.end, rows[i].end);
		assert_int_equal(event->event.reject_reason, rows[i].reason);
		assert_int_equal(event->event.private_len, IBCM_REJ_PRIVATE_LEN);
		assert_string_equal(event->private_data, "no");
		assert_non_null(strstr(event->text, ibcm_reject_text(rows[i].reason)));
		assert_int_equal(fix->qps[0].state, CMFIX_ERR);
		cmfix_pass(fix, 100 * CMFIX_SECOND);
		cmfix_silent(fix);
		cm_machine_conn_free(conn);
		cmfix_free(fix);
	}
	PROVES("CM-32");
}

static void a_user_refuses_with_private_data(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	(void)state;
	cmfix_receive(fix, cmfix_peer, &req);
	cm_machine_reject(cmfix_event(fix, CM_REQUEST)->conn, "go away", 7);
	const struct cmfix_mad *rej = cmfix_sent(fix, IBCM_REJ);
	assert_int_equal(rej->msg.rej.subject, IBCM_SUBJECT_REQ);
	assert_int_equal(rej->msg.rej.reason, IBCM_REJ_CONSUMER);
	assert_int_equal(rej->msg.remote_id, req.local_id);
	assert_true(rej->msg.transaction_id == req.transaction_id);
	assert_string_equal(rej->msg.private_data, "go away");
	cmfix_receive(fix, cmfix_peer, &req); /* the REJ was lost */
	assert_memory_equal(cmfix_sent(fix, IBCM_REJ)->bytes, rej->bytes, IBCM_MAD_LEN);
	cmfix_no_event(fix);
	cmfix_free(fix);
	PROVES("CM-4 CM-22 CM-32");
}

static void a_peer_that_gives_its_req_up_ends_the_request(void **state)
{
	(void)state;
	for (int accepted = 0; accepted < 2; accepted++) {
		TRIES("%s", accepted ? "accepted" : "asked");
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req(), rep;
		struct cm_machine_conn *conn;
		if (accepted) {
			conn = cmfix_passive(fix, &req, 0, &rep);
		} else {
			cmfix_receive(fix, cmfix_peer, &req);
			conn = cmfix_event(fix, CM_REQUEST)->conn;
		}
		/* It does not know our id. */
		struct ibcm_msg rej = cmfix_about(IBCM_REJ, req.transaction_id, req.local_id, 0);
		rej.rej.subject = IBCM_SUBJECT_OTHER;
		rej.rej.reason = IBCM_REJ_TIMEOUT;
		cmfix_receive(fix, cmfix_peer, &rej);
		const struct cm_event *event = &cmfix_event(fix, CM_ENDED)->event;
		assert_int_equal(event->end, CM_END_PEER_REFUSED);
		assert_int_equal(event->reject_reason, IBCM_REJ_TIMEOUT);
		cm_machine_conn_free(conn);
		cmfix_silent(fix);
		cmfix_free(fix);
	}
}

static void a_request_that_ends_before_its_user_heard_of_it_is_no_event(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	struct ibcm_msg rej = cmfix_about(IBCM_REJ, req.transaction_id, req.local_id, 0);
	uint8_t mad[IBCM_MAD_LEN];
	(void)state;
	rej.rej.reason = IBCM_REJ_TIMEOUT;
	assert_int_equal(ibcm_encode(&req, mad), 0);
	cm_machine_receive(fix->machine, cmfix_own, cmfix_peer, mad, sizeof(mad), fix->now);
	cmfix_receive(fix, cmfix_peer, &rej);
	cmfix_no_event(fix);
	cmfix_free(fix);
}

static void a_rej_of_the_rep_ends_what_was_accepted(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	struct ibcm_msg rej = rej_of(&rep, req.local_id, IBCM_REJ_INVALID_COMM_ID);
	(void)state;
	rej.rej.subject = IBCM_SUBJECT_REP;
	cmfix_receive(fix, cmfix_peer, &rej);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_PEER_REFUSED);
	assert_int_equal(fix->qps[0].state, CMFIX_ERR);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-27");
}

static void a_late_refusal_of_the_req_does_not_end_the_connection(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req;
	struct cm_machine_conn *conn = cmfix_active(fix, &req);
	struct ibcm_msg rej = rej_of(&req, 0, IBCM_REJ_CONSUMER);
	(void)state;
	cmfix_receive(fix, cmfix_peer, &rej);
	rej.local_id = 0x2002;
	cmfix_receive(fix, cmfix_peer, &rej);
	cmfix_no_event(fix);
	rej.rej.subject = IBCM_SUBJECT_REP; /* the peer has given our RTU up */
	cmfix_receive(fix, cmfix_peer, &rej);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_REFUSED);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

static void a_rep_to_nothing_is_answered_with_rej(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg, rep = cmfix_rep(&req);
	cm_machine_conn_free(conn);
	assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason, IBCM_REJ_TIMEOUT);
	cmfix_receive(fix, cmfix_peer, &rep);
	const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
	assert_int_equal(rej->rej.reason, IBCM_REJ_INVALID_COMM_ID);
	assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REP);
	assert_int_equal(rej->remote_id, rep.local_id);
	assert_int_equal(rej->local_id, rep.remote_id);
	struct ibcm_msg late = rej_of(&req, 0x2002, IBCM_REJ_CONSUMER);
	cmfix_receive(fix, cmfix_peer, &late);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	assert_int_equal(fix->qps[0].state, CMFIX_INIT); /* it is the user's since */
	cmfix_free(fix);
	PROVES("CM-27");
}

/* ---- DREQ and DREP */

static void a_user_disconnects(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req;
	struct cm_machine_conn *conn = cmfix_active(fix, &req);
	(void)state;
	cm_machine_disconnect(conn);
	assert_int_equal(fix->qps[0].state, CMFIX_ERR);
	const struct cmfix_mad *dreq = cmfix_sent(fix, IBCM_DREQ);
	assert_int_equal(dreq->msg.dreq_qpn, 0x22);
	assert_int_equal(dreq->msg.local_id, req.local_id);
	assert_int_equal(dreq->msg.remote_id, 0x2002);
	assert_true(dreq->msg.transaction_id == req.transaction_id);
	cm_machine_disconnect(conn); /* once is enough */
	cmfix_silent(fix);
	for (int i = 0; i < 3; i++) {
		cmfix_pass(fix, CMFIX_REPEAT);
		assert_memory_equal(cmfix_sent(fix, IBCM_DREQ)->bytes, dreq->bytes, IBCM_MAD_LEN);
	}
	cmfix_no_event(fix);
	struct ibcm_msg drep = cmfix_about(IBCM_DREP, req.transaction_id, 0x2002, req.local_id);
	cmfix_receive(fix, cmfix_peer, &drep);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_DISCONNECTED);
	cmfix_receive(fix, cmfix_peer, &drep);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-4 CM-18 CM-26");
}

static void a_dreq_is_given_up_after_sixteen_times(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req;
	struct cm_machine_conn *conn = cmfix_active(fix, &req);
	(void)state;
	cm_machine_disconnect(conn);
	cmfix_pass(fix, 16 * CMFIX_REPEAT);
	for (int i = 0; i < 16; i++)
		cmfix_sent(fix, IBCM_DREQ);
	cmfix_silent(fix);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_DISCONNECTED);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-18");
}

static void the_peer_disconnects(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req;
	struct cm_machine_conn *conn = cmfix_active(fix, &req);
	struct ibcm_msg dreq = dreq_of(fix, 0x2002, req.local_id);
	(void)state;
	cmfix_receive(fix, cmfix_peer, &dreq);
	assert_int_equal(fix->qps[0].state, CMFIX_ERR);
	const struct cmfix_mad *drep = cmfix_sent(fix, IBCM_DREP);
	assert_true(drep->msg.transaction_id == 0x4444);
	assert_int_equal(drep->msg.local_id, req.local_id);
	assert_int_equal(drep->msg.remote_id, 0x2002);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_PEER_DISCONNECTED);
	/* again: while the user has it, after that, and when nothing is left of it */
	for (int i = 0; i < 3; i++) {
		TRIES("%d", i);
		cmfix_receive(fix, cmfix_peer, &dreq);
		assert_memory_equal(cmfix_sent(fix, IBCM_DREP)->bytes, drep->bytes, IBCM_MAD_LEN);
		if (i == 0)
			cm_machine_conn_free(conn);
		else
			cmfix_pass(fix, 100 * CMFIX_SECOND);
	}
	cmfix_no_event(fix);
	cmfix_free(fix);
	PROVES("CM-4 CM-20");
}

static void dreqs_cross(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req;
	struct cm_machine_conn *conn = cmfix_active(fix, &req);
	struct ibcm_msg dreq = dreq_of(fix, 0x2002, req.local_id);
	(void)state;
	cm_machine_disconnect(conn);
	cmfix_sent(fix, IBCM_DREQ);
	cmfix_receive(fix, cmfix_peer, &dreq);
	cmfix_sent(fix, IBCM_DREP);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_DISCONNECTED);
	struct ibcm_msg drep = cmfix_about(IBCM_DREP, req.transaction_id, 0x2002, req.local_id);
	cmfix_receive(fix, cmfix_peer, &drep);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-25");
}

static void a_dreq_for_another_queue_pair_ends_nothing(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req;
	struct cm_machine_conn *conn = cmfix_active(fix, &req);
	struct ibcm_msg dreq = dreq_of(fix, 0x2002, req.local_id);
	(void)state;
	dreq.dreq_qpn++;
	cmfix_receive(fix, cmfix_peer, &dreq);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	assert_int_equal(fix->qps[0].state, CMFIX_RTS);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-26");
}

static void a_freed_connection_is_still_told_to_the_peer(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	struct cm_machine_sizes sizes;
	(void)state;
	cm_machine_conn_free(conn); /* RTU has not come */
	struct ibcm_msg dreq = cmfix_sent(fix, IBCM_DREQ)->msg;
	assert_int_equal(fix->qps[0].state, CMFIX_RTR); /* not touched any more */
	assert_true(dreq.transaction_id != req.transaction_id);
	cm_machine_get_sizes(fix->machine, &sizes);
	assert_int_equal(sizes.conns, 0);
	assert_int_equal(sizes.leaving, 1);
	/* The REP was lost, and Linux looks at no DREQ before it. */
	cmfix_receive(fix, cmfix_peer, &req);
	const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
	assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REQ);
	assert_int_equal(rej->rej.reason, IBCM_REJ_CONSUMER);
	cmfix_pass(fix, CMFIX_REPEAT);
	cmfix_sent(fix, IBCM_DREQ);
	struct ibcm_msg drep =
		cmfix_about(IBCM_DREP, dreq.transaction_id, req.local_id, rep.local_id);
	cmfix_receive(fix, cmfix_peer, &drep);
	cm_machine_get_sizes(fix->machine, &sizes);
	assert_int_equal(sizes.leaving, 0);
	assert_int_equal(sizes.time_wait, 1);
	cmfix_no_event(fix);
	cmfix_free(fix);
}

static void a_dreq_may_overtake_the_rep(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg, rep = cmfix_rep(&req);
	struct ibcm_msg dreq = dreq_of(fix, 0x2002, req.local_id);
	cmfix_receive(fix, cmfix_peer, &dreq);
	cmfix_sent(fix, IBCM_DREP);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_PEER_DISCONNECTED);
	cmfix_receive(fix, cmfix_peer, &rep);
	cmfix_sent(fix, IBCM_REJ);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

/* ---- a peer that begins anew */

/* A connection that the peer has asked for; `ret_anew` is a REQ by which it begins anew. */
static struct cm_machine_conn *known(struct cmfix *fix, bool same_id, struct ibcm_msg *ret_anew,
				     struct ibcm_msg *ret_rep)
{
	struct ibcm_msg req = cmfix_req();
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, ret_rep);
	cm_machine_heard(conn);
	cmfix_run(fix);
	cmfix_event(fix, CM_CONNECTED);
	*ret_anew = req;
	ret_anew->req.starting_psn++;
	ret_anew->local_id += !same_id;
	ret_anew->req.qpn += same_id;
	return conn;
}

static void is_refused_as_stale(struct cmfix *fix, const struct ibcm_msg *req)
{
	cmfix_receive(fix, cmfix_peer, req);
	const struct ibcm_msg *rej = &cmfix_sent(fix, IBCM_REJ)->msg;
	assert_int_equal(rej->rej.reason, IBCM_REJ_STALE_CONNECTION);
	assert_int_equal(rej->remote_id, req->local_id);
}

/* The next attempt finds nothing in its way. */
static void has_begun_anew(struct cmfix *fix, struct cm_machine_conn *old, struct ibcm_msg *anew)
{
	struct ibcm_msg rep;
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_PEER_DISCONNECTED);
	assert_int_equal(fix->qps[0].state, CMFIX_ERR);
	cm_machine_conn_free(old);
	anew->local_id = 0x1003;
	struct cm_machine_conn *conn = cmfix_passive(fix, anew, 1, &rep);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

static void a_known_id_ends_its_old_connection(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg anew, rep;
	struct cm_machine_conn *conn = known(fix, true, &anew, &rep);
	(void)state;
	is_refused_as_stale(fix, &anew);
	cmfix_silent(fix);
	has_begun_anew(fix, conn, &anew);
	PROVES("CM-23");
}

/* A number of a queue pair can be guessed. So the peer is asked, by a DREQ that ends no connection
 * where there is one, and answers that it has none. */
static void a_known_queue_pair_ends_what_the_peer_has_forgotten(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg anew, rep;
	struct cm_machine_conn *conn = known(fix, false, &anew, &rep);
	(void)state;
	is_refused_as_stale(fix, &anew);
	const struct ibcm_msg probe = cmfix_sent(fix, IBCM_DREQ)->msg;
	assert_int_equal(probe.dreq_qpn, 0);
	assert_int_equal(probe.local_id, rep.local_id);
	assert_int_equal(probe.remote_id, 0x1001);
	cmfix_no_event(fix);
	struct ibcm_msg drep = cmfix_about(IBCM_DREP, probe.transaction_id, 0x1001, rep.local_id);
	cmfix_receive(fix, cmfix_peer, &drep);
	has_begun_anew(fix, conn, &anew);
	PROVES("CM-23 CM-26");
}

/* Who sends with a peer's address, but does not get what goes there, ends nothing. */
static void a_forged_queue_pair_ends_nothing(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg anew, rep;
	struct cm_machine_conn *conn = known(fix, false, &anew, &rep);
	struct ibcm_msg forged = cmfix_about(IBCM_DREP, 0, 0x1001, rep.local_id);
	(void)state;
	cmfix_receive(fix, cmfix_peer, &forged); /* nobody has asked */
	for (uint32_t i = 0; i < 3; i++) {
		anew.local_id++;
		is_refused_as_stale(fix, &anew);
		forged.transaction_id = cmfix_sent(fix, IBCM_DREQ)->msg.transaction_id + 1;
		cmfix_receive(fix, cmfix_peer, &forged);
		/* Not asked again at once, however many come. */
		cmfix_pass(fix, CMFIX_SECOND - 1);
		anew.local_id++;
		is_refused_as_stale(fix, &anew);
		cmfix_silent(fix);
		cmfix_pass(fix, 1);
	}
	cmfix_no_event(fix);
	assert_int_equal(fix->qps[0].state, CMFIX_RTS);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

static void another_peers_queue_pair_of_that_number_is_another(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	(void)state;
	memcpy(req.req.primary.local_gid, cmfix_other, 16);
	struct cm_machine_conn *other = cmfix_passive(fix, &req, 1, &rep);
	cmfix_no_event(fix);
	cm_machine_conn_free(conn);
	cm_machine_conn_free(other);
	cmfix_free(fix);
	PROVES("CM-22 CM-23 CM-30");
}

static void a_rep_with_the_queue_pair_of_a_connection_ends_both(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg first, second;
	struct cm_machine_conn *conn = cmfix_active(fix, &first), *other;
	(void)state;
	const struct cm_machine_connect_params params = {
		.local = { .family = AF_INET, .addr = { 10, 0, 0, 1 } },
		.peer = { .family = AF_INET, .addr = { 10, 0, 0, 2 }, .port = 4711 },
		.qp = cmfix_own_qp(fix, 1),
		.offer = cmfix_offer(NULL),
	};
	assert_int_equal(cm_machine_connect(fix->machine, &params, &other), 0);
	second = cmfix_sent(fix, IBCM_REQ)->msg;
	struct ibcm_msg rep = cmfix_rep(&second);
	cmfix_receive(fix, cmfix_peer, &rep);
	assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason, IBCM_REJ_STALE_CONNECTION);
	assert_ptr_equal(cmfix_event(fix, CM_ENDED)->conn, conn);
	assert_ptr_equal(cmfix_event(fix, CM_ENDED)->conn, other);
	cm_machine_conn_free(conn);
	cm_machine_conn_free(other);
	cmfix_free(fix);
	PROVES("CM-23");
}

/* ---- time wait */

static void an_ended_connections_req_makes_no_new_one(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	struct ibcm_msg dreq = dreq_of(fix, req.local_id, rep.local_id);
	(void)state;
	cmfix_receive(fix, cmfix_peer, &dreq);
	cmfix_sent(fix, IBCM_DREP);
	cmfix_event(fix, CM_ENDED);
	cm_machine_conn_free(conn);
	cmfix_pass(fix, 9 * CMFIX_SECOND);
	cmfix_receive(fix, cmfix_peer, &req); /* it was long on its way */
	cmfix_silent(fix);
	cmfix_no_event(fix);
	/* But a peer may give an id again. */
	req.req.starting_psn++;
	conn = cmfix_passive(fix, &req, 1, &rep);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-22 CM-24");
}

static unsigned int remembered(const struct cmfix *fix)
{
	struct cm_machine_sizes sizes;
	cm_machine_get_sizes(fix->machine, &sizes);
	return sizes.time_wait;
}

/* As long as a peer repeats a REQ that was refused it gets the same answer. Others are forgotten
 * meanwhile. */
static void a_repeat_is_remembered_anew(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg reqs[3];
	struct cmfix_mad answer;
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		reqs[i] = cmfix_req();
		reqs[i].local_id += i;
		reqs[i].req.qpn += i;
		cmfix_receive(fix, cmfix_peer, &reqs[i]);
		cm_machine_reject(cmfix_event(fix, CM_REQUEST)->conn, "no", 2);
		answer = *cmfix_sent(fix, IBCM_REJ);
		cmfix_pass(fix, CMFIX_SECOND);
	}
	cmfix_pass(fix, 57 * CMFIX_SECOND);
	cmfix_receive(fix, cmfix_peer, &reqs[0]);
	assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.remote_id, reqs[0].local_id);
	cmfix_receive(fix, cmfix_peer, &reqs[2]);
	assert_memory_equal(cmfix_sent(fix, IBCM_REJ)->bytes, answer.bytes, IBCM_MAD_LEN);
	cmfix_no_event(fix);
	cmfix_pass(fix, 31 * CMFIX_SECOND - 1);
	assert_int_equal(remembered(fix), 3);
	cmfix_pass(fix, 1); /* the second one's 90 s are over */
	assert_int_equal(remembered(fix), 2);
	cmfix_pass(fix, 59 * CMFIX_SECOND - 1);
	assert_int_equal(remembered(fix), 2);
	cmfix_pass(fix, 1);
	assert_int_equal(remembered(fix), 0);
	cmfix_free(fix);
	PROVES("CM-22");
}

/* The generator of the test repeats itself: the machine has to draw again. */
static void an_id_is_not_given_twice(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn[3];
	uint32_t id[3];
	(void)state;
	const struct random begin = fix->random;
	assert_int_equal(cmfix_connect(fix, &conn[0]), 0);
	id[0] = cmfix_sent(fix, IBCM_REQ)->msg.local_id;
	fix->random = begin;
	assert_int_equal(cmfix_connect(fix, &conn[1]), 0); /* while the first is there */
	id[1] = cmfix_sent(fix, IBCM_REQ)->msg.local_id;
	cm_machine_conn_free(conn[0]);
	cmfix_sent(fix, IBCM_REJ);
	fix->random = begin;
	assert_int_equal(cmfix_connect(fix, &conn[2]), 0); /* while the first is remembered */
	id[2] = cmfix_sent(fix, IBCM_REQ)->msg.local_id;
	assert_int_not_equal(id[0], id[1]);
	assert_int_not_equal(id[0], id[2]);
	assert_int_not_equal(id[1], id[2]);
	cm_machine_conn_free(conn[1]);
	cm_machine_conn_free(conn[2]);
	cmfix_free(fix);
	PROVES("CM-24");
}

static void what_is_remembered_of_ended_connections_is_bounded(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_sizes sizes;
	(void)state;
	for (unsigned int i = 0; i < 600; i++) {
		struct ibcm_msg req = cmfix_req();
		req.local_id = i;
		cmfix_receive(fix, cmfix_peer, &req);
		fix->num_events = fix->num_sent = 0;
		cm_machine_reject(fix->events[0].conn, NULL, 0);
	}
	cm_machine_get_sizes(fix->machine, &sizes);
	assert_int_equal(sizes.time_wait, 512);
	fix->num_sent = 0;
	for (unsigned int i = 0; i < 4000; i++) {
		struct ibcm_msg req = cmfix_req();
		req.req.primary.local_gid[14] = (uint8_t)(1 + i / 250);
		req.req.primary.local_gid[15] = (uint8_t)(i % 250);
		cmfix_receive(fix, req.req.primary.local_gid, &req);
		fix->num_events = fix->num_sent = 0;
		cm_machine_reject(fix->events[0].conn, NULL, 0);
	}
	cm_machine_get_sizes(fix->machine, &sizes);
	assert_int_equal(sizes.time_wait, 4096);
	cmfix_free(fix);
}

/* ---- users and RNICs that go */

static void a_listener_goes(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), second = cmfix_req(), third = cmfix_req(), rep;
	uint8_t mad[IBCM_MAD_LEN];
	(void)state;
	struct cm_machine_conn *accepted = cmfix_passive(fix, &req, 0, &rep);
	second.local_id++;
	second.req.qpn++;
	cmfix_receive(fix, cmfix_peer, &second);
	const struct cmfix_event *told = cmfix_event(fix, CM_REQUEST);
	third.local_id += 2;
	third.req.qpn += 2;
	assert_int_equal(ibcm_encode(&third, mad), 0);
	cm_machine_receive(fix->machine, cmfix_own, cmfix_peer, mad, sizeof(mad), fix->now);
	cm_machine_conn_set_ctx(told->conn, fix); /* does not hide whose it is */
	cm_machine_listener_gone(fix->machine, told->ctx);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason,
				 IBCM_REJ_INVALID_SERVICE_ID);
	cmfix_silent(fix);
	cmfix_run(fix);
	cmfix_no_event(fix);
	const struct cm_machine_own_qp own = cmfix_own_qp(fix, 1);
	const struct cm_offer offer = cmfix_offer(NULL);
	assert_int_equal(cm_machine_accept(told->conn, &own, &offer, NULL), -ENOTCONN);
	cm_machine_conn_free(told->conn);
	cm_machine_heard(accepted);
	cmfix_run(fix);
	cmfix_event(fix, CM_CONNECTED);
	cm_machine_conn_free(accepted);
	cmfix_free(fix);
}

static void the_rnic_goes(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req, other = cmfix_req(), rep;
	struct cm_machine_conn *active = cmfix_active(fix, &req);
	struct cm_machine_conn *passive = cmfix_passive(fix, &other, 1, &rep);
	(void)state;
	cm_machine_close(fix->machine);
	cmfix_sent(fix, IBCM_DREQ);
	cmfix_sent(fix, IBCM_DREQ);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fix->qps[i].state, CMFIX_ERR);
		cmfix_no_event(fix);
	}
	cmfix_run(fix);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_LOCAL);
	cmfix_receive(fix, cmfix_peer, &other);
	cmfix_pass(fix, 100 * CMFIX_SECOND);
	cmfix_silent(fix);
	cm_machine_conn_free(active);
	cm_machine_conn_free(passive);
	cmfix_free(fix);
}

static void free_in_callback(struct cmfix *fix, struct cmfix_event *event)
{
	(void)fix;
	cm_machine_conn_free(event->conn);
}

static void a_user_frees_inside_the_event(void **state)
{
	(void)state;
	for (int type = CM_REQUEST; type <= CM_ENDED; type++) {
		TRIES("event %d", type);
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = cmfix_req(), rep;
		if (type == CM_REQUEST) {
			fix->on_event = free_in_callback;
			cmfix_receive(fix, cmfix_peer, &req);
			cmfix_sent(fix, IBCM_REJ);
		} else {
			struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
			fix->on_event = free_in_callback;
			if (type == CM_CONNECTED)
				cm_machine_heard(conn);
			else
				cm_machine_close(fix->machine);
			cmfix_run(fix);
			cmfix_sent(fix, IBCM_DREQ);
		}
		cmfix_free(fix);
	}
}

static void an_event_that_waits_is_not_told_after_the_end(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	(void)state;
	cm_machine_heard(conn);
	cm_machine_disconnect(conn); /* before CM_CONNECTED was told */
	cmfix_run(fix);
	cmfix_no_event(fix);
	struct ibcm_msg dreq = dreq_of(fix, req.local_id, rep.local_id);
	cmfix_receive(fix, cmfix_peer, &dreq);
	assert_int_equal(cmfix_event(fix, CM_ENDED)->event.end, CM_END_DISCONNECTED);
	cmfix_no_event(fix);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refusal_reaches_the_user),
		cmocka_unit_test(a_user_refuses_with_private_data),
		cmocka_unit_test(a_peer_that_gives_its_req_up_ends_the_request),
		cmocka_unit_test(a_request_that_ends_before_its_user_heard_of_it_is_no_event),
		cmocka_unit_test(a_rej_of_the_rep_ends_what_was_accepted),
		cmocka_unit_test(a_late_refusal_of_the_req_does_not_end_the_connection),
		cmocka_unit_test(a_rep_to_nothing_is_answered_with_rej),
		cmocka_unit_test(a_user_disconnects),
		cmocka_unit_test(a_dreq_is_given_up_after_sixteen_times),
		cmocka_unit_test(the_peer_disconnects),
		cmocka_unit_test(dreqs_cross),
		cmocka_unit_test(a_dreq_for_another_queue_pair_ends_nothing),
		cmocka_unit_test(a_freed_connection_is_still_told_to_the_peer),
		cmocka_unit_test(a_dreq_may_overtake_the_rep),
		cmocka_unit_test(a_known_id_ends_its_old_connection),
		cmocka_unit_test(a_known_queue_pair_ends_what_the_peer_has_forgotten),
		cmocka_unit_test(a_forged_queue_pair_ends_nothing),
		cmocka_unit_test(another_peers_queue_pair_of_that_number_is_another),
		cmocka_unit_test(a_rep_with_the_queue_pair_of_a_connection_ends_both),
		cmocka_unit_test(an_ended_connections_req_makes_no_new_one),
		cmocka_unit_test(a_repeat_is_remembered_anew),
		cmocka_unit_test(an_id_is_not_given_twice),
		cmocka_unit_test(what_is_remembered_of_ended_connections_is_bounded),
		cmocka_unit_test(a_listener_goes),
		cmocka_unit_test(the_rnic_goes),
		cmocka_unit_test(a_user_frees_inside_the_event),
		cmocka_unit_test(an_event_that_waits_is_not_told_after_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
