/* SPDX-License-Identifier: MIT */
/* Links of an established group are deleted (RFC 7609 3.5.5.1.3, 3.5.5.1.4, 2.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

/** An operator deletes a link, at either side. */
static void delete_link(struct pair *pair, int side, uint8_t number, bool orderly)
{
	uint64_t id;
	const struct smcr_command command = { .type = SMCR_COMMAND_LINK_DELETE,
					      .lgr = pair_lgr_view(pair, side).id,
					      .link = number,
					      .orderly = orderly };
	assert_int_equal(smcr_engine_command(pair->side[side].engine, &command, &id), 0);
}

/** DELL-7: the client stops using a dead link at once, but keeps it until the server has sent
 *  DELETE LINK and was answered. */
static void dead_at_once_gone_by_agreement(void **state)
{
	(void)state;
	int c[4];
	struct smcr_config config = pair_config(S);
	config.add_link_retry = SECOND;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	for (int i = 0; i < 4; i++)
		c[i] = pair_connected(pair);
	pair_clear_log(pair);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	assert_int_equal(pair_link_view(pair, C, 1).num_conns, 2);
	pair_fail_link(pair, C, 1);
	pair_pump(pair);
	assert_true(pick.seen > 0); /* the server's DELETE LINK is on its way */
	const struct smcr_link *dead = pair_link(pair, C, 1);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_FAILED);
	assert_int_equal(pair_link_view(pair, C, 1).num_conns, 0);
	assert_non_null(pair_link_view(pair, C, 1).qp);
	for (int i = 0; i < 4; i++) /* the server's CDCs wait behind its DELETE LINK */
		assert_int_equal(pair_conn_view(pair, c[i], C).link_number, 2);
	const struct smcr_llc_delete_link *request =
		&pair_last_llc(pair, C, SMCR_LLC_DELETE_LINK, false)->llc.delete_link;
	assert_int_equal(request->link_number, 1);
	assert_int_equal(request->reason, SMCR_LLC_DEL_LOST_PATH);
	assert_false(request->orderly);
	pair_run(pair, SECOND);
	assert_ptr_equal(pair_link(pair, C, 1), dead);
	pair_set_pick(pair, NULL);
	pair_run(pair, SECOND);
	assert_null(pair_link(pair, C, 1));
	assert_null(pair_link(pair, S, 1));
	assert_int_equal(pair_link_view(pair, C, 3).state, SMCR_LINK_ACTIVE); /* a new number */
	for (int i = 0; i < 4; i++) {
		pair_exchange(pair, c[i]);
		assert_int_equal(pair_end(pair, c[i], C)->reset, 0);
	}
	pair_free(pair);
	PROVES("DELL-7 DELL-3 DELL-5 DELL-6");
}

/** The reason of a deletion is sent with its number. */
static void reasons(void **state)
{
	enum { PORT_DOWN, REMOVED, ADDRESS, PROTOCOL, PATH, NUM_CAUSES };
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int cause = 0; cause < NUM_CAUSES; cause++) {
			TRIES("side %d, row %d", side, cause);
			int c;
			struct pair *pair = pair_grouped(2, &c);
			struct smcr_device_info info = pair_device(side, 1);
			const uint8_t garbage[SMCR_LLC_LEN] = { 0x05, SMCR_LLC_LEN };
			switch (cause) {
			case PORT_DOWN: pair_set_port(pair, side, 1, false); break;
			case REMOVED: pair_remove_device(pair, side, info.id); break;
			case ADDRESS:
				info.gid[15]++;
				pair_update_device(pair, side, &info);
				break;
			case PROTOCOL:
				pair_inject_raw(pair, !side, 2, garbage, sizeof(garbage));
				break;
			case PATH: pair_fail_link(pair, side, 2); break;
			}
			pair_pump(pair);
			const struct smcr_llc_delete_link *told =
				&pair_last_llc(pair, side, SMCR_LLC_DELETE_LINK, false)
					 ->llc.delete_link;
			assert_int_equal(told->link_number, 2);
			assert_false(told->orderly);
			assert_int_equal(told->reason, cause == PROTOCOL
							       ? SMCR_LLC_DEL_PROTOCOL_VIOLATION
							       : SMCR_LLC_DEL_LOST_PATH);
			assert_null(pair_link(pair, S, 2));
			assert_null(pair_link(pair, C, 2));
			pair_exchange(pair, c);
			pair_free(pair);
		}
	PROVES("DELL-4 DELL-11 FO-1");
}

/** Data flow in both directions while their link is deleted, orderly or not. */
static void transfers_go_on(void **state)
{
	(void)state;
	for (int orderly = 0; orderly < 2; orderly++)
		for (int side = 0; side < 2; side++) {
			TRIES("orderly %d, side %d", orderly, side);
			struct pair *pair = pair_new(NULL, NULL, 2, 2);
			int c = pair_connected(pair);
			uint8_t used = pair_conn_view(pair, c, side).link_number;
			pair_send(pair, c, S, 9000, 1);
			pair_send(pair, c, C, 9000, 2);
			for (int i = 0; i < 3; i++)
				(void)pair_step(pair);
			delete_link(pair, side, used, orderly);
			pair_pump(pair);
			assert_null(pair_link(pair, S, used));
			pair_expect(pair, c, C, 9000, 1);
			pair_expect(pair, c, S, 9000, 2);
			pair_exchange(pair, c);
			pair_free(pair);
		}
	PROVES("DELL-3");
}

/** A link that is being deleted in good order dies: then nothing is waited for. */
static void leaving_and_dying(void **state)
{
	(void)state;
	int c[2];
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	for (int i = 0; i < 2; i++)
		c[i] = pair_connected(pair);
	pair_clear_log(pair);
	pair->side[S].hold_completions = true;
	pair_send(pair, c[0], S, 100, 7);
	pair_send(pair, c[1], S, 100, 8);
	pair_pump(pair);
	delete_link(pair, S, 1, true);
	delete_link(pair, S, 1, true); /* asking once is enough */
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	pair_qp_fails(pair, S, 1);
	pair_pump(pair);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	assert_null(pair_link(pair, C, 1));
	pair_expect(pair, c[0], C, 100, 7);
	pair_expect(pair, c[1], C, 100, 8);
	pair_free(pair);
	PROVES("DELL-1 DELL-3");
}

/** A50: a link that an operator deletes does not come back because it fails before the sides have
 * agreed: while the server's DELETE LINK is on its way, or the client's answer. */
static void deleted_and_then_dead(void **state)
{
	(void)state;
	for (int row = 0; row < 8; row++) {
		const int side = row & 1, dies = row >> 1 & 1, held = row >> 2;
		TRIES("row %d", row);
		struct smcr_config config = pair_config(S);
		config.add_link_retry = SECOND;
		struct pair *pair = pair_new(&config, NULL, 2, 2);
		int c = pair_connected(pair);
		struct pair_pick pick = { .from = held,
					  .type = SMCR_LLC_DELETE_LINK,
					  .reply = held == C,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		delete_link(pair, side, 2, true);
		pair_pump(pair);
		assert_true(pick.seen > 0);
		pair_qp_fails(pair, dies, 2);
		pair_pump(pair);
		pair_set_pick(pair, NULL);
		pair_run(pair, 5 * SECOND);
		for (int end = 0; end < 2; end++)
			assert_int_equal(pair_lgr_view(pair, end).num_links, 1);
		pair_exchange(pair, c);
		pair_free(pair);
	}
}

/** The server adds a link. */
static void add_link(struct pair *pair)
{
	struct smcr_command command = { .type = SMCR_COMMAND_LINK_ADD,
					.lgr = pair_lgr_view(pair, S).id };
	uint64_t id;
	assert_int_equal(smcr_engine_command(pair->side[S].engine, &command, &id), 0);
	pair_run(pair, 1000);
}

/** The server adds a link, and so a link that waits for its deletion is gone. */
static void add_link_instead(struct pair *pair, uint8_t number)
{
	add_link(pair);
	pair_run(pair, 10000);
	assert_null(pair_link(pair, S, number));
	assert_null(pair_link(pair, C, number));
}

/** One link is being deleted in good order when the other link dies. The first one stays until it
 *  can be spared, whichever side wanted the deletion (A54). */
static void deleted_when_it_can_be_spared(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		struct pair_pick pick = { .from = side,
					  .type = SMCR_LLC_DELETE_LINK,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		delete_link(pair, side, 2, true);
		pair_pump(pair);
		assert_true(pick.seen > 0);
		pair_fail_link(pair, side, 1);
		pair_set_pick(pair, NULL);
		pair_run(pair, 5000000);
		assert_null(pair_link(pair, side, 1));
		assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
		assert_int_equal(pair_link_view(pair, C, 2).state, SMCR_LINK_ACTIVE);
		pair_exchange(pair, c);
		add_link(pair);
		assert_null(pair_link(pair, S, 2));
		assert_null(pair_link(pair, C, 2));
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("DELL-5 SER-6");
}

/** Client and server each want the link deleted on which the other one asks. The client's request
 *  is lost with its carrier. It is made again when the link can be spared (A54). */
static void each_deletes_the_carrier(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	delete_link(pair, C, 1, true);
	pair_pump(pair);
	assert_true(pick.seen > 0);
	delete_link(pair, S, 2, true);
	pair_run(pair, 5000);
	assert_null(pair_link(pair, S, 2));
	assert_null(pair_link(pair, C, 2));
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	pair_set_pick(pair, NULL);
	add_link_instead(pair, 1);
	assert_int_equal(pair_link_view(pair, C, 3).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("DELL-5");
}

/** The client asks on link 2 for the deletion of link 1, and meanwhile the server deletes link 2.
 *  So link 1 is the last link when the request arrives. The client has not asked for the end of the
 *  last link, so link 1 stays until it can be spared (A47, A54). */
static void asked_for_on_a_link_that_goes(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_DELETE_LINK, .link = 2, .verdict = PAIR_LOSE
	};
	struct smcr_llc_msg request = { .type = SMCR_LLC_DELETE_LINK };
	request.delete_link.link_number = 1;
	request.delete_link.orderly = true;
	request.delete_link.reason = SMCR_LLC_DEL_OPERATOR;
	pair_set_pick(pair, &pick);
	delete_link(pair, C, 1, true);
	pair_pump(pair);
	assert_int_equal(pick.seen, 1);
	delete_link(pair, S, 2, true);
	while (pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true) == 0)
		assert_true(pair_step(pair));
	pair_set_pick(pair, NULL);
	pair_inject_llc(pair, C, 2, &request);
	pair_pump(pair);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	pair_exchange(pair, c);
	add_link_instead(pair, 1);
	assert_int_equal(pair_end(pair, c, S)->reset, 0);
	pair_exchange(pair, c);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("DELL-5 DELL-6");
}

/** The carrier of a DELETE LINK fails: now the carrier is deleted, and the other link stays. */
static void the_carrier_dies(void **state)
{
	(void)state;
	for (uint8_t number = 1; number <= 2; number++) {
		TRIES("number %u", number);
		int c;
		uint8_t carrier = 3 - number;
		struct pair *pair = pair_grouped(2, &c);
		struct pair_pick pick = { .from = S,
					  .type = SMCR_LLC_DELETE_LINK,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		delete_link(pair, S, number, true);
		pair_run(pair, 2000000);
		assert_int_equal(pick.seen, 1);
		pair_set_pick(pair, NULL);
		pair_fail_link(pair, S, carrier);
		pair_fail_link(pair, C, carrier);
		pair_run(pair, 10000000);
		assert_null(pair_link(pair, S, carrier));
		assert_null(pair_link(pair, C, carrier));
		assert_int_equal(pair_end(pair, c, S)->reset, 0);
		pair_exchange(pair, c);
		pair_close(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-36");
}

static void command(struct pair *pair, int side, struct smcr_command command)
{
	uint64_t id;
	command.lgr = pair_lgr_view(pair, side).id;
	assert_int_equal(smcr_engine_command(pair->side[side].engine, &command, &id), 0);
}

/** A connection that opens on a link which is to be deleted, as the group's other link is disabled.
 */
static int opened_on_a_link_that_goes(struct pair *pair)
{
	struct pair_pick pick = {
		.from = C, .clc = true, .type = SMCR_CLC_CONFIRM, .verdict = PAIR_HOLD
	};
	command(pair, S, (struct smcr_command){ .type = SMCR_COMMAND_LINK_DISABLE, .link = 1 });
	pair_pump(pair);
	pair_set_pick(pair, &pick);
	int c = pair_connect(pair, C);
	pair_pump(pair);
	delete_link(pair, S, 2, true);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_true(pair_both_established(pair, c));
	assert_int_equal(pair_conn_view(pair, c, S).link_number, 2);
	assert_int_equal(pair_link_view(pair, S, 2).state, SMCR_LINK_ACTIVE);
	return c;
}

/** A link that is deleted in good order goes when the last connection has left it, not when its
 * time to leave is over. */
static void goes_with_its_last_connection(void **state)
{
	enum { ENDS, IS_MOVED, MOVES_TO_A_BETTER_LINK, NUM_WAYS };
	(void)state;
	for (int way = 0; way < NUM_WAYS; way++) {
		TRIES("way %d", way);
		int first;
		struct pair *pair = pair_grouped(2, &first);
		int c = opened_on_a_link_that_goes(pair);
		if (way == ENDS) {
			smcr_conn_close(pair_end(pair, c, S)->smc, false);
			smcr_conn_close(pair_end(pair, c, C)->smc, false);
		} else if (way == IS_MOVED) {
			command(pair, S,
				(struct smcr_command){
					.type = SMCR_COMMAND_FAILOVER, .link = 2, .to = 1 });
		} else {
			command(pair, S,
				(struct smcr_command){ .type = SMCR_COMMAND_LINK_ENABLE,
						       .link = 1 });
		}
		pair_pump(pair);
		assert_null(pair_link(pair, S, 2));
		assert_null(pair_link(pair, C, 2));
		pair_exchange(pair, first);
		if (way != ENDS)
			pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("DELL-5");
}

/** An operator wants a link deleted, in good order or not, which is the last one that stays. */
static void assert_refused(struct pair *pair, int side, uint8_t number)
{
	struct pair_side *asked = &pair->side[side];
	for (int orderly = 0; orderly < 2; orderly++) {
		unsigned int done = asked->commands_done;
		delete_link(pair, side, number, orderly);
		smcr_engine_run(asked->engine, pair->now);
		assert_int_equal(asked->commands_done, done + 1);
		assert_int_equal(asked->command_result.error, -EBUSY);
	}
	assert_int_equal(pair_link_view(pair, side, number).state, SMCR_LINK_ACTIVE);
}

/** No operator deletes a link if no other one stays: because there is none, because the other one
 * is being deleted, or because it has failed. The command says so at once. */
static void the_last_one_that_stays(void **state)
{
	enum { THE_ONLY_ONE, OTHER_GOES, OTHER_HAS_FAILED, NUM_CASES };
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int row = 0; row < NUM_CASES; row++) {
			TRIES("side %d, row %d", side, row);
			int c;
			struct pair *pair = pair_grouped(row == THE_ONLY_ONE ? 1 : 2, &c);
			struct pair_pick pick = { .from = -1,
						  .type = SMCR_LLC_DELETE_LINK,
						  .verdict = PAIR_HOLD };
			pair_set_pick(pair, &pick);
			if (row == OTHER_GOES) {
				delete_link(pair, side, 2, true);
				pair_pump(pair);
			} else if (row == OTHER_HAS_FAILED) {
				pair_fail_link(pair, side, 2);
			}
			assert_refused(pair, side, 1);
			pair_set_pick(pair, NULL);
			pair_pump(pair);
			assert_int_equal(pair_num_qps(pair, side), 1);
			pair_exchange(pair, c);
			pair_close(pair, c);
			pair_free(pair);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deleted_when_it_can_be_spared),
		cmocka_unit_test(dead_at_once_gone_by_agreement),
		cmocka_unit_test(reasons),
		cmocka_unit_test(transfers_go_on),
		cmocka_unit_test(leaving_and_dying),
		cmocka_unit_test(deleted_and_then_dead),
		cmocka_unit_test(each_deletes_the_carrier),
		cmocka_unit_test(asked_for_on_a_link_that_goes),
		cmocka_unit_test(the_carrier_dies),
		cmocka_unit_test(goes_with_its_last_connection),
		cmocka_unit_test(the_last_one_that_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
