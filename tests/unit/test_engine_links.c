/* SPDX-License-Identifier: MIT */
/* ADD LINK in an established group: many RMBs, traffic that goes on, failures (RFC 7609 3.5.5.1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc_links.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000
#define NEW    3 /* number of the second link; the first contact has refused link 2 */

/** One link, `conns` connections with so many elements in an RMB, and on both sides a second RNIC
 *  that is not used yet. */
static struct pair *single(unsigned int conns, uint8_t server_elements, uint8_t client_elements)
{
	struct smcr_config sc = pair_config(S), cc = pair_config(C);
	sc.elements_per_rmb = server_elements;
	cc.elements_per_rmb = client_elements;
	struct pair *pair = pair_new(&sc, &cc, 1, 1);
	for (unsigned int i = 0; i < conns; i++)
		(void)pair_connected(pair);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 1);
		pair_add_device_quietly(pair, side, &info);
	}
	pair_clear_log(pair);
	return pair;
}

static void notice(struct pair *pair)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK };
	memcpy(msg.add_link.gid, pair->side[C].devices[1].gid, SMCR_GID_LEN);
	memcpy(msg.add_link.mac, pair->side[C].devices[1].mac, SMCR_MAC_LEN);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
}

/** The counts in the CONTINUATIONs of one side. */
static size_t counts(const struct pair *pair, int from, uint8_t *ret, size_t max)
{
	size_t n = 0;
	for (size_t i = 0; i < pair->log_len && n < max; i++)
		if (!pair->log[i].is_clc && !pair->log[i].is_cdc && pair->log[i].from == from &&
		    pair->log[i].llc.type == SMCR_LLC_ADD_LINK_CONT) {
			assert_int_equal(pair->log[i].llc.reply, from == C);
			assert_int_equal(pair->log[i].link, 1);
			ret[n++] = pair->log[i].llc.add_link_cont.num_rtokens;
		}
	return n;
}

static void tokens_for_a_new_link(void **state)
{
	static const struct {
		unsigned int conns;
		uint8_t server_elements, client_elements; /* in an RMB */
		unsigned int server, client; /* number of RMBs that follows from this */
		uint8_t s[4], c[4];          /* counts in the CONTINUATIONs */
		size_t n;
	} rows[] = {
		{ 1, 1, 1, 1, 1, { 1 }, { 1 }, 1 },
		{ 2, 1, 2, 2, 1, { 2 }, { 1 }, 1 },
		{ 3, 1, 3, 3, 1, { 3, 1 }, { 1, 0 }, 2 },
		{ 5, 2, 1, 3, 5, { 3, 1, 0 }, { 5, 3, 1 }, 3 }, /* the shorter list ends first */
		{ 4, 4, 1, 1, 4, { 1, 0 }, { 4, 2 }, 2 },
		{ 5, 1, 3, 5, 2, { 5, 3, 1 }, { 2, 0, 0 }, 3 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair =
			single(rows[i].conns, rows[i].server_elements, rows[i].client_elements);
		uint8_t said[8];
		assert_int_equal(pair_lgr_view(pair, S).num_rmbs, rows[i].server);
		assert_int_equal(pair_lgr_view(pair, C).num_rmbs, rows[i].client);
		notice(pair);
		assert_int_equal(counts(pair, S, said, sizeof(said)), rows[i].n);
		assert_memory_equal(said, rows[i].s, rows[i].n);
		assert_int_equal(counts(pair, C, said, sizeof(said)), rows[i].n);
		assert_memory_equal(said, rows[i].c, rows[i].n);
		for (int side = 0; side < 2; side++) {
			struct smcr_link *link = pair_link(pair, side, NEW);
			const struct smcr_slab *slab;
			const struct smcr_peer_rmb *rmb;
			assert_int_equal(link->state, SMCR_LINK_ACTIVE);
			DL_FOREACH (pair_lgr(pair, side)->peer_rmbs, rmb) {
				unsigned int found = 0;
				DL_FOREACH (pair_lgr(pair, !side)->rmbs, slab)
					found +=
						slab->reg[pair_link(pair, !side, NEW)->slot].rkey ==
							rmb->token[link->slot].rkey &&
						(uintptr_t)slab->base ==
							rmb->token[link->slot].vaddr;
				assert_int_equal(found, 1);
			}
		}
		/* writes on the new link use the RTokens of that link */
		for (int c = pair_connected(pair); c >= 0; c--)
			pair_exchange(pair, c);
		assert_true(pair_link_view(pair, S, NEW).tx_bytes > 0);
		assert_true(pair_link_view(pair, C, NEW).tx_bytes > 0);
		pair_free(pair);
	}
	PROVES("ADDL-8 ADDL-9 ADDL-10 ADDL-11 ADDL-12 RMB-10");
}

static void traffic_goes_on(void **state)
{
	static const struct pair_pick rows[] = {
		{ .from = S, .type = SMCR_LLC_ADD_LINK },
		{ .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },
		{ .from = S, .type = SMCR_LLC_ADD_LINK_CONT },
		{ .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true },
		{ .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = NEW },
		{ .from = C, .type = SMCR_LLC_CONFIRM_LINK, .link = NEW, .reply = true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		struct pair *pair = single(1, 1, 1);
		struct pair_pick pick = rows[i];
		pick.verdict = PAIR_LOSE;
		pair_set_pick(pair, &pick);
		notice(pair);
		assert_int_equal(pick.seen, 1);
		pair_exchange(pair, 0);
		/* no other exchange starts meanwhile, and the connection goes on */
		pair_run(pair, 20 * SECOND);
		assert_int_equal(pair_num_qps(pair, S), pair_num_qps(pair, C));
		if (i >= 4) { /* only the new link was lost */
			assert_true(pair_both_established(pair, 0));
			assert_string_equal(pair_lgr_view(pair, S).type, "single");
			pair_exchange(pair, 0);
		}
		pair_free(pair);
	}
	PROVES("ADDL-13 ERR-23 ERR-29");
}

static void notice_is_not_always_needed(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c = pair_connected(pair);
	pair_clear_log(pair);
	notice(pair); /* the group has two links already */
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
	pair_exchange(pair, c);
	pair_free(pair);
	/* while a link is being added */
	pair = single(1, 1, 1);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_ADD_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &pick);
	notice(pair);
	notice(pair);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 1);
	assert_string_equal(pair_lgr_view(pair, S).type, "symmetric");
	pair_free(pair);
	PROVES("SER-4");
}

/** A client's RKEY exchange and the server's ADD LINK cross (A51). */
static void rkey_crosses_add_link(void **state)
{
	(void)state;
	struct pair *pair = single(1, 1, 1);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_CONFIRM_RKEY, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C); /* the client needs another RMB, and has sent CONFIRM RKEY */
	pair_pump(pair);
	assert_int_equal(pair_lgr(pair, C)->llc->rkey.step, SMCR_RKEY_CONFIRM);
	notice(pair); /* the server has begun ADD LINK, and the client serves that at once */
	assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_ADD);
	assert_int_equal(pair_lgr(pair, C)->llc->step, SMCR_LLC_C_AWAIT_ADD_CONT);
	pair_set_pick(pair, NULL);
	pair_run(pair, SECOND);
	/* the first attempt was refused with C (perhaps a second one too, which overtook the end of
	 * ADD LINK); the last attempt names both links */
	unsigned int negative = 0;
	for (size_t i = 0; i < pair->log_len; i++)
		negative += !pair->log[i].is_clc && pair->log[i].from == S &&
			    pair->log[i].llc.type == SMCR_LLC_CONFIRM_RKEY &&
			    pair->log[i].llc.reply && pair->log[i].llc.confirm_rkey.negative &&
			    pair->log[i].llc.confirm_rkey.retry;
	assert_true(negative >= 1);
	const struct pair_msg *again = pair_last_llc(pair, C, SMCR_LLC_CONFIRM_RKEY, false);
	assert_int_equal(again->llc.confirm_rkey.num_tokens, 1);
	assert_true(pair_both_established(pair, c));
	assert_string_equal(pair_lgr_view(pair, C).type, "symmetric");
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("SER-4 RKEY-6 RKEY-7 RKEY-11");
}

/** Deployed peers accept a CONFIRM RKEY that crosses their ADD LINK. The new link then has no
 *  RToken for that RMB, and is told of the RMB afterwards. */
static void rmb_is_announced_again_for_a_new_link(void **state)
{
	(void)state;
	struct pair *pair = single(1, 1, 1);
	notice(pair);
	pair_clear_log(pair);
	struct smcr_slab *slab = pair_lgr(pair, C)->rmbs;
	slab->reg[pair_link(pair, C, NEW)->slot].told = false;
	smcr_llc_kick(pair_lgr(pair, C));
	pair_pump(pair);
	const struct pair_msg *msg = pair_last_llc(pair, C, SMCR_LLC_CONFIRM_RKEY, false);
	assert_non_null(msg);
	assert_int_equal(msg->llc.confirm_rkey.num_tokens, 1);
	assert_int_equal(slab->state, SMCR_SLAB_READY);
	assert_true(slab->reg[pair_link(pair, C, NEW)->slot].told);
	assert_int_equal(pair_lgr_view(pair, S).num_peer_rmbs, 1);
	pair_exchange(pair, 0);
	pair_free(pair);
}

/** An ADD LINK exchange breaks on its carrier while the group has another link. The carrier counts
 *  as failed, both sides free the new link, and the group goes on with the other link.
 *  test_engine_deployed.c shows the deployed dialect. */
static void add_link_breaks_on_its_carrier(void **state)
{
	static const struct pair_pick rows[] = {
		{ .from = S, .type = SMCR_LLC_ADD_LINK },                     /* ERR-26 */
		{ .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },      /* ERR-26, ERR-27 */
		{ .from = S, .type = SMCR_LLC_ADD_LINK_CONT },                /* ERR-30, ERR-27 */
		{ .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true }, /* ERR-30, ERR-32 */
	};
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].elements_per_rmb = config[C].elements_per_rmb = 1;
	config[S].dialect = config[C].dialect = SMCR_DIALECT_FORCE_RFC;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int slow = 0; slow < 2; slow++) { /* which side gives up first */
			TRIES("row %zu, slow %d", i, slow);
			config[slow].llc_timeout = 5 * SECOND;
			config[!slow].llc_timeout = 4 * SECOND;
			struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
			for (int n = 0; n < 3; n++) /* more RTokens than one message holds */
				(void)pair_connected(pair);
			struct pair_pick pick = rows[i];
			pick.verdict = PAIR_LOSE;
			pair_set_pick(pair, &pick);
			for (int side = 0; side < 2; side++) {
				struct smcr_device_info info = pair_device(side, 2);
				pair_add_device_quietly(pair, side, &info);
			}
			pair_add_link(pair, S);
			pair_pump(pair);
			assert_int_equal(pick.seen, 1);
			pair_set_pick(pair, NULL);
			pair_run(pair, 15 * SECOND);
			for (int side = 0; side < 2; side++) {
				assert_null(pair_link(pair, side, 1));
				assert_int_equal(pair_link_view(pair, side, 2).state,
						 SMCR_LINK_ACTIVE);
				assert_null(pair_link(pair, side, 3));
				assert_int_equal(pair_num_qps(pair, side), 1);
				assert_int_equal(pair_lgr(pair, side)->llc->step, SMCR_LLC_IDLE);
			}
			int c = pair_connected(pair);
			pair_exchange(pair, c);
			pair_free(pair);
		}
	PROVES("ERR-26 ERR-27 ERR-30 ERR-32");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_for_a_new_link),
		cmocka_unit_test(traffic_goes_on),
		cmocka_unit_test(notice_is_not_always_needed),
		cmocka_unit_test(rkey_crosses_add_link),
		cmocka_unit_test(add_link_breaks_on_its_carrier),
		cmocka_unit_test(rmb_is_announced_again_for_a_new_link),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
