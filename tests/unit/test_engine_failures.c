/* SPDX-License-Identifier: MIT */
/* Links that fail at awkward moments of a first contact or an exchange: around the point of no
 * return (ERR-8), both paths at once, and while an exchange lists an RMB that is being
 * withdrawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc_links.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

/** Neither engine holds anything any more. */
static void all_freed(struct pair *pair)
{
	pair_pump(pair);
	for (int side = 0; side < 2; side++) {
		struct smcr_engine_view view;
		smcr_engine_get_view(pair->side[side].engine, &view);
		assert_int_equal(view.num_lgrs + view.num_links + view.num_qps + view.num_mrs +
					 view.num_rmbs + view.num_conns + view.num_timers,
				 0);
		assert_int_equal(view.memory_used, 0);
	}
}

/* ---- the point of no return ---- */

/** A first contact is stopped at this moment; then link 1 fails on one side. */
struct moment {
	const char *name;
	size_t rnics;
	int side;  /* the side whose link fails, and whose point of no return is tested */
	bool hold; /* completions of this side are held */
	struct pair_pick pick; /* the message that does not arrive */
	bool committed;        /* that side is past its point of no return */
};

/** Delivers until a side knows that full-size packets pass, and no completion after that. */
static void hold_behind_proof(struct pair *pair, int side)
{
	const struct smcr_link *link;
	do
		assert_true(pair_step(pair));
	while (!(link = pair_link(pair, side, 1)) || link->passed < link->mtu);
	pair->side[side].hold_completions = true;
}

static const struct moment moments[] = {
	{ "server: CONFIRM LINK reply awaited",
	  2,
	  S,
	  false,
	  { .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true },
	  false },
	{ "server: ADD LINK neither completed nor answered",
	  2,
	  S,
	  true,
	  { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },
	  false },
	{ "server: ADD LINK completed",
	  2,
	  S,
	  false,
	  { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },
	  true },
	{ "server: ADD LINK answered before its completion came",
	  2,
	  S,
	  true,
	  { .from = S, .type = SMCR_LLC_ADD_LINK_CONT },
	  true },
	{ "client: ADD LINK awaited",
	  2,
	  C,
	  false,
	  { .from = S, .type = SMCR_LLC_ADD_LINK },
	  false },
	{ "client: positive ADD LINK reply not completed",
	  2,
	  C,
	  true,
	  { .from = S, .type = SMCR_LLC_ADD_LINK_CONT },
	  false },
	{ "client: positive ADD LINK reply completed",
	  2,
	  C,
	  false,
	  { .from = S, .type = SMCR_LLC_ADD_LINK_CONT },
	  true },
	{ "client: what follows its reply came before the completion",
	  2,
	  C,
	  true,
	  { .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 },
	  true },
	{ "client: negative ADD LINK reply sent, not completed",
	  1,
	  C,
	  true,
	  { .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },
	  true },
};

/** Before the point of no return one Decline brings both sides back to TCP (a client lets the
 *  server decline first). After it TCP is reset, and no Decline is sent. */
static void point_of_no_return(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		TRIES("%s", moments[i].name);
		const struct moment *m = &moments[i];
		struct pair *pair = pair_new(NULL, NULL, m->rnics, m->rnics);
		struct pair_pick pick = m->pick;
		pick.verdict = PAIR_HOLD;
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		if (m->hold)
			hold_behind_proof(pair, m->side);
		pair_pump(pair);
		const struct pair_end *end = pair_end(pair, c, m->side);
		assert_non_null(end->smc);
		assert_int_equal(pick.seen > 0, true);
		pair_fail_link(pair, m->side, 1);
		pair_run(pair, 2 * SECOND);
		unsigned int own = pair_count_clc(pair, m->side, SMCR_CLC_DECLINE);
		unsigned int theirs = pair_count_clc(pair, !m->side, SMCR_CLC_DECLINE);
		/* A side that gets a Decline too late resets TCP (ERR-6). */
		bool too_late = own && pair_end(pair, c, !m->side)->failed;
		bool broken = m->committed || too_late;
		if (broken != (end->failed + end->reset == 1) || broken == (end->fallback == 1) ||
		    own + theirs != !m->committed)
			fail_msg("%s: Declines %u %u fallback %u failed %u reset %u", m->name, own,
				 theirs, end->fallback, end->failed, end->reset);
		pair_set_pick(pair, NULL);
		pair->side[m->side].hold_completions = false;
		pair_run(pair, 30 * SECOND);
		/* never plain TCP on one side and SMC-R on the other */
		const struct pair_end *other = pair_end(pair, c, !m->side);
		assert_null(other->smc);
		assert_true(other->fallback == end->fallback || other->failed || other->reset);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-8 ERR-5 ERR-7 GEN-5");
}

/** A negative reply that cannot be posted was not sent: the sender declines (ERR-18). */
static void rejection_cannot_be_posted(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	/* the client posts three packets that test the path MTU, CONFIRM LINK reply, ADD LINK
	 * reply */
	pair->side[C].fail_post = 5;
	int c = pair_connect(pair, C);
	hold_behind_proof(pair, S); /* the server may still go back */
	pair_run(pair, 3 * SECOND);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(pair_end(pair, c, side)->established, 0);
		assert_int_equal(pair_end(pair, c, side)->fallback, 1);
		assert_null(pair_end(pair, c, side)->in);
	}
	assert_int_equal(pair_count_clc(pair, S, SMCR_CLC_DECLINE) +
				 pair_count_clc(pair, C, SMCR_CLC_DECLINE),
			 1);
	pair->side[S].hold_completions = false;
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-18 GEN-4");
}

/** A client loses both its RNICs before its point of no return: it declines soon, whichever RNIC
 *  goes first. */
static void client_loses_both_rnics(void **state)
{
	(void)state;
	for (uint32_t first = 0; first < 2; first++) {
		TRIES("first %u", first);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = {
			.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		assert_non_null(pair_link(pair, C, 2));
		pair_remove_device(pair, C, pair_device(C, first).id);
		pair_remove_device(pair, C, pair_device(C, !first).id);
		pair_run(pair, 2 * SECOND);
		assert_int_equal(pair_end(pair, c, C)->failed, 1);
		assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 1);
		/* the server's ADD LINK was delivered: the server cannot go back (ERR-6) */
		assert_int_equal(pair_end(pair, c, S)->failed, 1);
		pair_run(pair, 10 * SECOND);
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("ERR-18 ERR-6 RV-14");
}

/** CONFIRM LINK does not get through on link 2: the first contact ends with link 1 alone. What
 *  happens to link 1 later does not concern the first contact. */
static void second_path_is_dead(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_run(pair, 3 * SECOND);
	assert_true(pair_both_established(pair, c));
	assert_null(pair_link(pair, S, 2));
	assert_null(pair_link(pair, C, 2));
	pair_exchange(pair, c);
	pair_fail_link(pair, S, 1);
	pair_run(pair, 10 * SECOND);
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_end(pair, c, side)->reset, 1);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-22 ERR-17 FO-13");
}

/** The completion of the CONFIRM LINK reply is seen late, when the ADD LINK reply is on its way. It
 *  does not count for the ADD LINK reply, which still has to arrive in time (ERR-17). */
static void late_completion(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	hold_behind_proof(pair, C);
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_ADD_CONT);
	pair->side[C].hold_completions = false;
	pair_run(pair, 2 * SECOND + SECOND / 4);
	assert_int_equal(pair_count_clc(pair, C, SMCR_CLC_DECLINE), 1);
	/* the server's ADD LINK was delivered: the server cannot go back (ERR-6) */
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_end(pair, c, side)->failed, 1);
	pair_run(pair, 10 * SECOND);
	all_freed(pair);
	pair_free(pair);
	PROVES("ERR-17 ERR-18");
}

/** Both daemons are stopped while links are set up: two Declines that crossed would reach the
 *  programs as data. */
static void both_daemons_stop(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		TRIES("order %d", order);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_CONFIRM_LINK,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		assert_true(pick.seen > 0);
		for (int i = 0; i < 2; i++) {
			int side = order ? i : !i;
			smcr_conn_give_up(pair_end(pair, c, side)->smc, SMCR_REASON_SHUTTING_DOWN);
			smcr_engine_shutdown(pair->side[side].engine);
		}
		pair_run(pair, 2 * SECOND);
		for (int side = 0; side < 2; side++) {
			assert_int_equal(pair_end(pair, c, side)->failed, 1);
			assert_null(pair_end(pair, c, side)->in);
		}
		all_freed(pair);
		pair_free(pair);
	}
	PROVES("GEN-4");
}

/* ---- exchanges that overlap ---- */

/** An ADD LINK exchange lists an RMB whose DELETE RKEY has crossed it. The server answers DELETE
 *  RKEY during the exchange and is slow afterwards: the client must not use the RMB's memory for
 *  anything else. */
static void rmb_goes_while_add_link_lists_it(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].elements_per_rmb = 16;
	config[C].elements_per_rmb = 1;
	config[C].rmb_idle_timeout = SECOND;
	struct pair *pair = pair_new(&config[S], &config[C], 1, 1);
	int c[3];
	for (int i = 0; i < 3; i++)
		c[i] = pair_connected(pair);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_RKEY, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	pair_close(pair, c[2]);
	pair_run(pair, SECOND + SECOND / 2);
	assert_true(pick.seen > 0); /* on its way; all that the client sends comes behind it */
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 1);
		pair_add_device_quietly(pair, side, &info);
	}
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	smcr_llc_want_link(lgr, SMCR_ADD_OPERATOR);
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_ADD_CONT);
	assert_int_equal(pair_lgr(pair, C)->llc->own_count, 2); /* without the RMB that goes */
	const struct smcr_slab *slab;
	struct smcr_llc_msg reply = { .type = SMCR_LLC_DELETE_RKEY, .reply = true };
	reply.delete_rkey.count = 1;
	DL_FOREACH (pair_lgr(pair, C)->rmbs, slab)
		if (slab->state == SMCR_SLAB_DELETING)
			reply.delete_rkey.rkey[0] = slab->reg[0].rkey;
	pair_inject_llc(pair, S, 1, &reply);
	pair_run(pair, 2 * SECOND);
	/* the RMB stays until the exchange is over */
	assert_int_equal(pair_lgr_view(pair, C).num_rmbs, 3);
	pick.verdict = PAIR_LOSE;
	pair_run(pair, SECOND / 2);
	/* Link 2 was rejected. */
	assert_int_equal(pair_link_view(pair, C, 3).state, SMCR_LINK_ACTIVE);
	pair_run(pair, 2 * SECOND);
	assert_int_equal(pair_lgr_view(pair, C).num_rmbs, 2);
	pair_exchange(pair, c[0]);
	pair_exchange(pair, c[1]);
	pair_free(pair);
	PROVES("RKEY-13 SEC-6");
}

/** The answer to a DELETE RKEY is lost with its link, and at once a link is to be added: an RMB
 *  that the peer may have forgotten must not be listed for the new link. */
static void delete_rkey_is_settled_before_add_link(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.elements_per_rmb = 1;
	config.rmb_idle_timeout = SECOND;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	int c[3];
	for (int i = 0; i < 3; i++)
		c[i] = pair_connected(pair);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_RKEY, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	int on_2 = pair_conn_view(pair, c[0], S).link_number == 2 ? 0 : 1;
	pair_close(pair, c[2]);
	pair_run(pair, SECOND + SECOND / 2);
	assert_true(pick.seen > 0);
	assert_int_equal(pair_lgr(pair, S)->llc->rkey.link->number, 1);
	struct smcr_llc_msg notice = { .type = SMCR_LLC_ADD_LINK };
	pair_fail_link(pair, S, 1);
	pair_inject_llc(pair, C, 2, &notice);
	pair_set_pick(pair, NULL);
	pair_run(pair, SECOND);
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
	assert_non_null(pair_link(pair, S, 3));
	assert_int_equal(pair_link_view(pair, S, 3).state, SMCR_LINK_ACTIVE);
	assert_int_equal(pair_lgr_view(pair, S).num_rmbs, 2);
	pair_exchange(pair, c[on_2]);
	pair_free(pair);
	PROVES("RKEY-13 RKEY-15");
}

/** The client's end of the only link dies while a second link is set up, and the server does not
 *  notice. As soon as the second link works, the client asks the server on it to delete the dead
 *  one (DELL-5). */
static void only_link_dies_while_another_is_added(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	int c = pair_connected(pair);
	pair_close(pair, c);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 1);
		pair_add_device_quietly(pair, side, &info);
	}
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 3, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	pair_add_link(pair, S);
	pair_pump(pair);
	assert_true(pick.seen > 0);
	smcr_engine_qp_failed(pair->side[C].engine, pair_link_ref(pair, C, 1), "by itself");
	pair_pump(pair);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	for (int side = 0; side < 2; side++) {
		assert_null(pair_link(pair, side, 1));
		assert_int_equal(pair_link_view(pair, side, 3).state, SMCR_LINK_ACTIVE);
	}
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), 1);
	c = pair_connected(pair);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("DELL-5");
}

/* ---- limits ---- */

/** A group whose limit is two gets no third link, though both sides have RNICs for it and the
 *  client says so. */
static void no_link_beyond_the_limit(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[C].max_links = 2; /* the smaller limit counts */
	config[S].max_links = 8;
	struct pair *pair = pair_new(&config[S], &config[C], 3, 3);
	int c = pair_connected(pair);
	assert_int_equal(pair_lgr_view(pair, S).max_links, 2);
	for (int i = 0; i < 3; i++) {
		struct smcr_llc_msg notice = { .type = SMCR_LLC_ADD_LINK };
		struct smcr_device_info info = pair_device(C, 2);
		memcpy(notice.add_link.gid, info.gid, SMCR_GID_LEN);
		memcpy(notice.add_link.mac, info.mac, SMCR_MAC_LEN);
		pair_inject_llc(pair, C, 1, &notice);
		pair_run(pair, 60 * SECOND);
		pair_exchange(pair, c);
	}
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false), 0);
	assert_int_equal(pair_num_qps(pair, S), 2);
	assert_int_equal(pair_num_qps(pair, C), 2);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("LG-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(point_of_no_return),
		cmocka_unit_test(rejection_cannot_be_posted),
		cmocka_unit_test(client_loses_both_rnics),
		cmocka_unit_test(second_path_is_dead),
		cmocka_unit_test(late_completion),
		cmocka_unit_test(both_daemons_stop),
		cmocka_unit_test(rmb_goes_while_add_link_lists_it),
		cmocka_unit_test(delete_rkey_is_settled_before_add_link),
		cmocka_unit_test(only_link_dies_while_another_is_added),
		cmocka_unit_test(no_link_beyond_the_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
