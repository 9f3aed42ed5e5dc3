/* SPDX-License-Identifier: MIT */
/* What the connection manager's machine refuses, drops, and bounds. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <string.h>

#include "daemon/cm/siphash.h"
#include "daemon/cm/timers.h"
#include "proto/smcr/bytes.h"
#include "tests/lib/cmfix.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

static uint64_t dropped(const struct cmfix *fix)
{
	struct cm_stats stats;
	cm_machine_get_stats(fix->machine, &stats);
	return stats.dropped;
}

/* ---- REQs that are refused without asking a user */

/* A REQ of which one thing is changed, and what is answered to it. */
static const struct fault {
	const char *what;
	uint16_t reason; /* 0: no answer */
	bool no_port;    /* of the peer, that could be told */
} faults[] = {
	{ "no listener", IBCM_REJ_INVALID_SERVICE_ID },
	{ "service of no port", IBCM_REJ_INVALID_SERVICE_ID, true },
	{ "another transport", IBCM_REJ_INVALID_TRANSPORT },
	{ "another primary remote GID", IBCM_REJ_INVALID_GID },
	{ "another primary local GID", IBCM_REJ_CONSUMER },
	{ "IP CM header of version 1", IBCM_REJ_CONSUMER, true },
	{ "IP version 6", IBCM_REJ_CONSUMER },
	{ "bytes before an IPv4 address", IBCM_REJ_CONSUMER, true },
	{ "another destination address", IBCM_REJ_CONSUMER },
	{ "path MTU 2048", IBCM_REJ_INVALID_MTU },
	{ "path MTU 0", IBCM_REJ_INVALID_MTU },
	{ "queue pair 1", IBCM_REJ_UNSUPPORTED_REQUEST },
	{ "a stranger", IBCM_REJ_CONSUMER },
	{ "P_Key 0x1234", 0 },
};

static struct ibcm_msg wrong_req(struct cmfix *fix, size_t fault)
{
	struct ibcm_msg req = cmfix_req();
	switch (fault) {
	case 0: req.req.service_id++; break;
	case 1: req.req.service_id = 17; break;
	case 2: req.req.transport = 1; break;
	case 3: memcpy(req.req.primary.remote_gid, cmfix_other, 16); break;
	case 4: memcpy(req.req.primary.local_gid, cmfix_other, 16); break;
	case 5: req.private_data[0] = 0x10; break;
	case 6: req.private_data[1] = 0x60; break;
	case 7: req.private_data[4] = 1; break;
	case 8: req.private_data[IBCM_IP_LEN - 1]++; break;
	case 9: req.req.path_mtu = 4; break;
	case 10: req.req.path_mtu = 0; break;
	case 11: req.req.qpn = 1; break;
	case 12: fix->stranger = true; break;
	case 13: req.req.pkey = 0x1234; break;
	}
	return req;
}

static void wrong_reqs_are_refused_at_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		TRIES("%s", faults[i].what);
		struct cmfix *fix = cmfix_new(NULL);
		struct ibcm_msg req = wrong_req(fix, i);
		cmfix_receive(fix, cmfix_peer, &req);
		cmfix_no_event(fix);
		if (!faults[i].reason) {
			cmfix_silent(fix);
			assert_int_equal(dropped(fix), 1);
			cmfix_free(fix);
			continue;
		}
		const struct cmfix_mad *mad = cmfix_sent(fix, IBCM_REJ);
		const struct ibcm_rej *rej = &mad->msg.rej;
		assert_memory_equal(mad->peer_gid, cmfix_peer, 16); /* where it came from */
		assert_int_equal(rej->reason, faults[i].reason);
		assert_int_equal(rej->subject, IBCM_SUBJECT_REQ);
		assert_int_equal(mad->msg.local_id, 0);
		assert_int_equal(mad->msg.remote_id, req.local_id);
		assert_true(mad->msg.transaction_id == req.transaction_id);
		assert_int_equal(rej->info_len, rej->reason == IBCM_REJ_INVALID_GID ? 16 : 0);
		if (rej->info_len)
			assert_memory_equal(rej->info, cmfix_own, 16);
		assert_int_equal(fix->refused, 1);
		assert_int_equal(fix->refused_reason, faults[i].reason);
		assert_int_equal(fix->refused_port, faults[i].no_port ? 0 : 0x9999);
		cmfix_receive(fix, cmfix_peer, &req);
		assert_memory_equal(cmfix_sent(fix, IBCM_REJ)->bytes, mad->bytes, IBCM_MAD_LEN);
		cmfix_free(fix);
	}
	PROVES("CM-2 CM-4 CM-7 CM-8 CM-9 CM-10 CM-14 CM-30");
}

static void a_req_may_name_another_address_of_ours(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req(), rep;
	struct cm_addr local, peer;
	(void)state;
	memcpy(req.req.primary.remote_gid, cmfix_own_second, 16);
	struct cm_machine_conn *conn = cmfix_passive(fix, &req, 0, &rep);
	cm_machine_conn_addrs(conn, &local, &peer);
	assert_memory_equal(local.addr, ((uint8_t[]){ 10, 0, 0, 11 }), 4);
	assert_memory_equal(fix->sent[0].local_gid, cmfix_own_second, 16);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
}

/* ---- limits */

static struct ibcm_msg numbered_req(unsigned int number)
{
	struct ibcm_msg req = cmfix_req();
	req.local_id = 0x5000 + number;
	req.req.qpn = 0x100 + number;
	return req;
}

static void a_flood_of_reqs_uses_up_one_peers_share(void **state)
{
	const struct cm_limits limits = { .conns = 100,
					  .conns_per_peer = 50,
					  .requests_per_peer = 8 };
	struct cmfix *fix = cmfix_new(&limits);
	struct ibcm_msg rep;
	struct cm_stats stats;
	(void)state;
	for (unsigned int i = 0; i < 40; i++) {
		struct ibcm_msg req = numbered_req(i);
		cmfix_receive(fix, cmfix_peer, &req);
		if (i < 8)
			cmfix_event(fix, CM_REQUEST);
		else
			assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason,
					 IBCM_REJ_NO_RESOURCES);
	}
	cmfix_no_event(fix);
	cm_machine_get_stats(fix->machine, &stats);
	assert_int_equal(stats.limited, 32);
	assert_int_equal(stats.refused, 32);
	struct ibcm_msg req = numbered_req(0);
	memcpy(req.req.primary.local_gid, cmfix_other, 16);
	struct cm_machine_conn *other = cmfix_passive(fix, &req, 0, &rep);
	/* A place that becomes free can be taken again. */
	cm_machine_reject(fix->events[0].conn, NULL, 0);
	cmfix_sent(fix, IBCM_REJ);
	req = numbered_req(50);
	cmfix_receive(fix, cmfix_peer, &req);
	cmfix_event(fix, CM_REQUEST);
	for (unsigned int i = 1; i < 8; i++)
		cm_machine_conn_free(fix->events[i].conn);
	cm_machine_conn_free(fix->events[9].conn);
	cm_machine_conn_free(other);
	cmfix_free(fix);
	PROVES("CM-29");
}

static void confirm(struct cmfix *fix, const uint8_t from[16], const struct ibcm_msg *req,
		    const struct ibcm_msg *rep)
{
	struct ibcm_msg rtu =
		cmfix_about(IBCM_RTU, req->transaction_id, req->local_id, rep->local_id);
	cmfix_receive(fix, from, &rtu);
	cmfix_event(fix, CM_CONNECTED);
}

static struct ibcm_msg req_of(unsigned int number, const uint8_t from[16])
{
	struct ibcm_msg req = numbered_req(number);
	memcpy(req.req.primary.local_gid, from, 16);
	return req;
}

/* Who asks in the name of others cannot confirm, and takes nobody's place by that. */
static void requests_that_nobody_confirms_make_room(void **state)
{
	const struct cm_limits limits = { .conns = 6, .conns_per_peer = 4 };
	struct cmfix *fix = cmfix_new(&limits);
	struct cm_machine_conn *conns[4], *others[3];
	struct cm_conn_view view;
	struct ibcm_msg rep;
	(void)state;
	struct ibcm_msg req = req_of(0x20, cmfix_other);
	others[0] = cmfix_passive(fix, &req, 4, &rep);
	for (unsigned int i = 0; i < 4; i++) {
		req = req_of(i, cmfix_peer);
		conns[i] = cmfix_passive(fix, &req, i, &rep);
		if (i == 0)
			confirm(fix, cmfix_peer, &req, &rep);
	}
	cm_machine_disconnect(conns[0]); /* it waits for an answer, but was confirmed */
	cmfix_sent(fix, IBCM_DREQ);
	cm_machine_conn_free(conns[1]);
	cmfix_sent(fix, IBCM_DREQ);
	req = req_of(0x21, cmfix_other);
	others[1] = cmfix_passive(fix, &req, 5, &rep);

	/* For a request of the peer, its own oldest one goes. Nobody needs to hear of one that its
	 * user has given up. */
	req = req_of(0x10, cmfix_peer);
	conns[1] = cmfix_passive(fix, &req, 6, &rep);
	cmfix_no_event(fix);
	confirm(fix, cmfix_peer, &req, &rep);
	/* For one of another peer, the oldest of all. Its user and its peer are told. */
	req = req_of(0x22, cmfix_other);
	cmfix_receive(fix, cmfix_other, &req);
	assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason, IBCM_REJ_NO_RESOURCES);
	cmfix_silent(fix);
	const struct cmfix_event *end = cmfix_event(fix, CM_ENDED);
	assert_ptr_equal(end->conn, others[0]);
	assert_int_equal(end->event.end, CM_END_TIMEOUT);
	cm_machine_conn_free(others[0]);
	others[2] = cmfix_event(fix, CM_REQUEST)->conn;

	cm_machine_conn_view(conns[0], &view);
	assert_int_equal(view.state, CM_STATE_ENDING);
	cm_machine_conn_view(conns[1], &view);
	assert_int_equal(view.state, CM_STATE_CONNECTED);
	for (unsigned int i = 0; i < 4; i++)
		cm_machine_conn_free(conns[i]);
	cm_machine_conn_free(others[1]);
	cm_machine_conn_free(others[2]);
	cmfix_free(fix);
	PROVES("CM-29");
}

static void connections_are_bounded_for_a_peer_and_in_all(void **state)
{
	const struct cm_limits limits = { .conns = 6, .conns_per_peer = 4 };
	struct cmfix *fix = cmfix_new(&limits);
	struct cm_machine_conn *conns[6];
	struct ibcm_msg rep;
	unsigned int count = 0;
	(void)state;
	for (unsigned int i = 0; i < 12; i++) {
		TRIES("%u", i);
		struct ibcm_msg req = numbered_req(i);
		const uint8_t *from = i < 6 ? cmfix_peer : cmfix_other;
		memcpy(req.req.primary.local_gid, from, 16);
		if (i < 4 || i == 6 || i == 7) {
			conns[count] = cmfix_passive(fix, &req, count, &rep);
			confirm(fix, from, &req, &rep);
			count++;
			continue;
		}
		cmfix_receive(fix, from, &req);
		assert_int_equal(cmfix_sent(fix, IBCM_REJ)->msg.rej.reason, IBCM_REJ_NO_RESOURCES);
	}
	assert_int_equal(count, 6);
	/* Others' requests do not keep this side from asking. */
	struct cm_machine_conn *own;
	fix->qps[0].state = CMFIX_INIT;
	assert_int_equal(cmfix_connect(fix, &own), 0);
	cm_machine_conn_free(own);
	while (count > 0)
		cm_machine_conn_free(conns[--count]);
	cmfix_free(fix);
	PROVES("CM-29");
}

/* ---- messages from others, or with wrong ids */

static struct ibcm_msg forged(const struct cmfix *fix, enum ibcm_type type, uint32_t peer_id,
			      uint32_t own_id)
{
	struct ibcm_msg msg = cmfix_about(type, 0x99, peer_id, own_id);
	msg.rej.subject = IBCM_SUBJECT_REP;
	msg.rej.reason = IBCM_REJ_CONSUMER;
	if (type == IBCM_DREQ)
		msg.dreq_qpn = fix->qps[0].qpn;
	if (type == IBCM_REP) {
		msg.rep = (struct ibcm_rep){ .qpn = 0x33 };
	} else if (type == IBCM_MRA) {
		msg.mra = (struct ibcm_mra){ .service_timeout = 22 };
	}
	return msg;
}

static const enum ibcm_type about_connections[] = { IBCM_MRA, IBCM_REJ,  IBCM_REP,
						    IBCM_RTU, IBCM_DREQ, IBCM_DREP };

static void receive_forged(struct cmfix *fix, uint32_t peer_id, uint32_t own_id)
{
	for (size_t i = 0; i < sizeof(about_connections) / sizeof(about_connections[0]); i++) {
		struct ibcm_msg msg = forged(fix, about_connections[i], peer_id, own_id);
		TRIES("%s", ibcm_type_name(msg.type));
		cmfix_receive(fix, cmfix_other, &msg); /* the ids are right */
		msg.local_id++;
		cmfix_receive(fix, cmfix_peer, &msg); /* another connection of the peer's */
	}
}

static void nobody_else_speaks_about_a_connection(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req, asked = cmfix_req(), rep;
	struct cm_machine_conn *active = cmfix_active(fix, &req);
	struct cm_machine_conn *passive = cmfix_passive(fix, &asked, 1, &rep);
	struct cm_conn_view view;
	(void)state;
	receive_forged(fix, 0x2002, req.local_id);
	fix->qps[0].qpn = fix->qps[1].qpn; /* that the DREQ is about */
	receive_forged(fix, asked.local_id, rep.local_id);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	cm_machine_conn_view(active, &view);
	assert_int_equal(view.state, CM_STATE_CONNECTED);
	cm_machine_conn_view(passive, &view);
	assert_int_equal(view.state, CM_STATE_ACCEPTING);
	/* Nobody else's REQ, or giving up of it, is about the connection. */
	struct ibcm_msg rej = cmfix_about(IBCM_REJ, 0, asked.local_id, 0);
	cmfix_receive(fix, cmfix_other, &rej);
	cmfix_no_event(fix);
	cm_machine_disconnect(active);
	cmfix_sent(fix, IBCM_DREQ);
	receive_forged(fix, 0x2002, req.local_id);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	cm_machine_conn_free(active);
	cm_machine_conn_free(passive);
	cmfix_free(fix);
	PROVES("CM-27 CM-30");
}

static void an_attempt_is_answered_by_its_peer_only(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conn;
	(void)state;
	assert_int_equal(cmfix_connect(fix, &conn), 0);
	struct ibcm_msg req = cmfix_sent(fix, IBCM_REQ)->msg;
	for (size_t i = 0; i < sizeof(about_connections) / sizeof(about_connections[0]); i++) {
		struct ibcm_msg msg = forged(fix, about_connections[i], 0x77, req.local_id);
		cmfix_receive(fix, cmfix_other, &msg);
	}
	struct ibcm_msg rep = cmfix_rep(&req);
	rep.rep.qpn = 1; /* no queue pair for connections */
	cmfix_receive(fix, cmfix_peer, &rep);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	rep.rep.qpn = 2;
	cmfix_receive(fix, cmfix_peer, &rep);
	cmfix_event(fix, CM_CONNECTED);
	cm_machine_conn_free(conn);
	cmfix_free(fix);
	PROVES("CM-30");
}

static void what_is_no_message_is_dropped(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg req = cmfix_req();
	uint8_t mad[IBCM_MAD_LEN], bad[IBCM_MAD_LEN];
	static const size_t places[] = { 0, 1, 2, 3, 4, 16 }; /* version, class, method, .. */
	(void)state;
	assert_int_equal(ibcm_encode(&req, mad), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		TRIES("byte %zu", places[i]);
		memcpy(bad, mad, sizeof(bad));
		bad[places[i]] ^= 0x40;
		cm_machine_receive(fix->machine, cmfix_own, cmfix_peer, bad, sizeof(bad), fix->now);
	}
	cm_machine_receive(fix->machine, cmfix_own, cmfix_peer, mad, sizeof(mad) - 1, fix->now);
	cm_machine_receive(fix->machine, cmfix_own, cmfix_peer, mad, 0, fix->now);
	/* for an address that is not ours (any more) */
	cm_machine_receive(fix->machine, cmfix_other, cmfix_peer, mad, sizeof(mad), fix->now);
	cmfix_run(fix);
	cmfix_silent(fix);
	cmfix_no_event(fix);
	assert_int_equal(dropped(fix), sizeof(places) / sizeof(places[0]) + 3);
	cmfix_free(fix);
	PROVES("CM-2");
}

static void a_datagram_service_is_refused(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct ibcm_msg ask = { .type = IBCM_SIDR_REQ, .transaction_id = 5, .local_id = 0x3003 };
	(void)state;
	ask.sidr_req.service_id = 0x1234;
	cmfix_receive(fix, cmfix_peer, &ask);
	const struct ibcm_msg *rep = &cmfix_sent(fix, IBCM_SIDR_REP)->msg;
	assert_int_equal(rep->sidr_rep.status, 1);
	assert_int_equal(rep->local_id, 0x3003);
	assert_true(rep->transaction_id == 5);
	assert_true(rep->sidr_rep.service_id == 0x1234);
	struct ibcm_msg answer = *rep;
	cmfix_receive(fix, cmfix_peer, &answer); /* nobody has asked */
	cmfix_silent(fix);
	cmfix_free(fix);
	PROVES("CM-28");
}

/* ---- ids and tables */

static void ids_and_psns_differ(void **state)
{
	struct cmfix *fix = cmfix_new(NULL);
	struct cm_machine_conn *conns[16];
	uint32_t seen[16], psns[16];
	(void)state;
	for (unsigned int i = 0; i < 16; i++) {
		assert_int_equal(cmfix_connect(fix, &conns[i]), 0);
		const struct ibcm_msg *req = &cmfix_sent(fix, IBCM_REQ)->msg;
		seen[i] = req->local_id;
		psns[i] = req->req.starting_psn;
		for (unsigned int j = 0; j < i; j++) {
			/* not even near each other */
			assert_true(seen[i] - seen[j] + 1000 > 2000);
			assert_int_not_equal(psns[i], psns[j]);
		}
	}
	for (unsigned int i = 0; i < 16; i++)
		cm_machine_conn_free(conns[i]);
	cmfix_free(fix);
	PROVES("CM-24");
}

/* From the appendix of the paper: the key 00 01 .. 0f, and 15 bytes 00 01 .. 0e. */
static void the_hash_is_siphash(void **state)
{
	uint8_t key[16], data[15];
	(void)state;
	for (uint8_t i = 0; i < 16; i++)
		key[i] = i;
	memcpy(data, key, sizeof(data));
	assert_true(siphash(key, data, sizeof(data)) == UINT64_C(0xa129ca6149be45e5));
	assert_true(siphash(key, data, 8) != siphash(key, data, 7));
}

static void timers_fire_in_their_order(void **state)
{
	struct cm_timer timers[200] = { 0 };
	struct cm_timers heap = { 0 };
	struct random random = { 7 };
	(void)state;
	assert_true(cm_timers_reserve(&heap, 200));
	for (int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < 1000; i++) {
			struct cm_timer *timer = &timers[random_below(&random, 200)];
			if (random_below(&random, 3))
				cm_timers_set(&heap, timer, random_below(&random, 100));
			else
				cm_timers_stop(&heap, timer);
		}
		uint64_t last = 0;
		unsigned int running = 0, fired = 0;
		for (unsigned int i = 0; i < 200; i++)
			running += timers[i].place != 0;
		for (struct cm_timer *timer; (timer = cm_timers_first(&heap)); fired++) {
			assert_true(timer->at >= last);
			last = timer->at;
			cm_timers_stop(&heap, timer);
		}
		assert_int_equal(fired, running);
	}
	cm_timers_free(&heap);
}

/* Many REPs are to be repeated at once: the event loop is not kept by them. */
static void repeats_leave_time_for_others(void **state)
{
	enum { CONNS = 200, AT_ONCE = 64 };
	const struct cm_limits limits = { .requests_per_peer = CONNS };
	struct cmfix *fix = cmfix_new(&limits);
	struct cm_machine_conn *conns[CONNS];
	struct ibcm_msg req = cmfix_req(), rep;
	(void)state;
	for (uint32_t i = 0; i < CONNS; i++) {
		req.local_id++;
		req.req.qpn++;
		fix->qps[0].state = CMFIX_INIT; /* another one, which need not be told apart */
		conns[i] = cmfix_passive(fix, &req, 0, &rep);
	}
	fix->now += CMFIX_REPEAT;
	for (size_t left = CONNS; left > 0;) {
		const size_t now = left < AT_ONCE ? left : AT_ONCE;
		assert_true(cm_machine_deadline(fix->machine) <= fix->now);
		cm_machine_run(fix->machine, fix->now);
		for (size_t i = 0; i < now; i++)
			cmfix_sent(fix, IBCM_REP);
		cmfix_silent(fix);
		left -= now;
	}
	assert_true(cm_machine_deadline(fix->machine) > fix->now);
	for (size_t i = 0; i < CONNS; i++)
		cm_machine_conn_free(conns[i]);
	cmfix_free(fix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_reqs_are_refused_at_once),
		cmocka_unit_test(a_req_may_name_another_address_of_ours),
		cmocka_unit_test(a_flood_of_reqs_uses_up_one_peers_share),
		cmocka_unit_test(connections_are_bounded_for_a_peer_and_in_all),
		cmocka_unit_test(requests_that_nobody_confirms_make_room),
		cmocka_unit_test(nobody_else_speaks_about_a_connection),
		cmocka_unit_test(an_attempt_is_answered_by_its_peer_only),
		cmocka_unit_test(what_is_no_message_is_dropped),
		cmocka_unit_test(a_datagram_service_is_refused),
		cmocka_unit_test(ids_and_psns_differ),
		cmocka_unit_test(the_hash_is_siphash),
		cmocka_unit_test(timers_fire_in_their_order),
		cmocka_unit_test(repeats_leave_time_for_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
