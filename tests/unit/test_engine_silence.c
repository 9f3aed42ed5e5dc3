/* SPDX-License-Identifier: MIT */
/*
 * A peer that falls silent in the middle of an exchange (RFC 7609 C.7, C.7.1): it sends nothing
 * more, runs no timer and breaks no TCP connection. So everything that happens comes from the other
 * side.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/rows.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S        PAIR_SERVER
#define C        PAIR_CLIENT
#define MILLI    UINT64_C(1000)
#define SECOND   (1000 * MILLI)
#define PATIENCE (10 * SECOND) /* how long a side waits for an answer in first contact */

/** One side hangs when it has posted this message, which does not arrive. */
static enum pair_verdict hang_there(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct pair_pick *last = arg;
	if (!pair_picked(last, msg) || last->seen)
		return PAIR_PASS;
	last->seen = 1;
	pair->side[msg->from].hung = true;
	return PAIR_LOSE;
}

/** A first contact in which one side hangs. @return its connection */
static int first_contact(struct pair *pair, struct pair_pick *last)
{
	last->seen = 0;
	pair->filter = hang_there;
	pair->filter_arg = last;
	int c = pair_connect(pair, C);
	pair_pump(pair);
	assert_int_equal(last->seen, 1);
	return c;
}

static void still_waiting(struct pair *pair, int c, int side)
{
	const struct pair_end *end = pair_end(pair, c, side);
	assert_int_equal(end->established + end->failed + end->fallback, 0);
	assert_non_null(end->smc);
}

/** The TCP connection is reset, and no link is left. */
static void reset_and_cleaned_up(struct pair *pair, int c, int side)
{
	const struct pair_end *end = pair_end(pair, c, side);
	struct smcr_engine_view view;
	assert_int_equal(end->failed, 1);
	assert_int_equal(end->established + end->fallback, 0);
	assert_true(end->tcp_dead);
	smcr_engine_get_view(pair->side[side].engine, &view);
	assert_int_equal(view.num_lgrs + view.num_links + view.num_qps + view.num_mrs +
				 view.num_conns + view.num_timers,
			 0);
}

/** How many CLC messages of this kind are on their way to `side`, which does not read any more. */
static unsigned int unread(struct pair *pair, int c, int side, uint8_t type)
{
	const struct pair_clc *clc;
	struct smcr_clc_msg msg;
	unsigned int n = 0;
	DL_FOREACH (pair_end(pair, c, side)->in, clc)
		n += !smcr_clc_decode(clc->buf, clc->len, &msg) && msg.type == type;
	return n;
}

/** A pair that speaks the RFC's dialect or, by default, the deployed one. */
static struct pair *pair_of_dialect(bool deployed)
{
	struct smcr_config config = pair_config(C);
	config.dialect = deployed ? SMCR_DIALECT_AUTO : SMCR_DIALECT_FORCE_RFC;
	return pair_new(NULL, &config, 2, 2);
}

/** C.7.1: nobody knows what the peer knows, so it is too late for a Decline: the TCP connection is
 *  reset. */
static void first_contact_ends(void **state)
{
	static const struct {
		struct pair_pick last; /* names the side that hangs, and its last message */
		enum smcr_row row;     /* the row of the table for the other side */
	} rows[] = {
		{ { .from = S, .type = SMCR_LLC_CONFIRM_LINK }, SMCR_ROW_ERR_19 },
		{ { .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true }, SMCR_ROW_ERR_21 },
		{ { .from = S, .type = SMCR_LLC_ADD_LINK }, SMCR_ROW_ERR_24 },
		{ { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true }, SMCR_ROW_ERR_25 },
		{ { .from = S, .type = SMCR_LLC_ADD_LINK_CONT }, SMCR_ROW_ERR_27_FIRST },
		{ { .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true },
		  SMCR_ROW_ERR_30_FIRST },
	};
	const size_t num = sizeof(rows) / sizeof(rows[0]);
	(void)state;
	for (size_t k = 0; k < 2 * num; k++) {
		size_t i = k % num;
		bool deployed = k >= num;
		TRIES("deployed %d, row %zu", deployed, i);
		struct pair *pair = pair_of_dialect(deployed);
		struct pair_pick last = rows[i].last;
		int left = !last.from;
		int c = first_contact(pair, &last);
		pair_run(pair, PATIENCE - 100 * MILLI);
		still_waiting(pair, c, left);
		assert_true(pair_num_qps(pair, left) > 0);
		pair_run(pair, 200 * MILLI);
		reset_and_cleaned_up(pair, c, left);
		assert_int_equal(pair_end(pair, c, left)->last.error, ETIMEDOUT);
		assert_int_equal(unread(pair, c, !left, SMCR_CLC_DECLINE), 0);
		assert_int_equal(smcr_engine_row(pair->side[left].engine, rows[i].row,
						 left == S ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT),
				 1);
		pair_free(pair);
	}
	PROVES("ERR-15 ERR-19 ERR-21 ERR-24 ERR-25 ERR-27 ERR-30 RV-6 RV-8");
}

/** The server's next CONTINUATION, sent in its name: one pair fits, and one belongs to another
 *  RMB. */
static void owe_more(struct pair *pair, uint32_t other_ref_rkey)
{
	const struct smcr_slab *slab = pair_lgr(pair, S)->rmbs;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT };
	msg.add_link_cont.link_number = 2;
	msg.add_link_cont.num_rtokens = 3;
	msg.add_link_cont.pair[0].ref_rkey = slab->reg[0].rkey;
	msg.add_link_cont.pair[0].new_rkey = slab->reg[1].rkey;
	msg.add_link_cont.pair[0].new_vaddr = (uintptr_t)slab->base;
	msg.add_link_cont.pair[1].ref_rkey = other_ref_rkey;
	msg.add_link_cont.pair[1].new_rkey = other_ref_rkey + 1;
	msg.add_link_cont.pair[1].new_vaddr = 0x70000;
	pair_inject_llc(pair, S, 1, &msg);
	pair_pump(pair);
}

/**
 * In first contact the server announces more CONTINUATIONs. By the RFC it has one RMB then
 * (3.5.1.6.3), so a CONTINUATION that names a second RMB is out of sync (A60). Deployed servers may
 * tell of more. When the next CONTINUATION does not come, the client does not wait for ever.
 */
static void server_owes_more_rmbs(void **state)
{
	(void)state;
	for (int deployed = 0; deployed < 2; deployed++) {
		TRIES("deployed %d", deployed);
		struct pair *pair = pair_of_dialect(deployed);
		struct pair_pick last = { .from = S, .type = SMCR_LLC_ADD_LINK_CONT };
		int c = first_contact(pair, &last);
		owe_more(pair, 0x7777);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK_CONT, true), deployed);
		if (deployed) {
			assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_NEXT_CONT);
			pair_run(pair, PATIENCE - 100 * MILLI);
			still_waiting(pair, c, C);
			pair_run(pair, 200 * MILLI);
			assert_int_equal(pair_end(pair, c, C)->last.error, ETIMEDOUT);
		}
		reset_and_cleaned_up(pair, c, C);
		assert_int_equal(unread(pair, c, S, SMCR_CLC_DECLINE), 0);
		pair_free(pair);
	}
	PROVES("ERR-31 ERR-55");
}

static struct smcr_llc_msg delete_second(bool reply)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK, .reply = reply };
	msg.delete_link.link_number = 2;
	msg.delete_link.reason = reply ? 0 : SMCR_LLC_DEL_LOST_PATH;
	return msg;
}

/** `side` has asked on link 1 for the deletion of link 2, and does not use link 2 any more. */
static void asked_to_delete_second(struct pair *pair, int side)
{
	const struct pair_msg *asked = pair_last_llc(pair, side, SMCR_LLC_DELETE_LINK, false);
	assert_int_equal(pair_count_llc(pair, side, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(asked->link, 1);
	assert_int_equal(asked->llc.delete_link.link_number, 2);
	assert_false(asked->llc.delete_link.all);
	assert_int_equal(asked->llc.delete_link.reason, SMCR_LLC_DEL_LOST_PATH);
	assert_int_equal(pair_link_view(pair, side, 2).state, SMCR_LINK_FAILED);
}

/** The group is left with one link, and data flow on it. */
static void open_with_one_link(struct pair *pair, int c, int side)
{
	assert_int_equal(pair_end(pair, c, side)->established, 1);
	assert_int_equal(pair_num_qps(pair, side), 1);
	assert_string_equal(pair_lgr_view(pair, side).type, "single");
	pair_send(pair, c, side, 100, 7);
	pair_pump(pair);
	assert_int_equal(pair_conn_view(pair, c, side).link_number, 1);
	assert_int_equal(pair_conn_view(pair, c, side).tx_unsent, 0);
}

/** ERR-22: the client does not confirm link 2. Data flow when it has answered DELETE LINK. */
static void second_link_is_not_confirmed(void **state)
{
	(void)state;
	for (int answered = 0; answered < 2; answered++) {
		TRIES("answered %d", answered);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick last = {
			.from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .link = 2
		};
		int c = first_contact(pair, &last);
		pair_run(pair, PATIENCE - 100 * MILLI);
		assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
		pair_run(pair, 200 * MILLI);
		asked_to_delete_second(pair, S);
		pair_run(pair, PATIENCE - 300 * MILLI);
		still_waiting(pair, c, S);
		if (answered) {
			struct smcr_llc_msg reply = delete_second(true);
			pair_inject_llc(pair, C, 1, &reply);
			pair_pump(pair);
			open_with_one_link(pair, c, S);
		} else { /* link 1 has failed too (ERR-36) */
			pair_run(pair, 400 * MILLI);
			reset_and_cleaned_up(pair, c, S);
		}
		pair_free(pair);
	}
	PROVES("ERR-22 RV-12");
}

/** ERR-28: CONFIRM LINK does not come on link 2. The client's program waits until the client has
 *  answered the server's DELETE LINK. Later the client tells the server of its RNIC that has no
 *  link. */
static void second_link_is_not_asked_for(void **state)
{
	(void)state;
	for (int answered = 0; answered < 2; answered++) {
		TRIES("answered %d", answered);
		struct smcr_config config = pair_config(C);
		config.add_link_retry = 3 * SECOND;
		config.lgr_idle_timeout = 3600 * SECOND;
		struct pair *pair = pair_new(NULL, &config, 2, 2);
		struct pair_pick last = { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 };
		int c = first_contact(pair, &last);
		pair_run(pair, PATIENCE - 100 * MILLI);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), 0);
		pair_run(pair, 200 * MILLI);
		asked_to_delete_second(pair, C);
		pair_run(pair, PATIENCE - 300 * MILLI);
		still_waiting(pair, c, C);
		if (!answered) { /* link 1 is tested, and has failed too (ERR-33) */
			pair_run(pair, 5 * SECOND);
			reset_and_cleaned_up(pair, c, C);
			pair_free(pair);
			continue;
		}
		struct smcr_llc_msg order = delete_second(false);
		pair_inject_llc(pair, S, 1, &order);
		assert_int_equal(pair_end(pair, c, C)->established, 1);
		pair_pump(pair);
		const struct pair_msg *reply = pair_last_llc(pair, C, SMCR_LLC_DELETE_LINK, true);
		assert_int_equal(reply->link, 1);
		assert_int_equal(reply->llc.delete_link.link_number, 2);
		open_with_one_link(pair, c, C);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false), 0);
		pair_run(pair, 3 * SECOND + 100 * MILLI);
		const struct pair_msg *notice = pair_last_llc(pair, C, SMCR_LLC_ADD_LINK, false);
		assert_non_null(notice);
		assert_memory_equal(notice->llc.add_link.gid, pair->side[C].devices[1].gid,
				    SMCR_GID_LEN);
		pair_free(pair);
	}
	PROVES("ERR-28 RV-12");
}

/** The reason in a Decline is not believed. That nothing else came for a while shows a problem of
 *  the path. */
static void declines_are_not_believed(void **state)
{
	static const uint32_t diagnoses[] = { SMCR_REASON_CONFIRM_LINK_FAILED,
					      SMCR_REASON_NO_R_DEVICE, 0, 0xDEADBEEF };
	(void)state;
	for (int late = 0; late < 2; late++)
		for (size_t i = 0; i < sizeof(diagnoses) / sizeof(diagnoses[0]); i++) {
			TRIES("late %d, row %zu", late, i);
			struct pair *pair = pair_new(NULL, NULL, 2, 2);
			struct pair_pick last = { .from = S, .type = SMCR_LLC_CONFIRM_LINK };
			int c = first_contact(pair, &last);
			pair_run(pair, late ? 900 * MILLI : 100 * MILLI);
			struct smcr_clc_msg msg = { .type = SMCR_CLC_DECLINE };
			msg.decline.version = SMCR_CLC_VERSION_1;
			msg.decline.diagnosis = diagnoses[i];
			pair_inject_clc(pair, c, S, &msg);
			pair_pump(pair);
			const struct pair_end *end = pair_end(pair, c, C);
			assert_int_equal(end->fallback, 1);
			assert_int_equal(end->last.reason, SMCR_REASON_PEER_DECLINED);
			assert_int_equal(end->last.peer_reason, diagnoses[i]);
			assert_int_equal(end->last.path_dead, late);
			pair_free(pair);
		}
	PROVES("CLC-13");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_contact_ends),
		cmocka_unit_test(server_owes_more_rmbs),
		cmocka_unit_test(second_link_is_not_confirmed),
		cmocka_unit_test(second_link_is_not_asked_for),
		cmocka_unit_test(declines_are_not_believed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
