/* SPDX-License-Identifier: MIT */
/* LLC messages on different links overtake each other, and a completion is lost with its link (RFC
 * 7609 3.5.5, C.7.1). No other link may suffer, and nothing may be left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

struct in_state {
	enum smcr_link_state state;
	unsigned int links;
};

static void count_in_state(void *arg, const struct smcr_link_view *view)
{
	struct in_state *in = arg;
	in->links += view->state == (int)in->state;
}

/** How many links of a side have this state. */
static unsigned int links_in(struct pair *pair, int side, enum smcr_link_state state)
{
	struct in_state in = { .state = state };
	smcr_engine_each_link(pair->side[side].engine, count_in_state, &in);
	return in.links;
}

/** Both sides have `active` links, and no other. */
static void only_active(struct pair *pair, unsigned int active)
{
	for (int side = 0; side < 2; side++) {
		assert_int_equal(links_in(pair, side, SMCR_LINK_ACTIVE), active);
		assert_int_equal(links_in(pair, side, SMCR_LINK_ACTIVATING), 0);
		assert_int_equal(links_in(pair, side, SMCR_LINK_DEACTIVATING), 0);
		assert_int_equal(links_in(pair, side, SMCR_LINK_FAILED), 0);
		assert_int_equal(pair_num_qps(pair, side), active);
	}
}

static void order_delete(struct pair *pair, int side, uint8_t link)
{
	uint64_t id;
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_DELETE,
					.lgr = pair_lgr_view(pair, side).id,
					.link = link,
					.orderly = true };
	assert_int_equal(smcr_engine_command(pair->side[side].engine, &command, &id), 0);
}

/** The client's reply to DELETE LINK arrives. Before it completes at the client, the server also
 *  deletes the link that carried it. */
static void reply_whose_carrier_goes(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(3, &c);
	pair->side[C].hold_completions = true;
	pair->side[C].hold_link = 2;
	order_delete(pair, S, 1);
	pair_pump(pair);
	assert_null(pair_link(pair, S, 1));
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_DEACTIVATING);
	assert_int_equal(pair_link(pair, C, 1)->deletion.carrier->number, 2);
	pair_fail_link(pair, S, 2);
	pair_run(pair, 100);
	pair->side[C].hold_completions = false;
	pair_run(pair, SECOND);
	assert_null(pair_link(pair, C, 2));
	assert_null(pair_link(pair, C, 1));
	only_active(pair, 1);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("DELL-1 DELL-2");
}

/* ---- each side with a carrier of its own ---- */

/** Two kinds of messages get a verdict of their own. */
struct two_picks {
	struct pair_pick first, second;
};

static enum pair_verdict two_picks_filter(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	struct two_picks *picks = arg;
	if (pair_picked(&picks->first, msg))
		return pair_pick_filter(pair, msg, &picks->first);
	return pair_pick_filter(pair, msg, &picks->second);
}

static void set_picks(struct pair *pair, struct two_picks *picks)
{
	pair->filter = picks ? two_picks_filter : NULL;
	pair->filter_arg = picks;
}

/** Four links, 2 to 5. The server sends its messages on link 5. The client sends on link 2, because
 *  its last message about link 1 had not completed when link 5 was added. */
static struct pair *each_its_own_carrier(int *ret_conn)
{
	struct pair *pair = pair_grouped(4, ret_conn);
	pair->side[C].hold_completions = true;
	pair->side[C].hold_link = 2;
	order_delete(pair, S, 1);
	pair_pump(pair);
	pair_add_link(pair, S);
	pair_pump(pair);
	pair->side[C].hold_completions = false;
	pair_pump(pair);
	only_active(pair, 4);
	assert_int_equal(smcr_lgr_any_link(pair_lgr(pair, S), NULL)->number, 5);
	assert_int_equal(smcr_lgr_any_link(pair_lgr(pair, C), NULL)->number, 2);
	pair_clear_log(pair);
	return pair;
}

/** The client gives up the new link while its earlier messages about it are still on their way. */
static void giving_up_overtakes_the_exchange(void **state)
{
	(void)state;
	static const uint8_t held[] = { SMCR_LLC_ADD_LINK, SMCR_LLC_ADD_LINK_CONT };
	for (unsigned int i = 0; i < sizeof(held); i++) {
		TRIES("row %u", i);
		int c;
		struct pair *pair = each_its_own_carrier(&c);
		order_delete(pair, S, 3);
		pair_pump(pair);
		only_active(pair, 3);
		struct pair_pick pick = {
			.from = C, .type = held[i], .reply = true, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		pair_add_link(pair, S);
		pair_pump(pair);
		assert_int_equal(pick.seen > 0, 1);
		struct smcr_link *subject = pair_lgr(pair, C)->llc->subject;
		assert_int_equal(pair_lgr(pair, C)->llc->carrier->number, 5);
		smcr_link_fail(subject, SMCR_LLC_DEL_LOST_PATH, "made to fail");
		pair_pump(pair);
		pair_set_pick(pair, NULL);
		pair_run(pair, SECOND);
		only_active(pair, 3);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-28 ERR-29 LLC-5");
}

/** A client asks on any link: the server recognises its late messages about a link that was given
 *  up. */
static void late_words_about_a_link_given_up(void **state)
{
	(void)state;
	static const uint8_t held[] = { SMCR_LLC_ADD_LINK, SMCR_LLC_ADD_LINK_CONT };
	for (unsigned int i = 0; i < sizeof(held); i++) {
		TRIES("row %u", i);
		int c;
		struct pair *pair = each_its_own_carrier(&c);
		order_delete(pair, S, 3);
		pair_pump(pair);
		struct two_picks picks = {
			.first = { .from = C,
				   .type = held[i],
				   .reply = true,
				   .verdict = PAIR_HOLD },
			.second = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD },
		};
		set_picks(pair, &picks);
		pair_add_link(pair, S);
		pair_pump(pair);
		struct smcr_llc_msg request = { .type = SMCR_LLC_DELETE_LINK };
		request.delete_link.link_number = pair_lgr(pair, C)->llc->subject->number;
		request.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
		pair_inject_llc(pair, C, 2, &request);
		pair_pump(pair);
		picks.first.verdict = PAIR_PASS;
		pair_pump(pair);
		assert_int_equal(pair_lgr(pair, S)->llc->step, SMCR_LLC_S_DELETE_ADDED);
		set_picks(pair, NULL);
		pair_run(pair, SECOND);
		only_active(pair, 3);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("DELL-6 LLC-5");
}

/** Both sides see a link fail. The server has long deleted it when the client's request comes. */
static void request_that_comes_too_late(void **state)
{
	(void)state;
	for (int reply_on_its_way = 0; reply_on_its_way < 2; reply_on_its_way++) {
		TRIES("reply on its way %d", reply_on_its_way);
		int c;
		struct pair *pair = each_its_own_carrier(&c);
		struct pair_pick pick = { .from = C,
					  .type = SMCR_LLC_DELETE_LINK,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		pair_fail_link(pair, C, 3);
		pair_pump(pair);
		assert_int_equal(pick.seen > 0, 1);
		pair->side[C].hold_completions = reply_on_its_way;
		pair->side[C].hold_link = 5;
		pair_fail_link(pair, S, 3);
		pair_pump(pair);
		assert_null(pair_link(pair, S, 3));
		assert_int_equal(pair_link(pair, C, 3) != NULL, reply_on_its_way);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_int_equal(
			pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, true)->llc.delete_link.reason,
			SMCR_LLC_DEL_UNKNOWN_LINK);
		pair->side[C].hold_completions = false;
		pair_run(pair, SECOND);
		only_active(pair, 3);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-56");
}

/** The client wants a link deleted in good order and has messages and writes in flight on it. The
 *  link works, but the server says that it does not know it. */
static void unknown_link_that_works(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	for (int i = 0; i < 4; i++)
		c[i] = pair_connected(pair);
	struct two_picks picks = {
		.first = { .from = S,
			   .type = SMCR_LLC_CONFIRM_RKEY,
			   .reply = true,
			   .verdict = PAIR_HOLD },
		.second = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD },
	};
	set_picks(pair, &picks);
	c[4] = pair_connect(pair, C);
	pair_pump(pair);
	assert_non_null(pair_lgr(pair, C)->llc->rkey.link);
	uint8_t gone = pair_lgr(pair, C)->llc->rkey.link->number;
	for (int i = 0; i < 4; i++) { /* in flight when the link goes */
		pair->side[C].hold_completions = true;
		pair_send(pair, c[i], C, 1000, (uint8_t)i);
	}
	order_delete(pair, C, gone);
	struct smcr_llc_msg unknown = { .type = SMCR_LLC_DELETE_LINK, .reply = true };
	unknown.delete_link.link_number = gone;
	unknown.delete_link.reason = SMCR_LLC_DEL_UNKNOWN_LINK;
	pair_inject_llc(pair, S, pair_link(pair, C, gone)->deletion.carrier->number, &unknown);
	pair->side[C].hold_completions = false;
	pair_pump(pair);
	assert_int_equal(pair_link_view(pair, C, gone).state, SMCR_LINK_FAILED);
	set_picks(pair, NULL);
	pair_run(pair, 20 * SECOND);
	assert_null(pair_link(pair, C, gone));
	for (int i = 0; i < 4; i++) {
		pair_expect(pair, c[i], S, 1000, (uint8_t)i);
		pair_exchange(pair, c[i]);
	}
	pair_free(pair);
	PROVES("ERR-56 ERR-37");
}

/* ---- RTokens ---- */

/** Four connections, and a further RNIC on either side, of which nobody was told. The next
 * connection gets link 2. */
static struct pair *four_connections(int c[4])
{
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	for (int i = 0; i < 4; i++)
		c[i] = pair_connected(pair);
	for (int side = 0; side < 2; side++) {
		struct smcr_device_info info = pair_device(side, 2);
		pair_add_device_quietly(pair, side, &info);
	}
	pair_link(pair, S, 1)->disabled = true;
	return pair;
}

/** A link is added while the client's CONFIRM RKEY is under way on another link, and becomes active
 *  without an RToken of the new RMB. No connection may use the new RMB before the server has that
 *  RToken (RKEY-1), whichever links are left then. */
static void rmb_that_a_new_link_misses(void **state)
{
	(void)state;
	for (int links_left = 1; links_left <= 3; links_left += 2) {
		TRIES("links left %d", links_left);
		int c[7];
		struct pair *pair = four_connections(c);
		struct two_picks picks = {
			.first = { .from = S,
				   .type = SMCR_LLC_CONFIRM_RKEY,
				   .reply = true,
				   .verdict = PAIR_HOLD },
			.second = { .from = C,
				    .type = SMCR_LLC_CONFIRM_RKEY,
				    .skip = 1,
				    .verdict = PAIR_HOLD },
		};
		set_picks(pair, &picks);
		c[4] = pair_connect(pair, C);
		pair_pump(pair);
		assert_true(picks.first.seen > 0);
		assert_int_equal(pair_lgr(pair, C)->llc->rkey.link->number, 2);
		pair_link(pair, S, 1)->disabled = false;
		pair_add_link(pair, S);
		pair_run(pair, SECOND);
		assert_int_equal(pair_link_view(pair, C, 3).state, SMCR_LINK_ACTIVE);
		picks.first.verdict = PAIR_PASS;
		pair_pump(pair);
		assert_true(picks.second.seen > 0); /* announced again, for all three links */
		for (int i = 5; i < 7; i++)
			c[i] = pair_connect(pair, C);
		pair_run(pair, 1000);
		for (int i = 4; i < 7; i++)
			assert_int_equal(pair_end(pair, c[i], C)->established, 0);
		if (links_left == 1) {
			pair_fail_link(pair, S, 1);
			pair_fail_link(pair, S, 2);
			pair_run(pair, 100);
		}
		set_picks(pair, NULL);
		pair_run(pair, SECOND);
		only_active(pair, (unsigned int)links_left);
		for (int i = 0; i < 7; i++) {
			if (!pair_both_established(pair, c[i])) { /* its link has gone */
				assert_int_equal(links_left, 1);
				assert_int_equal(pair_end(pair, c[i], C)->fallback, 1);
				continue;
			}
			pair_exchange(pair, c[i]);
		}
		pair_free(pair);
	}
	PROVES("RKEY-1 RKEY-9 RKEY-11");
}

/** The same, but the answer to CONFIRM RKEY comes soon. The client waits for it and tells all
 * RTokens of the new link at once. */
static void rmb_that_is_told_in_time(void **state)
{
	(void)state;
	int c[5];
	struct pair *pair = four_connections(c);
	struct pair_pick answer = {
		.from = S, .type = SMCR_LLC_CONFIRM_RKEY, .reply = true, .verdict = PAIR_HOLD
	};
	pair_set_pick(pair, &answer);
	pair_clear_log(pair);
	c[4] = pair_connect(pair, C);
	pair_pump(pair);
	assert_true(answer.seen > 0);
	pair_link(pair, S, 1)->disabled = false;
	pair_add_link(pair, S);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, true), 1);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK_CONT, true), 0);
	pair_set_pick(pair, NULL);
	pair_run(pair, SECOND);
	only_active(pair, 3);
	assert_int_equal(
		pair_last_llc(pair, C, SMCR_LLC_ADD_LINK_CONT, true)->llc.add_link_cont.num_rtokens,
		2);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_CONFIRM_RKEY, false), 1);
	for (int i = 0; i < 5; i++)
		pair_exchange(pair, c[i]);
	pair_free(pair);
	PROVES("RKEY-1 RKEY-11");
}

/** What the host hands in only when all that came before on other links was handed in: DELETE LINK
 * of both versions, and a CDC with F. Others need not wait, nor does what is no such message. */
static void what_waits_for_other_links(void **state)
{
	(void)state;
	static const struct {
		uint8_t type, prod_flags;
		size_t len;
		bool waits;
	} rows[] = {
		{ SMCR_LLC_DELETE_LINK, 0, SMCR_LLC_LEN, true },
		{ SMCR_LLC_V2_TYPE + SMCR_LLC_DELETE_LINK, 0, SMCR_LLC_LEN, true },
		{ SMCR_CDC_TYPE, SMCR_CDC_FAILOVER, SMCR_CDC_LEN, true },
		{ SMCR_CDC_TYPE, 0, SMCR_CDC_LEN, false },
		{ SMCR_LLC_ADD_LINK, 0, SMCR_LLC_LEN, false },
		{ SMCR_LLC_V2_TYPE + SMCR_LLC_TEST_LINK, 0, SMCR_LLC_LEN, false },
		{ SMCR_LLC_DELETE_LINK, 0, SMCR_LLC_LEN - 1, false },
		{ SMCR_LLC_DELETE_LINK, 0, SMCR_LLC_LEN + 1, false },
		{ SMCR_LLC_V2_TYPE + SMCR_LLC_DELETE_LINK, 0, 1, false },
		{ SMCR_LLC_DELETE_LINK, 0, 0, false },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		const struct smcr_cdc cdc = { .prod_flags = rows[i].prod_flags };
		uint8_t data[SMCR_LLC_LEN + 1] = { 0 };
		assert_int_equal(smcr_cdc_encode(&cdc, data, sizeof(data)), SMCR_CDC_LEN);
		data[0] = rows[i].type;
		assert_int_equal(smcr_engine_recv_is_barrier(data, rows[i].len), rows[i].waits);
	}
	PROVES("FO-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reply_whose_carrier_goes),
		cmocka_unit_test(giving_up_overtakes_the_exchange),
		cmocka_unit_test(late_words_about_a_link_given_up),
		cmocka_unit_test(request_that_comes_too_late),
		cmocka_unit_test(unknown_link_that_works),
		cmocka_unit_test(rmb_that_a_new_link_misses),
		cmocka_unit_test(rmb_that_is_told_in_time),
		cmocka_unit_test(what_waits_for_other_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
