/* SPDX-License-Identifier: MIT */
/* Rare turns of exchanges: a failure in the middle of one, a message of the peer that is late,
 * repeated or answers another request, and time limits. Each test checks what has to happen without
 * the timer that would end the exchange as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND UINT64_C(1000000)

/** One RNIC on each side and a connection, then a second RNIC on each side that nobody tries to use
 *  yet. */
static struct pair *about_to_grow(int *ret_conn)
{
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	*ret_conn = pair_connected(pair);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 1);
		pair_add_device_quietly(pair, side, &info);
	}
	pair_clear_log(pair);
	return pair;
}

static uint8_t number_of_new(struct pair *pair)
{
	assert_non_null(pair_lgr(pair, S)->llc->subject);
	return pair_lgr(pair, S)->llc->subject->number;
}

/* ---- Proposal ---- */

/** The subnet in a Proposal has no bit of the host part, whatever the length of the mask (A1). */
static void network_of_a_proposal(void **state)
{
	(void)state;
	for (unsigned int len = 0; len <= 32; len++) {
		TRIES("len %u", len);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		int c = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
		struct smcr_conn_params params = pair_params(pair, C, SMCR_ROLE_CLIENT, c);
		struct smcr_device_info info = pair_device(C, 0);
		memset(params.local.ip, 0xFF, 4);
		params.local_prefix_len = (uint8_t)len;
		memset(info.prefixes[0].ip, 0xFF, 4);
		info.prefixes[0].prefix_len = (uint8_t)len;
		pair_update_device(pair, C, &info);
		struct smcr_conn *conn;
		assert_int_equal(smcr_conn_start(pair->side[C].engine, &params, &conn), 0);
		const struct smcr_clc_proposal *sent = &conn->rv.proposal;
		assert_int_equal(sent->ipv4_mask_len, len);
		uint32_t mask = len ? UINT32_MAX << (32 - len) : 0;
		assert_int_equal(sent->ipv4_subnet, mask);
		pair_free(pair);
	}
	PROVES("CLC-6");
}

/* ---- first contact ---- */

/** The client cannot use the link that the server asks it to confirm: both sides go back to TCP at
 *  once. */
static void client_cannot_start_sending(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	pair->side[C].fail_qp_start = 1;
	int c = pair_connect(pair, C);
	pair_run(pair, 2 * SECOND); /* the client lets the server decline first */
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_end(pair, c, side)->fallback, 1);
	assert_int_equal(pair_last_clc(pair, C, SMCR_CLC_DECLINE)->clc.decline.diagnosis,
			 smcr_clc_diagnosis(SMCR_REASON_QP_NOT_READY));
	assert_null(pair_lgr(pair, C));
	pair_free(pair);
	PROVES("ERR-14");
}

/** A34: the server cannot even create a second link, and says so at once. */
static void server_cannot_offer_a_second_link(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(pick.seen > 0, 1);
	pair->side[S].fail_qp_create = 1;
	pair_set_pick(pair, NULL);
	pair_pump(pair); /* no time passes */
	const struct pair_msg *decline = pair_last_clc(pair, S, SMCR_CLC_DECLINE);
	assert_non_null(decline);
	assert_int_equal(decline->clc.decline.diagnosis, SMCR_REASON_ADD_LINK_FAILED);
	pair_run(pair, SECOND);
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_end(pair, c, side)->fallback, 1);
	pair_free(pair);
	PROVES("ERR-18");
}

/** The server loses the link when its ADD LINK may have arrived. It does not decline before it
 *  knows that it has not. */
static void server_loses_the_link_with_add_link_under_way(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	while (!pair_lgr(pair, S) || pair_lgr(pair, S)->llc->step != SMCR_LLC_S_ADD)
		assert_true(pair_step(pair));
	pair->side[S].hold_completions = true;
	pair_pump(pair);
	assert_false(pair_lgr(pair, S)->fc.committed);
	pair_qp_fails(pair, S, 1);
	pair_run(pair, 1000);
	assert_true(pair_lgr(pair, S)->fc.declining);
	assert_int_equal(pair_end(pair, c, S)->failed + pair_end(pair, c, S)->fallback, 0);
	pair->side[S].hold_completions = false;
	pair_run(pair, SECOND);
	assert_int_equal(pair_end(pair, c, S)->failed, 1); /* ADD LINK had arrived */
	assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_DECLINE), 0);
	pair_set_pick(pair, NULL);
	pair_run(pair, 20 * SECOND);
	pair_free(pair);
	PROVES("ERR-7 ERR-8");
}

/** The outcome of a connection is decided before the host is told: what TCP does in between changes
 *  nothing. */
static void outcome_is_certain(void **state)
{
	(void)state;
	for (int event = 0; event < 2; event++) {
		TRIES("event %d", event);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		pair->side[C].refuse = SMCR_REASON_CONFIG;
		int c = pair_start_alone(pair, C, SMCR_ROLE_CLIENT);
		struct pair_end *end = pair_end(pair, c, C);
		assert_int_equal(end->smc->rv.step, SMCR_RV_OUTCOME);
		smcr_conn_tcp_event(end->smc, event ? SMCR_TCP_RESET : SMCR_TCP_FIN);
		assert_int_equal(end->failed + end->fallback, 0);
		assert_false(end->smc->tcp_fin);
		pair_pump(pair);
		assert_int_equal(end->fallback, 1);
		assert_int_equal(end->last.reason, SMCR_REASON_CONFIG);
		pair_free(pair);
	}
}

/** The server's link fails while Confirm is on its way: the server answers Confirm by a Decline,
 * and does not go on with a link that cannot work. */
static void link_fails_before_confirm(void **state)
{
	(void)state;
	for (int at_once = 0; at_once < 2; at_once++) {
		TRIES("at once %d", at_once);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = {
			.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		struct smcr_conn *conn = pair_end(pair, c, S)->smc;
		assert_int_equal(conn->rv.step, SMCR_RV_S_AWAIT_CONFIRM);
		smcr_link_fail(conn->rv.link, SMCR_LLC_DEL_LOST_PATH, "made to fail");
		if (!at_once)
			pair_pump(pair);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		for (int side = 0; side < 2; side++)
			assert_int_equal(pair_end(pair, c, side)->fallback, 1);
		assert_null(pair_lgr(pair, S));
		pair_free(pair);
	}
	PROVES("ERR-4");
}

/** The engine is freed while a group is about to end: the group and its timers are freed too. */
static void engine_goes_while_a_group_ends(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	smcr_lgr_end(pair_lgr(pair, S), ECONNRESET);
	pair_qp_fails(pair, C, 1);
	pair_free(pair);
}

/* ---- the rendezvous as a whole ---- */

/** Each message of the peer may take its time, but not all of them together (ERR-10). */
static void rendezvous_takes_too_long(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.clc_total_timeout = 3 * SECOND;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, 3 * SECOND - 1);
	assert_non_null(pair_end(pair, c, S)->smc);
	pair_run(pair, 1);
	assert_int_equal(pair_end(pair, c, S)->failed, 1);
	assert_int_equal(pair_end(pair, c, S)->last.error, ETIMEDOUT);
	pair_run(pair, 60 * SECOND);
	assert_null(pair_end(pair, c, C)->smc);
	pair_free(pair);
	PROVES("ERR-10");
}

/** TCP's FIN overtakes the message that ends a first contact on the links: no data are lost. */
static void fin_during_first_contact(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	struct smcr_conn *conn = pair_end(pair, c, C)->smc;
	assert_int_equal(conn->rv.step, SMCR_RV_LLC);
	smcr_conn_tcp_event(conn, SMCR_TCP_FIN);
	assert_true(conn->tcp_fin);
	assert_int_equal(pair_end(pair, c, C)->failed, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->established, 1);
	pair_free(pair);
}

/* ---- ADD LINK ---- */

/** The server's end of the new link fails while RTokens are exchanged: the exchange goes on to its
 *  end, and then the link is deleted. */
static void new_link_fails_during_continuations(void **state)
{
	int c;
	(void)state;
	struct pair *pair = about_to_grow(&c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_ADD_CONT);
	uint8_t number = number_of_new(pair);
	pair_qp_fails(pair, S, number);
	pair_pump(pair);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	const struct pair_msg *order = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
	assert_non_null(order);
	assert_int_equal(order->llc.delete_link.link_number, number);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_CONFIRM_LINK, false), 0);
	assert_null(pair_link(pair, S, number));
	assert_null(pair_link(pair, C, number));
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_IDLE);
	pair_exchange(pair, c);
	pair_free(pair);
}

/** Deployed clients refuse a link that they had accepted if something fails later. The server
 *  deletes it at once, whether it waits for RTokens or for CONFIRM LINK. A refusal of another link,
 *  or on another link, does not count. */
static void refused_after_it_was_accepted(void **state)
{
	(void)state;
	for (int confirming = 0; confirming < 2; confirming++) {
		TRIES("confirming %d", confirming);
		int c;
		struct pair *pair = about_to_grow(&c);
		struct pair_pick pick = {
			.from = C,
			.type = confirming ? SMCR_LLC_CONFIRM_LINK : SMCR_LLC_ADD_LINK_CONT,
			.reply = true,
			.verdict = PAIR_LOSE,
		};
		pair_set_pick(pair, &pick);
		pair_add_link(pair, S);
		pair_pump(pair);
		assert_int_equal(pair_lgr(pair, S)->llc->step,
				 confirming ? SMCR_LLC_S_CONFIRM_ADDED : SMCR_LLC_S_ADD_CONT);
		uint8_t number = number_of_new(pair);
		const struct smcr_llc_msg refusal = {
			.type = SMCR_LLC_ADD_LINK,
			.reply = true,
			.add_link = { .reject = true,
				      .reject_reason = SMCR_LLC_REJECT_NO_ALT_PATH,
				      .link_number = number },
		};
		pair_inject_llc(pair, C, 1, &refusal);
		pair_pump(pair);
		const struct pair_msg *order = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_non_null(order);
		assert_int_equal(order->llc.delete_link.link_number, number);
		assert_null(pair_link(pair, S, number));
		assert_null(pair_link(pair, C, number));
		pair_exchange(pair, c);
		pair_free(pair);
	}
}

/** The server has given up its ADD LINK, and the client does not know yet. The client answers the
 *  server's next request, and frees the new link (SER-7). */
static void rmb_is_told_after_an_exchange_was_given_up(void **state)
{
	int c;
	(void)state;
	struct pair *pair = about_to_grow(&c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_ADD_CONT);
	const struct smcr_llc_msg rmb = { .type = SMCR_LLC_CONFIRM_RKEY,
					  .confirm_rkey = { .rkey = 0x7777, .vaddr = 0x123000 } };
	uint8_t buf[SMCR_LLC_LEN];
	assert_int_equal(smcr_llc_encode(&rmb, SMCR_DIALECT_DEPLOYED, buf, sizeof(buf)),
			 SMCR_LLC_LEN);
	smcr_engine_recv(pair->side[C].engine, pair_link_ref(pair, C, 1), buf, sizeof(buf));
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_IDLE);
	assert_non_null(smcr_peer_rmb_find(pair_lgr(pair, C), pair_link(pair, C, 1), 0x7777));
	pair_free(pair);
	PROVES("SER-7");
}

/** The same while the client waits for the deletion of a new link that has failed: the server still
 *  knows that link, and its DELETE LINK is answered. */
static void order_after_an_exchange_was_given_up(void **state)
{
	int c;
	(void)state;
	struct pair *pair = about_to_grow(&c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	struct pair_pick cont = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &cont);
	pair_add_link(pair, S);
	pair_pump(pair);
	uint8_t number = number_of_new(pair);
	pair_set_pick(pair, &pick);
	pair_qp_fails(pair, C, number);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_DELETE);
	smcr_llc_server_gave_up(pair_lgr(pair, C), NULL);
	pair_pump(pair);
	assert_non_null(pair_link(pair, C, number));
	pair_qp_fails(pair, S, number);
	smcr_llc_order_deletion(pair_lgr(pair, S), pair_link(pair, S, number),
				pair_link(pair, S, 1));
	pair_pump(pair);
	const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_DELETE_LINK, true);
	assert_non_null(reply);
	assert_int_equal(reply->llc.delete_link.reason, 0);
	assert_null(pair_link(pair, C, number));
	assert_null(pair_link(pair, S, number));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("SER-7 DELL-2");
}

/** DELL-2: the client frees the new link when its reply to DELETE LINK has completed, not when its
 *  earlier messages have. */
static void link_goes_with_the_right_completion(void **state)
{
	int c;
	(void)state;
	struct pair *pair = about_to_grow(&c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	while (pair_lgr(pair, C)->llc->step != SMCR_LLC_C_AWAIT_ADD_CONT)
		assert_true(pair_step(pair));
	pair->side[C].hold_completions = true;
	pair_pump(pair);
	struct smcr_link *link = pair_link(pair, C, 1);
	uint64_t accepted = link->tx_done;
	assert_int_equal(link->tx_next - accepted, 1);
	uint8_t number = number_of_new(pair);
	pair_qp_fails(pair, S, number);
	smcr_llc_order_deletion(pair_lgr(pair, S), pair_link(pair, S, number),
				pair_link(pair, S, 1));
	pair_pump(pair);
	assert_int_equal(link->tx_next - accepted, 2);
	pair->side[C].hold_completions = false;
	while (link->tx_done == accepted)
		assert_true(pair_step(pair));
	assert_int_equal(link->tx_done, accepted + 1);
	assert_int_not_equal(pair_link(pair, C, number)->deletion.state, SMCR_DELETION_AGREED);
	pair_pump(pair);
	assert_null(pair_link(pair, C, number));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("DELL-2");
}

static struct smcr_llc_msg rmb_of_link(uint32_t rkey, uint8_t other)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY };
	msg.confirm_rkey.rkey = rkey;
	msg.confirm_rkey.vaddr = (uint64_t)rkey << 16;
	msg.confirm_rkey.num_tokens = other ? 1 : 0;
	msg.confirm_rkey.other[0] = (struct smcr_llc_link_rtoken){ .link_number = other,
								   .rkey = rkey + 1,
								   .vaddr = (uint64_t)rkey << 16 };
	return msg;
}

/** An RMB is announced for one link, just after another link was added: the server refuses, so that
 *  the RMB is announced for both (A53). Earlier announcements of an RMB count for that RMB alone.
 */
static void each_rmb_is_told_for_itself(void **state)
{
	int c;
	(void)state;
	struct pair *pair = about_to_grow(&c);
	pair_add_link(pair, S);
	pair_pump(pair);
	uint8_t number = pair_last_llc(pair, S, SMCR_LLC_ADD_LINK, false)->llc.add_link.link_number;
	struct smcr_link *fresh = pair_link(pair, S, number), *first = pair_link(pair, S, 1);
	assert_int_equal(fresh->state, SMCR_LINK_ACTIVE);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	const struct smcr_llc_msg both = rmb_of_link(0x7777, number), one = rmb_of_link(0x8888, 0);
	pair_inject_llc(pair, C, 1, &both);
	pair_pump(pair);
	assert_non_null(smcr_peer_rmb_find(pair_lgr(pair, S), fresh, 0x7778));
	pair_inject_llc(pair, C, 1, &one);
	pair_pump(pair);
	assert_int_equal(pick.seen, 2);
	assert_null(smcr_peer_rmb_find(pair_lgr(pair, S), first, 0x8888));
	assert_int_equal(fresh->state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ERR-58");
}

/* ---- DELETE LINK ---- */

/** The server answers that it does not know the link which has failed at the client. So both have
 *  deleted it, and the client may use its number again. */
static void failed_link_is_unknown_to_the_server(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	uint8_t number = 3 - pair_conn_view(pair, c, C).link_number;
	pair_qp_fails(pair, C, number);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	assert_int_equal(pair_link_view(pair, C, number).state, SMCR_LINK_FAILED);
	const struct smcr_llc_msg unknown = {
		.type = SMCR_LLC_DELETE_LINK,
		.reply = true,
		.delete_link = { .link_number = number, .reason = SMCR_LLC_DEL_UNKNOWN_LINK }
	};
	pair_set_pick(pair, NULL);
	pair_inject_llc(pair, S, (uint8_t)(3 - number), &unknown);
	pair_pump(pair);
	assert_null(pair_link(pair, C, number));
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("ERR-57");
}

/** Connections may take five seconds to leave a link that is deleted in good order, not longer
 *  (A48). */
static void leaving_takes_five_seconds_at_most(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	uint8_t number = pair_conn_view(pair, c, S).link_number;
	pair->side[S].hold_completions = true;
	pair_send(pair, c, S, 100, 7);
	pair_pump(pair);
	smcr_llc_want_deletion(pair_link(pair, S, number), SMCR_LLC_DEL_OPERATOR);
	pair_run(pair, 5 * SECOND - 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	pair_run(pair, 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	pair_expect(pair, c, C, 100, 7);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("DELL-5");
}

/* ---- messages that wait ---- */

/** Messages that wait for the end of an exchange are handled in their order. Those of a link that
 *  has failed are not handled. */
static void queue_of_messages(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_link *links[2] = { pair_link(pair, S, 1), pair_link(pair, S, 2) }, *link;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_RKEY };
	for (uint8_t i = 0; i < 4; i++) {
		msg.delete_rkey.count = (uint8_t)(i + 1);
		smcr_llc_queue(links[i % 2], &msg);
	}
	for (uint8_t i = 0; i < 2; i++) {
		assert_true(smcr_llc_dequeue(lgr, &link, &msg));
		assert_ptr_equal(link, links[i]);
		assert_int_equal(msg.delete_rkey.count, i + 1);
	}
	links[0]->state = SMCR_LINK_DEACTIVATING;
	assert_true(smcr_llc_dequeue(lgr, &link, &msg));
	links[0]->state = SMCR_LINK_ACTIVE;
	assert_ptr_equal(link, links[1]);
	assert_int_equal(msg.delete_rkey.count, 4);
	assert_false(smcr_llc_dequeue(lgr, &link, &msg));
	/* The waiting messages of a link go with that link. */
	for (uint8_t i = 0; i < 4; i++) {
		msg.delete_rkey.count = (uint8_t)(i + 1);
		smcr_llc_queue(links[i % 2], &msg);
	}
	smcr_llc_drop_queued(links[0]);
	for (uint8_t i = 1; i < 4; i += 2) {
		assert_true(smcr_llc_dequeue(lgr, &link, &msg));
		assert_ptr_equal(link, links[1]);
		assert_int_equal(msg.delete_rkey.count, i + 1);
	}
	assert_false(smcr_llc_dequeue(lgr, &link, &msg));
	pair_free(pair);
}

/* ---- calls of the host ---- */

static void calls_at_the_wrong_time(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_engine *engine = pair->side[S].engine;
	struct smcr_device_info info = pair_device(S, 2);
	info.mtu = 0;
	assert_int_equal(smcr_engine_device_add(engine, &info), -EINVAL);
	info = pair_device(S, 2);
	info.num_prefixes = SMCR_MAX_DEVICE_PREFIXES + 1;
	assert_int_equal(smcr_engine_device_add(engine, &info), -EINVAL);
	info = pair_device(S, 2);
	memset(info.name, 'x', sizeof(info.name));
	assert_int_equal(smcr_engine_device_add(engine, &info), -EINVAL);
	info = pair_device(S, 2);
	info.prefixes[0].family = 99;
	assert_int_equal(smcr_engine_device_add(engine, &info), -EINVAL);
	info = pair_device(S, 2);
	info.prefixes[0].prefix_len = 33;
	assert_int_equal(smcr_engine_device_add(engine, &info), -EINVAL);
	info.prefixes[0].prefix_len = 32;
	assert_int_equal(smcr_engine_device_add(engine, &info), 0);
	assert_int_equal(smcr_engine_device_add(engine, &info), -EEXIST);
	smcr_engine_device_remove(engine, 4711);
	smcr_engine_device_remove(engine, info.id);
	assert_int_equal(smcr_engine_device_update(engine, &info), -ENODEV);
	info.mtu = 0;
	assert_int_equal(smcr_engine_device_update(engine, &info), -EINVAL);

	/* The engine refuses a second end of the same connection. */
	struct smcr_conn *conn = pair_end(pair, c, S)->smc;
	smcr_conn_close(conn, false);
	smcr_conn_close(conn, true);
	smcr_conn_abort(conn);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, C)->reset, 0);
	smcr_conn_close(pair_end(pair, c, C)->smc, false);
	pair_pump(pair);
	assert_int_equal(pair_end(pair, c, S)->reset, 0);
	assert_int_equal(pair_end(pair, c, S)->closed, 1);
	assert_false(pair_end(pair, c, S)->last.tcp_reset);
	pair_free(pair);
}

/** The device now takes a smaller MTU than that of a link: the packets of the link would get lost,
 * so the link is deleted. */
static void mtu_of_a_device_shrinks(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_device_info info = pair_device(S, 1);
	info.mtu = SMCR_MTU_2048;
	pair_update_device(pair, S, &info);
	pair_pump(pair);
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
	info.mtu = SMCR_MTU_1024;
	pair_update_device(pair, S, &info);
	pair_pump(pair);
	assert_non_null(pair_link(pair, S, 2));
	info.mtu = SMCR_MTU_512;
	pair_update_device(pair, S, &info);
	pair_pump(pair);
	assert_true(!pair_link(pair, S, 2) || pair_link_view(pair, S, 2).mtu == SMCR_MTU_512);
	assert_non_null(pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false));
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(network_of_a_proposal),
		cmocka_unit_test(client_cannot_start_sending),
		cmocka_unit_test(server_cannot_offer_a_second_link),
		cmocka_unit_test(server_loses_the_link_with_add_link_under_way),
		cmocka_unit_test(outcome_is_certain),
		cmocka_unit_test(link_fails_before_confirm),
		cmocka_unit_test(engine_goes_while_a_group_ends),
		cmocka_unit_test(rendezvous_takes_too_long),
		cmocka_unit_test(fin_during_first_contact),
		cmocka_unit_test(new_link_fails_during_continuations),
		cmocka_unit_test(refused_after_it_was_accepted),
		cmocka_unit_test(rmb_is_told_after_an_exchange_was_given_up),
		cmocka_unit_test(order_after_an_exchange_was_given_up),
		cmocka_unit_test(link_goes_with_the_right_completion),
		cmocka_unit_test(each_rmb_is_told_for_itself),
		cmocka_unit_test(failed_link_is_unknown_to_the_server),
		cmocka_unit_test(leaving_takes_five_seconds_at_most),
		cmocka_unit_test(queue_of_messages),
		cmocka_unit_test(calls_at_the_wrong_time),
		cmocka_unit_test(mtu_of_a_device_shrinks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
