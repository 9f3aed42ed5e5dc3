/* SPDX-License-Identifier: MIT */
/* LLC at any time: collisions, TEST LINK, what no peer may send (RFC 7609 3.5.5.3, C.7.1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc_delete_all.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

static void gone(struct pair *pair, int side)
{
	struct smcr_engine_view view;
	smcr_engine_get_view(pair->side[side].engine, &view);
	assert_int_equal(view.num_lgrs + view.num_qps + view.num_mrs + view.num_conns, 0);
	assert_int_equal(view.memory_used, 0);
	assert_int_equal(view.num_timers, 0);
}

/* ---- collisions (SER) ---- */

/** A client's request comes while the server's RKEY exchange runs: the request waits. */
static void requests_wait_for_the_rkey_exchange(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	for (int i = 0; i < 3; i++)
		(void)pair_connected(pair);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int last = pair_connect(pair, C); /* needs another RMB */
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, S)->llc->rkey.step, SMCR_RKEY_CONFIRM);
	uint8_t carrier = pair_lgr(pair, S)->llc->rkey.link->number;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK };
	msg.delete_link.link_number = carrier == 1 ? 2 : 1;
	msg.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
	pair_clear_log(pair);
	pair_inject_llc(pair, C, carrier, &msg);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	assert_int_equal(pair_lgr(pair, S)->llc->queued, 1);
	/* the client's RKEY exchange is independent of the server's (SER-3) */
	struct smcr_llc_msg rkey = { .type = SMCR_LLC_CONFIRM_RKEY };
	rkey.confirm_rkey.num_tokens = 1;
	rkey.confirm_rkey.rkey = 0x7777;
	rkey.confirm_rkey.other[0].link_number = msg.delete_link.link_number;
	rkey.confirm_rkey.other[0].rkey = 0x7778;
	pair_inject_llc(pair, C, carrier, &rkey);
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 2);
	pair_set_pick(pair, NULL);
	struct pair_pick drop = {
		.from = S, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_LOSE
	};
	drop.skip = 0;
	pair_set_pick(pair, &drop);
	pair_run(pair, 100000);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	(void)last;
	pair_free(pair);
	PROVES("SER-2 SER-3 SER-5");
}

/** The client's CONFIRM RKEY comes while the server changes links: refused, with C (SER-4). */
static void rkey_while_links_change(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, S, 2);
	pair_pump(pair);
	struct smcr_llc_msg rkey = { .type = SMCR_LLC_CONFIRM_RKEY };
	rkey.confirm_rkey.rkey = 0x7777;
	rkey.confirm_rkey.num_tokens = 1;
	rkey.confirm_rkey.other[0].link_number = 2;
	rkey.confirm_rkey.other[0].rkey = 0x7778;
	struct smcr_llc_msg del = { .type = SMCR_LLC_DELETE_RKEY };
	del.delete_rkey.count = 1;
	del.delete_rkey.rkey[0] = 0x9999;
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_DELETE);
	pair_inject_llc(pair, C, 1, &del); /* DELETE RKEY has no C flag, so it waits */
	assert_int_equal(pair_lgr(pair, S)->llc->queued, 1);
	pair_inject_llc(pair, C, 1, &rkey);
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 1);
	/* the answers on link 1 come in order, behind the message that is held: look at them on
	 * their way */
	struct smcr_link *link = pair_link(pair, S, 1);
	assert_int_equal(link->tx_next - link->tx_done, 2);
	const struct smcr_tx_entry *e = &link->tx[(link->tx_next - 1) % link->tx_depth];
	assert_int_equal(e->llc_type, SMCR_LLC_CONFIRM_RKEY);
	assert_true(e->llc_reply);
	pair_free(pair);
}

static void negative_rkey_is_tried_again(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = pair_grouped(2, &c[0]);
	for (int i = 1; i < 4; i++)
		c[i] = pair_connected(pair);
	/* the client's CONFIRM RKEY meets the server's deletion of link 2 */
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_CONFIRM_RKEY, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	c[4] = pair_connect(pair, C);
	pair_pump(pair);
	uint8_t carrier = pair_lgr(pair, C)->llc->rkey.link->number;
	uint8_t other = carrier == 1 ? 2 : 1;
	struct pair_pick reply = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_clear_log(pair);
	pair_set_pick(pair, &reply);
	pair_fail_link(pair, S, other); /* the deletion starts before CONFIRM RKEY arrives */
	smcr_engine_run(pair->side[S].engine, pair->now);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_DELETE);
	pair_pump(pair);
	const struct pair_msg *neg = pair_last_llc(pair, S, SMCR_LLC_CONFIRM_RKEY, true);
	assert_non_null(neg);
	assert_true(neg->llc.confirm_rkey.negative && neg->llc.confirm_rkey.retry);
	pair_set_pick(pair, NULL);
	pair_run(pair, SECOND);
	assert_true(pair_both_established(pair, c[4]));
	/* the second attempt names the remaining links */
	const struct pair_msg *again = pair_last_llc(pair, C, SMCR_LLC_CONFIRM_RKEY, false);
	assert_int_equal(again->llc.confirm_rkey.num_tokens, 0);
	pair_exchange(pair, c[4]);
	pair_free(pair);
	PROVES("SER-4 RKEY-6 RKEY-7");
}

/** The carrier of an RKEY exchange fails, or the peer does not answer on it: the exchange is not
 *  replayed but starts again on another link. */
static void rkey_exchange_starts_again(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int timeout = 0; timeout < 2; timeout++) {
			TRIES("side %d, timeout %d", side, timeout);
			int c[5];
			struct pair *pair = pair_grouped(2, &c[0]);
			for (int i = 1; i < 4; i++)
				c[i] = pair_connected(pair);
			struct pair_pick pick = { .from = side,
						  .type = SMCR_LLC_CONFIRM_RKEY,
						  .verdict = timeout ? PAIR_LOSE : PAIR_HOLD };
			pair_set_pick(pair, &pick);
			c[4] = pair_connect(pair, C);
			pair_pump(pair);
			struct smcr_lgr *lgr = pair_lgr(pair, side);
			assert_int_equal(lgr->llc->rkey.step, SMCR_RKEY_CONFIRM);
			struct smcr_slab *slab = lgr->llc->rkey.slab;
			uint8_t carrier = lgr->llc->rkey.link->number;
			if (timeout) { /* ERR-37 */
				pair_run(pair, 3900000);
				assert_int_equal(pair_link_view(pair, side, carrier).state,
						 SMCR_LINK_ACTIVE);
				pair_set_pick(pair, NULL);
				pair_run(pair, 200000);
			} else {
				pair_set_pick(pair, NULL);
				pair_fail_link(pair, side, carrier);
				pair_run(pair, 200000);
			}
			assert_null(pair_link(pair, S, carrier));
			assert_null(pair_link(pair, C, carrier));
			assert_int_equal(slab->state, SMCR_SLAB_READY);
			const struct pair_msg *again =
				pair_last_llc(pair, side, SMCR_LLC_CONFIRM_RKEY, false);
			assert_true(again->link != carrier);
			assert_int_equal(again->llc.confirm_rkey.num_tokens, 0);
			pair_run(pair, SECOND);
			/* a client declines if the server's link has gone; otherwise the connection
			 * is established */
			for (int i = 0; i < 2; i++)
				assert_true(pair_end(pair, c[4], i)->established == 1 ||
					    pair_end(pair, c[4], i)->fallback == 1);
			assert_int_equal(pair_end(pair, c[4], S)->fallback,
					 pair_end(pair, c[4], C)->fallback);
			pair_free(pair);
		}
	PROVES("SER-6 ERR-37 RKEY-6");
}

static void delete_rkey_starts_again(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = pair_grouped(2, &c[0]);
	for (int i = 1; i < 5; i++)
		c[i] = pair_connected(pair);
	pair_close(pair, c[4]);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_RKEY, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_run(pair, 61ull * SECOND);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	assert_int_equal(lgr->llc->rkey.step, SMCR_RKEY_DELETE);
	uint8_t carrier = lgr->llc->rkey.link->number;
	pair_set_pick(pair, NULL);
	pair_run(pair, 4ull * SECOND); /* ERR-39 */
	assert_null(pair_link(pair, S, carrier));
	assert_int_equal(smcr_slab_num_rmbs(lgr), 1);
	assert_int_equal(pair_lgr_view(pair, C).num_peer_rmbs, 1);
	int more = pair_connected(pair);
	pair_exchange(pair, more);
	pair_free(pair);
	PROVES("SER-6 ERR-39");
}

/* The last CDC of a connection has arrived, but its link completes nothing for longer than the peer
 * waits for the answer to DELETE RKEY. The sound link that carries the exchange has to stay. */
static void delete_rkey_is_answered_in_time(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].elements_per_rmb = 1;
	config[S].rmb_idle_timeout = SECOND;
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	int c[3], held = 0;
	for (int i = 0; i < 3; i++) {
		c[i] = pair_connected(pair);
		if (pair_end(pair, c[i], C)->smc->tx.link->number == 2)
			held = i;
	}
	assert_int_equal(pair_end(pair, c[held], C)->smc->tx.link->number, 2);
	pair->side[C].hold_link = 2;
	pair->side[C].hold_completions = true;
	for (int side = 0; side < 2; side++)
		smcr_conn_close(pair_end(pair, c[held], side)->smc, false);
	for (int ms = 0; ms < 1500 && pair_lgr(pair, S)->llc->rkey.step != SMCR_RKEY_DELETE; ms++)
		pair_run(pair, 1000);
	assert_int_equal(pair_lgr(pair, S)->llc->rkey.step, SMCR_RKEY_DELETE);
	assert_int_equal(pair_lgr(pair, S)->llc->rkey.link->number, 1);
	/* the answer waits for half of the time that the server waits for it, 4 seconds */
	pair_run(pair, 2 * SECOND - 2000);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_RKEY, true), 0);
	pair_run(pair, 4000);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_RKEY, true), 1);
	pair_run(pair, 3ull * SECOND);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	pair->side[C].hold_completions = false;
	pair_run(pair, SECOND);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_RKEY, true), 1);
	pair_free(pair);
}

static void request_flood(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, S, 2);
	pair_pump(pair);
	struct smcr_llc_msg del = { .type = SMCR_LLC_DELETE_RKEY };
	del.delete_rkey.count = 1;
	for (int i = 0; i < SMCR_LLC_QUEUE_MAX; i++) {
		pair_inject_llc(pair, C, 1, &del);
		assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	}
	pair_inject_llc(pair, C, 1, &del);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_FAILED);
	pair_set_pick(pair, NULL);
	pair_run(pair, 5 * SECOND);
	gone(pair, S);
	pair_free(pair);
	PROVES("SER-5");
}

/* ---- TEST LINK ---- */

static void test_link_answers(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	for (int side = 0; side < 2; side++) {
		uint32_t id = pair_lgr_view(pair, side).id;
		assert_int_equal(smcr_engine_test_link(pair->side[side].engine, id, 2), 0);
		pair_pump(pair);
		const struct pair_msg *q = pair_last_llc(pair, side, SMCR_LLC_TEST_LINK, false);
		const struct pair_msg *a = pair_last_llc(pair, !side, SMCR_LLC_TEST_LINK, true);
		assert_int_equal(q->link, 2);
		assert_int_equal(a->link, 2);
		assert_memory_equal(q->llc.test_link.user_data, a->llc.test_link.user_data, 16);
		pair_run(pair, 5 * SECOND);
		assert_int_equal(pair_link_view(pair, side, 2).state, SMCR_LINK_ACTIVE);
		assert_int_equal(smcr_engine_test_link(pair->side[side].engine, id, 3), -ENOENT);
		assert_int_equal(smcr_engine_test_link(pair->side[side].engine, id + 9, 2),
				 -ENOENT);
	}
	/* TEST LINK during an exchange, of either side */
	struct smcr_llc_msg test = { .type = SMCR_LLC_TEST_LINK,
				     .test_link = { "user data 16 by" } };
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	pair_fail_link(pair, S, 2);
	pair_pump(pair);
	pair_clear_log(pair);
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_DELETE);
	struct pair_pick answer = {
		.from = S, .type = SMCR_LLC_TEST_LINK, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &answer);
	pair_inject_llc(pair, C, 1, &test);
	pair_pump(pair);
	assert_int_equal(answer.seen, 1);
	pair_free(pair);
	PROVES("TEST-1 LLC-6 SER-1");
}

/** TEST LINK comes on link 1 and is answered there at once, with every byte. The answer does not
 *  reach the far end, which has not asked. */
static void answers_test_link(struct pair *pair, int side)
{
	struct smcr_llc_msg test = { .type = SMCR_LLC_TEST_LINK,
				     .test_link = { "0123456789abcde\xff" } };
	unsigned int before = pair_count_llc(pair, side, SMCR_LLC_TEST_LINK, true);
	pair->side[!side].hung = true;
	pair_inject_llc(pair, !side, 1, &test);
	pair_pump(pair); /* no time passes */
	pair->side[!side].hung = false;
	assert_int_equal(pair_count_llc(pair, side, SMCR_LLC_TEST_LINK, true), before + 1);
	const struct pair_msg *answer = pair_last_llc(pair, side, SMCR_LLC_TEST_LINK, true);
	assert_int_equal(answer->link, 1);
	assert_memory_equal(answer->llc.test_link.user_data, test.test_link.user_data, 16);
	assert_int_equal(pair_link_view(pair, side, 1).state, SMCR_LINK_ACTIVE);
}

/** At every step of an exchange about links that leaves link 1 active, on either side. The message
 *  that the step awaits is lost. */
static void test_link_in_every_state(void **state)
{
	static const struct {
		struct pair_pick lost;
		enum smcr_llc_step step; /* step of the side that waits */
		bool later;              /* not in first contact: link 2 is deleted, or the group */
		bool all, by_client;
	} rows[] = {
		{ { .from = S, .type = SMCR_LLC_ADD_LINK }, SMCR_LLC_C_AWAIT_ADD },
		{ { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true }, SMCR_LLC_S_ADD },
		{ { .from = S, .type = SMCR_LLC_ADD_LINK_CONT }, SMCR_LLC_C_AWAIT_ADD_CONT },
		{ { .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true },
		  SMCR_LLC_S_ADD_CONT },
		{ { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 },
		  SMCR_LLC_C_AWAIT_CONFIRM_ADDED },
		{ { .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .link = 2 },
		  SMCR_LLC_S_CONFIRM_ADDED },
		{ { .from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true },
		  SMCR_LLC_S_DELETE,
		  .later = true },
		{ { .from = C, .type = SMCR_LLC_DELETE_LINK },
		  SMCR_LLC_C_AWAIT_DELETE_ALL,
		  .later = true,
		  .all = true,
		  .by_client = true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = rows[i].lost;
		int waits = rows[i].by_client ? pick.from : !pick.from, deletes = !pick.from;
		pick.verdict = PAIR_LOSE;
		if (rows[i].later) {
			(void)pair_connected(pair);
			pair_set_pick(pair, &pick);
			struct smcr_lgr *lgr = pair_lgr(pair, waits);
			if (rows[i].all)
				smcr_llc_delete_all(lgr, SMCR_LLC_DEL_OPERATOR, ECONNRESET);
			else
				pair_fail_link(pair, deletes, 2);
		} else {
			pair_set_pick(pair, &pick);
			(void)pair_connect(pair, C);
		}
		pair_pump(pair);
		assert_int_equal(pick.seen, 1);
		assert_int_equal(pair_lgr(pair, waits)->llc->step, rows[i].step);
		answers_test_link(pair, waits);
		answers_test_link(pair, !waits);
		assert_int_equal(pair_lgr(pair, waits)->llc->step, rows[i].step);
		pair_free(pair);
	}
	PROVES("TEST-1 SER-1");
}

/** While RKEY exchanges run, the own and the peer's, and one that goes on in a CONTINUATION. */
static void test_link_during_rkey(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		for (int i = 0; i < 3; i++)
			(void)pair_connected(pair);
		struct pair_pick pick = { .from = !side,
					  .type = SMCR_LLC_CONFIRM_RKEY,
					  .reply = true,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		(void)pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pick.seen, 1);
		assert_int_equal(pair_lgr(pair, side)->llc->rkey.step, SMCR_RKEY_CONFIRM);
		answers_test_link(pair, side);
		struct smcr_llc_msg first = { .type = SMCR_LLC_CONFIRM_RKEY };
		first.confirm_rkey.rkey = 0x7777;
		first.confirm_rkey.num_tokens = 3;
		for (unsigned int i = 0; i < 2; i++)
			first.confirm_rkey.other[i].link_number = (uint8_t)(100 + i);
		pair->side[!side].hung = true;
		pair_inject_llc(pair, !side, 1, &first);
		pair_pump(pair);
		assert_non_null(pair_lgr(pair, side)->llc->peer_rkey.link);
		answers_test_link(pair, side);
		assert_non_null(pair_lgr(pair, side)->llc->peer_rkey.link);
		pair_free(pair);
	}
	PROVES("TEST-1 SER-1");
}

static void test_link_fails(void **state)
{
	(void)state;
	for (int variant = 0; variant < 3; variant++) {
		TRIES("variant %d", variant);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		struct pair_pick pick = {
			.from = C, .type = SMCR_LLC_TEST_LINK, .reply = true, .verdict = PAIR_LOSE
		};
		pair_set_pick(pair, &pick);
		struct smcr_llc_msg reply = { .type = SMCR_LLC_TEST_LINK, .reply = true };
		if (variant != 2)
			assert_int_equal(smcr_engine_test_link(pair->side[S].engine,
							       pair_lgr_view(pair, S).id, 2),
					 0);
		pair_pump(pair);
		if (variant == 0) {
			pair_run(pair, 3900000);
			assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
			pair_run(pair, 200000); /* ERR-38 */
		} else if (variant == 1) {      /* other user data than were sent */
			memcpy(reply.test_link.user_data, pair_link(pair, S, 2)->test_data, 16);
			reply.test_link.user_data[15] ^= 1;
			pair_inject_llc(pair, C, 2, &reply);
		} else { /* a reply without a request */
			pair_inject_llc(pair, C, 2, &reply);
		}
		pair_pump(pair);
		assert_null(pair_link(pair, S, 2));
		assert_null(pair_link(pair, C, 2));
		pair_free(pair);
	}
	PROVES("TEST-2 ERR-38 ERR-60");
}

/* ---- numbers and unknown messages ---- */

static void unknown_messages(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	for (unsigned int type = 0; type < 256; type++) {
		uint8_t buf[SMCR_LLC_LEN] = { (uint8_t)type, SMCR_LLC_LEN };
		if ((type & 0xC0) != 0x80)
			continue;
		uint64_t dropped = pair_engine_view(pair, S).llc_dropped;
		pair_inject_raw(pair, C, 1, buf, sizeof(buf));
		assert_int_equal(pair_engine_view(pair, S).llc_dropped, dropped + 1);
		assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	}
	pair_exchange(pair, c);
	pair_free(pair);
	static const uint8_t errors[] = { 0, 5, 10, 0x3F, 0x40, 0x7F, 0xC0, 0xFF };
	for (size_t i = 0; i < sizeof(errors); i++) {
		TRIES("row %zu", i);
		pair = pair_grouped(2, &c);
		uint8_t buf[SMCR_LLC_LEN] = { errors[i], SMCR_LLC_LEN };
		pair_inject_raw(pair, C, 2, buf, sizeof(buf));
		assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_FAILED);
		pair_pump(pair);
		const struct pair_msg *del = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_PROTOCOL_VIOLATION);
		pair_free(pair);
	}
	/* lengths */
	for (size_t len = 0; len < 64; len++) {
		TRIES("len %zu", len);
		if (len == SMCR_LLC_LEN)
			continue;
		pair = pair_grouped(2, &c);
		uint8_t buf[64] = { SMCR_LLC_TEST_LINK, SMCR_LLC_LEN };
		pair_inject_raw(pair, C, 2, buf, len);
		assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_FAILED);
		pair_free(pair);
	}
	PROVES("LLC-3 ERR-61 ERR-63");
}

static void wrong_role(void **state)
{
	static const struct {
		int from;
		struct smcr_llc_msg msg;
	} rows[] = {
		{ C, { .type = SMCR_LLC_CONFIRM_LINK } },
		{ S, { .type = SMCR_LLC_CONFIRM_LINK, .reply = true } },
		{ C, { .type = SMCR_LLC_CONFIRM_LINK, .reply = true } },
		{ S, { .type = SMCR_LLC_CONFIRM_LINK } },
		{ S, { .type = SMCR_LLC_ADD_LINK, .reply = true } },
		{ C, { .type = SMCR_LLC_ADD_LINK, .reply = true } },
		{ C, { .type = SMCR_LLC_ADD_LINK_CONT } },
		{ S, { .type = SMCR_LLC_ADD_LINK_CONT } },
		{ S, { .type = SMCR_LLC_ADD_LINK_CONT, .reply = true } },
		{ C, { .type = SMCR_LLC_ADD_LINK_CONT, .reply = true } },
		{ C, { .type = SMCR_LLC_DELETE_LINK, .reply = true } },
		{ S, { .type = SMCR_LLC_DELETE_LINK, .reply = true } },
		{ S, { .type = SMCR_LLC_CONFIRM_RKEY, .reply = true } },
		{ C, { .type = SMCR_LLC_CONFIRM_RKEY, .reply = true } },
		{ C,
		  { .type = SMCR_LLC_CONFIRM_RKEY_CONT, .confirm_rkey_cont = { .num_left = 1 } } },
		{ C,
		  { .type = SMCR_LLC_DELETE_RKEY, .reply = true, .delete_rkey = { .count = 1 } } },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		pair_inject_llc(pair, rows[i].from, 2, &rows[i].msg);
		assert_int_equal(pair_link_view(pair, !rows[i].from, 2).state, SMCR_LINK_FAILED);
		assert_int_equal(pair_link_view(pair, !rows[i].from, 1).state, SMCR_LINK_ACTIVE);
		pair_pump(pair);
		/* the peer is told on the other link, with the reason */
		const struct pair_msg *del =
			pair_last_llc(pair, !rows[i].from, SMCR_LLC_DELETE_LINK, false);
		assert_non_null(del);
		assert_int_equal(del->link, 1);
		assert_int_equal(del->llc.delete_link.link_number, 2);
		assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_PROTOCOL_VIOLATION);
		assert_null(pair_link(pair, S, 2));
		assert_null(pair_link(pair, C, 2));
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-63 LG-10");
}

/** Only the server decides about links. While the server stays silent, a client's request has one
 *  effect at the client: it writes on another link. */
static void client_only_asks(void **state)
{
	(void)state;
	for (int orderly = 0; orderly < 2; orderly++) {
		TRIES("orderly %d", orderly);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		pair->side[S].hung = true;
		if (orderly) {
			struct smcr_command command = { .type = SMCR_COMMAND_LINK_DELETE,
							.lgr = pair_lgr_view(pair, C).id,
							.link = 2,
							.orderly = true };
			uint64_t id;
			assert_int_equal(smcr_engine_command(pair->side[C].engine, &command, &id),
					 0);
		} else {
			pair_fail_link(pair, C, 2);
		}
		pair_run(pair, SECOND);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), 1);
		assert_non_null(pair_link(pair, C, 2));
		assert_int_equal(pair_link_view(pair, C, 2).state,
				 orderly ? SMCR_LINK_ACTIVE : SMCR_LINK_FAILED);
		assert_int_equal(pair_num_qps(pair, C), 2);
		/* DELETE LINK of the server */
		struct smcr_llc_msg order = { .type = SMCR_LLC_DELETE_LINK };
		order.delete_link.link_number = 2;
		order.delete_link.orderly = orderly;
		pair_inject_llc(pair, S, 1, &order);
		pair_pump(pair);
		assert_null(pair_link(pair, C, 2));
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 1);
		/* an RNIC without a link: the client tells the server of it */
		struct smcr_device_info third = pair_device(C, 2);
		pair_add_device(pair, C, &third);
		pair_run(pair, SECOND);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false), 1);
		assert_int_equal(pair_num_qps(pair, C), 1);
		pair_free(pair);
	}
	PROVES("LG-10 DELL-5");
}

/** A client that has asked to delete a link ignores messages on that link (ERR-54). */
static void deleted_link_is_deaf(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	struct smcr_link *link = pair_link(pair, C, 2);
	pair_fail_link(pair, C, 2);
	pair_pump(pair);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY };
	uint8_t buf[SMCR_LLC_LEN];
	assert_int_equal(smcr_llc_encode(&msg, SMCR_DIALECT_DEPLOYED, buf, sizeof(buf)),
			 SMCR_LLC_LEN);
	uint64_t posted = pair_link(pair, C, 1)->tx_next;
	smcr_engine_recv(pair->side[C].engine, link->ref, buf, sizeof(buf));
	assert_int_equal(pair_lgr_view(pair, C).num_peer_rmbs, 1);
	assert_true(pair_link(pair, C, 1)->tx_next == posted);
	/* except a request to end the whole group */
	msg = (struct smcr_llc_msg){ .type = SMCR_LLC_DELETE_LINK, .delete_link = { .all = true } };
	assert_int_equal(smcr_llc_encode(&msg, SMCR_DIALECT_DEPLOYED, buf, sizeof(buf)),
			 SMCR_LLC_LEN);
	smcr_engine_recv(pair->side[C].engine, link->ref, buf, sizeof(buf));
	pair_pump(pair);
	gone(pair, C);
	pair_free(pair);
	PROVES("ERR-54");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_wait_for_the_rkey_exchange),
		cmocka_unit_test(rkey_while_links_change),
		cmocka_unit_test(negative_rkey_is_tried_again),
		cmocka_unit_test(rkey_exchange_starts_again),
		cmocka_unit_test(delete_rkey_starts_again),
		cmocka_unit_test(delete_rkey_is_answered_in_time),
		cmocka_unit_test(request_flood),
		cmocka_unit_test(test_link_answers),
		cmocka_unit_test(test_link_in_every_state),
		cmocka_unit_test(test_link_during_rkey),
		cmocka_unit_test(test_link_fails),
		cmocka_unit_test(unknown_messages),
		cmocka_unit_test(wrong_role),
		cmocka_unit_test(client_only_asks),
		cmocka_unit_test(deleted_link_is_deaf),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
