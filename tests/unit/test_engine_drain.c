/* SPDX-License-Identifier: MIT */
/* RNICs that an operator takes out of use (drain). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "tests/lib/enginepair_filter.h"
#include "tests/lib/enginepair_v2.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000
/* More messages than the deletion of a link takes. */
#define MOMENTS 60

static void drain(struct pair *pair, int side, size_t n, bool drained)
{
	struct smcr_engine *engine = pair->side[side].engine;
	uint32_t id = pair_device(side, n).id;
	assert_int_equal(smcr_engine_device_drain(engine, id, drained), 0);
	assert_int_equal(smcr_engine_device_drained(engine, id), drained);
}

struct on_device {
	uint32_t id;
	unsigned int links;
};

static void count_on_device(void *arg, const struct smcr_link_view *view)
{
	struct on_device *on = arg;
	on->links += view->device_id == on->id;
}

/** How many links a side has on that device, in any state. */
static unsigned int links_on(struct pair *pair, int side, size_t n)
{
	struct on_device on = { .id = pair_device(side, n).id };
	smcr_engine_each_link(pair->side[side].engine, count_on_device, &on);
	return on.links;
}

static bool in_use(struct pair *pair, int side, size_t n)
{
	return smcr_engine_device_in_use(pair->side[side].engine, pair_device(side, n).id);
}

/** Index of the device on which the server has that link. */
static size_t device_of(struct pair *pair, uint8_t link)
{
	return pair_link_view(pair, S, link).device_id == pair_device(S, 0).id ? 0 : 1;
}

static void assert_no_reset(struct pair *pair, const int *conns, int n)
{
	for (int i = 0; i < n; i++) {
		pair_exchange(pair, conns[i]);
		assert_int_equal(pair_end(pair, conns[i], S)->reset, 0);
		assert_int_equal(pair_end(pair, conns[i], C)->reset, 0);
	}
}

/** The links of the RNIC are deleted in good order, connections move, and the RNIC gets a link
 *  again when it is put back into use. */
static void links_move_and_come_back(void **state)
{
	(void)state;
	for (int v2 = 0; v2 < 2; v2++)
		for (int side = 0; side < 2; side++) {
			TRIES("v2 %d, side %d", v2, side);
			int c[4];
			struct pair *pair =
				v2 ? pair_new_with("A", "A", 2) : pair_new(NULL, NULL, 2, 2);
			for (int i = 0; i < 4; i++)
				c[i] = pair_connected(pair);
			pair_clear_log(pair);
			drain(pair, side, 0, true);
			for (int i = 0; i < 4; i++) {
				pair_send(pair, c[i], S, 12000, 3);
				pair_send(pair, c[i], C, 12000, 4);
			}
			pair_pump(pair);
			for (int i = 0; i < 4; i++) {
				pair_expect(pair, c[i], C, 12000, 3);
				pair_expect(pair, c[i], S, 12000, 4);
			}
			const struct smcr_llc_delete_link *told =
				&pair_last_llc(pair, side, SMCR_LLC_DELETE_LINK, false)
					 ->llc.delete_link;
			assert_true(told->orderly);
			assert_int_equal(told->reason, SMCR_LLC_DEL_OPERATOR);
			pair_run(pair, 60 * SECOND);
			assert_int_equal(links_on(pair, side, 0), 0);
			assert_int_equal(links_on(pair, side, 1), 1);
			assert_false(in_use(pair, side, 0));
			assert_true(in_use(pair, side, 1));
			int fresh = pair_connected(pair);
			pair_exchange(pair, fresh);
			assert_int_equal(links_on(pair, side, 0), 0);
			drain(pair, side, 0, false);
			pair_run(pair, 10 * SECOND);
			assert_int_equal(links_on(pair, S, 0), 1);
			assert_int_equal(links_on(pair, C, 0), 1);
			assert_no_reset(pair, c, 4);
			pair_free(pair);
		}
}

/** The RNIC is put back into use at any moment of the deletion, and has a link in the end. */
static void used_again_while_its_link_goes(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int steps = 0; steps < MOMENTS; steps++) {
			TRIES("side %d, steps %d", side, steps);
			struct pair *pair = pair_new(NULL, NULL, 2, 2);
			int c = pair_connected(pair);
			drain(pair, side, 0, true);
			for (int i = 0; i < steps; i++)
				pair_step(pair);
			drain(pair, side, 0, false);
			pair_run(pair, 30 * SECOND);
			if (links_on(pair, S, 0) != 1 || links_on(pair, C, 0) != 1)
				fail_msg("side %d, after %d steps: no link", side, steps);
			assert_no_reset(pair, &c, 1);
			pair_free(pair);
		}
}

/** The last link of a group stays for its connections. New connections stay on TCP, whichever side
 *  has drained its RNIC. */
static void the_last_link_stays(void **state)
{
	(void)state;
	for (int v2 = 0; v2 < 2; v2++)
		for (int side = 0; side < 2; side++) {
			TRIES("v2 %d, side %d", v2, side);
			struct pair *pair =
				v2 ? pair_new_with("A", "A", 1) : pair_new(NULL, NULL, 1, 1);
			int c = pair_connected(pair);
			drain(pair, side, 0, true);
			pair_run(pair, 60 * SECOND);
			assert_int_equal(links_on(pair, side, 0), 1);
			assert_false(pair_link_view(pair, side, 1).disabled);
			assert_no_reset(pair, &c, 1);
			int fresh = pair_connect(pair, C);
			pair_run(pair, SECOND);
			const struct pair_end *end = pair_end(pair, fresh, side);
			assert_int_equal(end->fallback, 1);
			assert_int_equal(end->last.reason, SMCR_REASON_NO_R_DEVICE);
			assert_int_equal(pair_end(pair, fresh, !side)->fallback, 1);
			drain(pair, side, 0, false);
			fresh = pair_connected(pair);
			pair_exchange(pair, fresh);
			assert_no_reset(pair, &c, 1);
			pair_free(pair);
		}
}

/** A server without a group declines for its drained RNIC, not for its addresses. */
static void drained_is_the_reason(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	drain(pair, S, 0, true);
	int c = pair_connect(pair, C);
	pair_run(pair, SECOND);
	assert_int_equal(pair_end(pair, c, S)->fallback, 1);
	assert_int_equal(pair_end(pair, c, S)->last.reason, SMCR_REASON_NO_R_DEVICE);
	assert_int_equal(pair_end(pair, c, C)->last.peer_reason, SMCR_REASON_NO_R_DEVICE);
	pair_free(pair);
}

/** No group begins on a drained RNIC. */
static void no_group_begins_on_a_drained_rnic(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		drain(pair, side, 0, true);
		int c = pair_connected(pair);
		pair_run(pair, 10 * SECOND);
		assert_int_equal(links_on(pair, side, 0), 0);
		assert_true(links_on(pair, side, 1) > 0);
		assert_no_reset(pair, &c, 1);
		pair_free(pair);
	}
}

/** A new RNIC takes the place of the drained RNIC that has the last link. */
static void another_one_takes_its_place(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = pair_new(NULL, NULL, 1, 1);
		int c = pair_connected(pair);
		drain(pair, side, 0, true);
		struct smcr_device_info other = pair_device(!side, 1), own = pair_device(side, 1);
		pair_add_device(pair, !side, &other);
		pair_run(pair, 10 * SECOND);
		assert_int_equal(links_on(pair, side, 0), 1);
		pair_add_device(pair, side, &own);
		pair_run(pair, 20 * SECOND);
		assert_int_equal(links_on(pair, side, 0), 0);
		assert_true(links_on(pair, side, 1) > 0);
		assert_no_reset(pair, &c, 1);
		pair_free(pair);
	}
}

/** If all RNICs are drained, one keeps its link until a new RNIC comes. */
static void one_of_several_keeps_a_link(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].max_links = config[C].max_links = 2;
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	int c = pair_connected(pair);
	drain(pair, S, 0, true);
	drain(pair, S, 1, true);
	pair_run(pair, 60 * SECOND);
	assert_int_equal(links_on(pair, S, 0) + links_on(pair, S, 1), 1); /* on one of the two */
	assert_no_reset(pair, &c, 1);
	struct smcr_device_info third = pair_device(S, 2);
	pair_add_device(pair, S, &third);
	pair_run(pair, 20 * SECOND);
	assert_int_equal(links_on(pair, S, 0) + links_on(pair, S, 1), 0);
	assert_true(links_on(pair, S, 2) > 0);
	assert_no_reset(pair, &c, 1);
	pair_free(pair);
}

/** Both sides drain RNICs at once: one link stays, and no data are lost. */
static void both_sides_at_once(void **state)
{
	(void)state;
	for (size_t n = 0; n < 2; n++) {
		TRIES("case %zu", n);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		drain(pair, S, 0, true);
		drain(pair, C, n, true);
		pair_run(pair, 60 * SECOND);
		assert_non_null(pair_lgr(pair, S));
		assert_no_reset(pair, &c, 1);
		drain(pair, S, 0, false);
		drain(pair, C, n, false);
		pair_run(pair, 60 * SECOND);
		assert_no_reset(pair, &c, 1);
		pair_free(pair);
	}
}

/** The RNIC is drained while a link is added on it: the link is deleted as soon as it is there. */
static void while_a_link_is_added(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct smcr_config config = pair_config(S);
		config.add_link_retry = SECOND;
		struct pair *pair = pair_new(&config, NULL, 1, 1);
		int c = pair_connected(pair);
		struct smcr_device_info more[2] = { pair_device(S, 1), pair_device(C, 1) };
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_CONFIRM_LINK,
					  .verdict = PAIR_HOLD };
		pair_add_device(pair, C, &more[1]);
		pair_set_pick(pair, &pick);
		pair_add_device(pair, S, &more[0]);
		pair_run(pair, SECOND / 10);
		assert_true(pick.seen > 0);
		drain(pair, side, 1, true);
		pair_set_pick(pair, NULL);
		pair_run(pair, 20 * SECOND);
		assert_int_equal(links_on(pair, side, 1), 0);
		assert_no_reset(pair, &c, 1);
		pair_free(pair);
	}
}

/** The drained state belongs to the device, whatever happens to its port. */
static void a_port_that_comes_back_stays_out_of_use(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	drain(pair, S, 1, true);
	pair_run(pair, 10 * SECOND);
	pair_set_port(pair, S, 1, false);
	pair_run(pair, SECOND);
	pair_set_port(pair, S, 1, true);
	pair_run(pair, 60 * SECOND);
	assert_int_equal(links_on(pair, S, 1), 0);
	assert_true(smcr_engine_device_drained(pair->side[S].engine, pair_device(S, 1).id));
	assert_no_reset(pair, &c, 1);
	assert_int_equal(smcr_engine_device_drain(pair->side[S].engine, 99, true), -ENODEV);
	pair_free(pair);
}

/** Both RNICs are drained, and one is put back into use while its link waits to go: then the link
 *  of the other one may go. */
static void the_other_one_goes_instead(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	pair->side[S].hold_completions = true;
	pair_send(pair, c, S, 100, 1);
	pair_pump(pair);
	uint8_t busy = pair_conn_view(pair, c, S).link_number;
	size_t first = device_of(pair, busy);
	drain(pair, S, first, true);
	pair_pump(pair);
	/* this link waited to go */
	assert_int_equal(pair_link_view(pair, S, busy).state, SMCR_LINK_ACTIVE);
	drain(pair, S, !first, true);
	pair_pump(pair);
	drain(pair, S, first, false);
	pair->side[S].hold_completions = false;
	pair_run(pair, 10 * SECOND);
	assert_int_equal(links_on(pair, S, first), 1);
	assert_int_equal(links_on(pair, S, !first), 0);
	pair_expect(pair, c, C, 100, 1);
	assert_no_reset(pair, &c, 1);
	pair_free(pair);
}

/** An operator, of either side, deletes the link that waits to go because its RNIC is drained. When
 *  the drain is taken back, the link goes all the same, and the command ends. */
static void the_operator_wants_it_gone_as_well(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		uint64_t id;
		struct pair *pair = pair_grouped(2, &c);
		pair->side[S].hold_completions = true;
		pair_send(pair, c, S, 100, 1);
		pair_pump(pair);
		uint8_t busy = pair_conn_view(pair, c, S).link_number;
		size_t n = device_of(pair, busy);
		drain(pair, S, n, true);
		pair_pump(pair);
		assert_int_equal(pair_link_view(pair, S, busy).state, SMCR_LINK_ACTIVE);
		const struct smcr_command delete = { .type = SMCR_COMMAND_LINK_DELETE,
						     .lgr = pair_lgr_view(pair, side).id,
						     .link = busy,
						     .orderly = true };
		assert_int_equal(smcr_engine_command(pair->side[side].engine, &delete, &id), 0);
		pair_pump(pair);
		drain(pair, S, n, false);
		pair->side[S].hold_completions = false;
		pair_run(pair, 3 * SECOND);
		assert_int_equal(pair->side[side].commands_done, 1);
		assert_int_equal(pair->side[side].command_result.error, 0);
		assert_int_equal(links_on(pair, S, n), 0);
		pair_expect(pair, c, C, 100, 1);
		assert_no_reset(pair, &c, 1);
		pair_free(pair);
	}
}

/** A link is deleted as soon as the last connection on it, or promised to it, has moved or ended.
 */
static void nobody_waits_for_the_time(void **state)
{
	(void)state;
	for (int dies = 0; dies < 2; dies++) {
		int c;
		struct pair *pair = pair_grouped(2, &c);
		struct pair_pick pick = {
			.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int fresh = pair_connect(pair, C);
		pair_pump(pair);
		uint32_t promised = pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.qpn;
		uint8_t link = promised == pair_link_view(pair, S, 1).local_qpn ? 1 : 2;
		size_t n = device_of(pair, link);
		drain(pair, S, n, true);
		pair_pump(pair);
		assert_int_equal(links_on(pair, S, n), 1);
		if (dies)
			smcr_conn_give_up(pair_end(pair, fresh, S)->smc, SMCR_REASON_INTERNAL);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_int_equal(links_on(pair, S, n), 0);
		if (!dies)
			pair_exchange(pair, fresh);
		assert_no_reset(pair, &c, 1);
		pair_free(pair);
	}
}

/** A link goes because its RNIC is drained, not because an operator wants fewer links: a client
 * that asks for one meanwhile gets it, on the RNIC that is left. */
static void asked_for_a_link_meanwhile(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .reply = true, .verdict = PAIR_HOLD
	};
	const struct smcr_llc_msg notice = { .type = SMCR_LLC_ADD_LINK };
	pair_set_pick(pair, &pick);
	drain(pair, S, 1, true);
	pair_pump(pair);
	assert_true(pick.seen > 0);
	pair_inject_llc(pair, C, 1, &notice);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(links_on(pair, S, 1), 0);
	assert_int_equal(links_on(pair, S, 0), 2);
	assert_no_reset(pair, &c, 1);
	pair_free(pair);
}

/** A group that may have two links, between hosts with three RNICs each. */
static struct pair *three_rnics_two_links(int *ret_conn)
{
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].max_links = config[C].max_links = 2;
	struct pair *pair = pair_new(&config[S], &config[C], 3, 3);
	*ret_conn = pair_connected(pair);
	return pair;
}

/** Drain the two RNICs of three that have links. */
static void drain_both(struct pair *pair, int side)
{
	drain(pair, side, links_on(pair, side, 1) ? 1 : 2, true);
	pair_pump(pair);
	drain(pair, side, 0, true);
	pair_pump(pair);
}

/** In the end the first RNIC has no link. Frees the pair. */
static void moves_to_the_third(struct pair *pair, int side, int conn)
{
	pair_run(pair, 60 * UINT64_C(1000000));
	assert_int_equal(links_on(pair, side, 0), 0);
	assert_no_reset(pair, &conn, 1);
	pair_free(pair);
}

/** An operator drains two of three RNICs, the second while the link of the first is being deleted.
 *  The group gets a link on the third one when it has fewer links than it may have. */
static void two_of_three(void **state)
{
	(void)state;
	for (int row = 0; row < 4; row++) {
		TRIES("row %d", row);
		const int side = row / 2 ? S : C;
		int c;
		struct pair *pair = three_rnics_two_links(&c);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_DELETE_LINK,
					  .verdict = PAIR_HOLD };
		if (row % 2)
			pair_set_pick(pair, &pick);
		drain_both(pair, side);
		pair_set_pick(pair, NULL);
		moves_to_the_third(pair, side, c);
	}
}

/** A client tells of the third RNIC as soon as the server deletes the link of the first, not only
 *  when the reply has gone out. */
static void told_of_when_a_link_goes(void **state)
{
	(void)state;
	int c;
	struct pair *pair = three_rnics_two_links(&c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	drain_both(pair, C);
	assert_true(pick.seen > 0);
	pair_clear_log(pair);
	pair->side[C].hold_completions = true;
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false), 1);
	pair->side[C].hold_completions = false;
	moves_to_the_third(pair, C, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_move_and_come_back),
		cmocka_unit_test(used_again_while_its_link_goes),
		cmocka_unit_test(the_last_link_stays),
		cmocka_unit_test(drained_is_the_reason),
		cmocka_unit_test(no_group_begins_on_a_drained_rnic),
		cmocka_unit_test(another_one_takes_its_place),
		cmocka_unit_test(one_of_several_keeps_a_link),
		cmocka_unit_test(the_other_one_goes_instead),
		cmocka_unit_test(the_operator_wants_it_gone_as_well),
		cmocka_unit_test(nobody_waits_for_the_time),
		cmocka_unit_test(both_sides_at_once),
		cmocka_unit_test(while_a_link_is_added),
		cmocka_unit_test(a_port_that_comes_back_stays_out_of_use),
		cmocka_unit_test(asked_for_a_link_meanwhile),
		cmocka_unit_test(two_of_three),
		cmocka_unit_test(told_of_when_a_link_goes),
	};
	return cmocka_run_group_tests_name("engine_drain", tests, NULL, NULL);
}
