/* SPDX-License-Identifier: MIT */
/* Commands of operators, at both ends (RFC 7609 2.3, 3.5.5.1, 3.5.4). */
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
/* More messages than adding a link takes. */
#define ADD_MOMENTS 60

static int start(struct pair *pair, int side, struct smcr_command command, uint64_t *ret_id)
{
	if (!command.lgr)
		command.lgr = pair_lgr_view(pair, side).id;
	return smcr_engine_command(pair->side[side].engine, &command, ret_id);
}

/** Starts a command, lets time pass, and returns the outcome. */
static struct smcr_command_result command(struct pair *pair, int side, struct smcr_command what)
{
	uint64_t id;
	unsigned int before = pair->side[side].commands_done;
	assert_int_equal(start(pair, side, what, &id), 0);
	/* Never told from inside the call. */
	assert_int_equal(pair->side[side].commands_done, before);
	pair_pump(pair);
	assert_int_equal(pair->side[side].commands_done, before + 1);
	assert_int_equal(pair->side[side].command_id, id);
	assert_true(strlen(pair->side[side].command_result.text) > 10);
	return pair->side[side].command_result;
}

static struct smcr_command link_command(enum smcr_command_type type, uint8_t link)
{
	return (struct smcr_command){ .type = type, .link = link, .orderly = true };
}

/** Four connections, two on each of two links. */
static struct pair *loaded(int c[4])
{
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	for (int i = 0; i < 4; i++)
		c[i] = pair_connected(pair);
	pair_clear_log(pair);
	return pair;
}

static void exchange_all(struct pair *pair, const int c[4])
{
	for (int i = 0; i < 4; i++)
		pair_exchange(pair, c[i]);
}

/* ---- links ---- */

/** A link is deleted by the server, or by a client that asks the server; in good order, or as if
 *  the link were dead. Connections move, and the server does not add the link again. */
static void a_link_is_deleted(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int orderly = 0; orderly < 2; orderly++) {
			TRIES("side %d, orderly %d", side, orderly);
			int c[4];
			struct pair *pair = loaded(c);
			struct smcr_config config = pair_config(S);
			config.add_link_retry = SECOND;
			smcr_engine_configure(pair->side[S].engine, &config);
			struct smcr_command delete = link_command(SMCR_COMMAND_LINK_DELETE, 1);
			delete.orderly = orderly;
			struct smcr_command_result result = command(pair, side, delete);
			assert_int_equal(result.error, 0);
			assert_false(result.requested);
			assert_int_equal(result.connections, 2);
			assert_null(pair_link(pair, S, 1));
			assert_null(pair_link(pair, C, 1));
			const struct smcr_llc_delete_link *asked =
				side == C ? &pair_last_llc(pair, C, SMCR_LLC_DELETE_LINK, false)
						     ->llc.delete_link
					  : NULL;
			const struct smcr_llc_delete_link *ordered =
				&pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false)
					 ->llc.delete_link;
			assert_int_equal(ordered->reason, SMCR_LLC_DEL_OPERATOR);
			assert_int_equal(ordered->orderly, orderly);
			assert_int_equal(ordered->link_number, 1);
			assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false),
					 side == C);
			if (asked) {
				assert_int_equal(asked->reason, SMCR_LLC_DEL_OPERATOR);
				assert_int_equal(asked->orderly, orderly); /* DELL-5 */
			}
			exchange_all(pair, c);
			pair_run(pair, 3600 * (uint64_t)SECOND);
			assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
			pair_free(pair);
		}
	PROVES("DELL-3 DELL-4 DELL-5 DELL-6 DELL-11");
}

/** The pause after an earlier failure ends, and the deleted link is still not added again. */
static void a_deleted_link_stays_away(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	config.add_link_retry = 2 * SECOND;
	struct pair *pair = pair_new(&config, NULL, 4, 2); /* the fourth RNIC is refused */
	int c = pair_connected(pair);
	assert_true(smcr_timer_running(&pair_lgr(pair, S)->llc->add.retry));
	assert_int_equal(command(pair, S, link_command(SMCR_COMMAND_LINK_DELETE, 2)).error, 0);
	pair_clear_log(pair);
	pair_run(pair, 3600 * (uint64_t)SECOND);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_ADD_LINK, false), 0);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("DELL-4 DELL-11");
}

static void the_last_link_stays(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = pair_grouped(1, &c);
		struct smcr_command_result result =
			command(pair, side, link_command(SMCR_COMMAND_LINK_DELETE, 1));
		assert_int_equal(result.error, -EBUSY);
		pair_exchange(pair, c);
		pair_free(pair);
	}
}

/** An orderly deletion waits for what the own connections have under way. */
static void an_orderly_deletion_waits_for_writes(void **state)
{
	(void)state;
	int c[4];
	uint64_t id;
	struct pair *pair = loaded(c);
	pair->side[S].hold_completions = true;
	for (int i = 0; i < 4; i++)
		pair_send(pair, c[i], S, 1000, 5);
	assert_int_equal(start(pair, S, link_command(SMCR_COMMAND_LINK_DELETE, 1), &id), 0);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(pair->side[S].commands_done, 1);
	for (int i = 0; i < 4; i++)
		pair_expect(pair, c[i], C, 1000, 5);
	pair_free(pair);
	/* but not for ever */
	pair = loaded(c);
	pair->side[S].hold_completions = true;
	pair_send(pair, c[0], S, 1000, 5);
	assert_int_equal(start(pair, S, link_command(SMCR_COMMAND_LINK_DELETE, 1), &id), 0);
	pair_run(pair, 4900000);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	pair_run(pair, 200000);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	pair_expect(pair, c[0], C, 1000, 5);
	exchange_all(pair, c);
	pair_free(pair);
	PROVES("DELL-1 DELL-3 DELL-5");
}

/** The server may delay an orderly deletion that the client asks for. The client waits that long.
 */
static void an_orderly_request_may_be_delayed(void **state)
{
	(void)state;
	int c[4];
	uint64_t id;
	struct pair *pair = loaded(c);
	pair->side[S].hold_completions = true;
	pair_send(pair, c[0], S, 1000, 5);
	pair_send(pair, c[1], S, 1000, 5);
	assert_int_equal(start(pair, C, link_command(SMCR_COMMAND_LINK_DELETE, 1), &id), 0);
	pair_run(pair, 4500000);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(pair_link_view(pair, C, 1).state, SMCR_LINK_ACTIVE);
	assert_int_equal(pair_link_view(pair, C, 2).state, SMCR_LINK_ACTIVE);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	assert_null(pair_link(pair, C, 1));
	assert_int_equal(pair->side[C].commands_done, 1);
	assert_int_equal(pair->side[C].command_result.error, 0);
	pair_expect(pair, c[0], C, 1000, 5);
	pair_expect(pair, c[1], C, 1000, 5);
	exchange_all(pair, c);
	pair_free(pair);
	PROVES("DELL-5");
}

/** A client that asks for the end of the only link asks for the end of the group (A47). */
static void an_orderly_request_for_the_last_link(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_llc_msg request = { .type = SMCR_LLC_DELETE_LINK };
	request.delete_link.link_number = 1;
	request.delete_link.orderly = true;
	request.delete_link.reason = SMCR_LLC_DEL_OPERATOR;
	pair_inject_llc(pair, C, 1, &request);
	pair_run(pair, SECOND);
	assert_null(pair_lgr(pair, S));
	assert_null(pair_lgr(pair, C));
	assert_true(pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false)->llc.delete_link.all);
	pair_free(pair);
	PROVES("DELL-6");
}

static void a_link_is_added(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = pair_grouped(1, &c);
		const struct smcr_command add = { .type = SMCR_COMMAND_LINK_ADD };
		struct smcr_command_result result = command(pair, side, add);
		/* the server tries to add an asymmetric link; the client knows that its RNIC is the
		 * only one */
		assert_int_equal(result.error, side == S ? -ENOLINK : -ENODEV);
		for (int i = 0; i < 2; i++) {
			struct smcr_device_info info = pair_device(i, 1);
			pair_add_device_quietly(pair, i, &info);
		}
		pair_clear_log(pair);
		result = command(pair, side, add);
		assert_int_equal(result.error, 0);
		assert_int_equal(pair_link_view(pair, !side, result.link).state, SMCR_LINK_ACTIVE);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_ADD_LINK, false), side == C);
		assert_string_equal(pair_lgr_view(pair, S).type, "symmetric");
		result = command(pair, side, add);
		assert_int_equal(result.error, -ENODEV);
		pair_lgr(pair, side)->max_links = 2;
		result = command(pair, side, add);
		assert_int_equal(result.error, -EBUSY);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ADDL-14 ADDL-15 LG-8");
}

/** The RNIC for the new link goes away at any moment of the command: the outcome comes as soon as
 *  it is known, not when the time for the command is over. */
static void its_rnic_goes_away(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (size_t links = 1; links <= 2; links++)
			for (int steps = 0; steps < ADD_MOMENTS; steps++) {
				TRIES("side %d, %zu links, after %d steps", side, links, steps);
				int c;
				uint64_t id;
				struct pair *pair = pair_grouped(links, &c);
				for (int i = 0; i < 2; i++) {
					struct smcr_device_info info = pair_device(i, links);
					pair_add_device_quietly(pair, i, &info);
				}
				const struct smcr_command add = { .type = SMCR_COMMAND_LINK_ADD };
				assert_int_equal(start(pair, side, add, &id), 0);
				for (int i = 0; i < steps; i++)
					pair_step(pair);
				pair_set_port(pair, side, links, false);
				pair_run(pair, 3 * SECOND);
				assert_int_equal(pair->side[side].commands_done, 1);
				assert_int_equal(pair->side[side].command_id, id);
				assert_false(pair->side[side].command_result.requested);
				pair_exchange(pair, c);
				pair_free(pair);
			}
}

/** Sets how long a side waits for answers to LLC messages. */
static void wait_for_answers(struct pair *pair, int side, uint64_t us)
{
	struct smcr_config config = pair_config(side);
	config.llc_timeout = us;
	smcr_engine_configure(pair->side[side].engine, &config);
}

/** No answer comes: the client's outcome says so, and that the server was asked. The server's
 *  outcome says what has failed. */
static void outcomes_that_do_not_come(void **state)
{
	(void)state;
	int c[4];
	uint64_t id;
	struct pair *pair = loaded(c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	wait_for_answers(pair, S, 60 * SECOND);
	wait_for_answers(pair, C, 60 * SECOND);
	assert_int_equal(start(pair, C, link_command(SMCR_COMMAND_LINK_DELETE, 2), &id), 0);
	pair_run(pair, 9900000);
	assert_int_equal(pair->side[C].commands_done, 0);
	pair_run(pair, 200000);
	assert_int_equal(pair->side[C].commands_done, 1);
	assert_true(pair->side[C].command_result.requested);
	assert_int_equal(pair->side[C].command_result.error, 0);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_null(pair_link(pair, C, 2)); /* the link is gone in the end */
	assert_int_equal(pair->side[C].commands_done, 1);
	pair_free(pair);
	pair = loaded(c);
	pair_set_pick(pair, &pick);
	wait_for_answers(pair, S, 60 * SECOND);
	assert_int_equal(start(pair, S, link_command(SMCR_COMMAND_LINK_DELETE, 1), &id), 0);
	pair_run(pair, 11 * SECOND);
	assert_int_equal(pair->side[S].command_result.error, -ETIMEDOUT);
	assert_false(pair->side[S].command_result.requested);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	pair_free(pair);
	/* the asker has gone */
	pair = loaded(c);
	assert_int_equal(start(pair, S, link_command(SMCR_COMMAND_LINK_DELETE, 2), &id), 0);
	smcr_engine_command_forget(pair->side[S].engine, id);
	smcr_engine_command_forget(pair->side[S].engine, id + 1);
	pair_pump(pair);
	assert_int_equal(pair->side[S].commands_done, 0);
	assert_null(pair_link(pair, S, 2)); /* the deletion went on */
	/* the engine is freed while a command waits */
	pair_set_pick(pair, &pick);
	assert_int_equal(
		start(pair, C, (struct smcr_command){ .type = SMCR_COMMAND_LGR_DELETE }, &id), 0);
	pair_free(pair);
}

static void a_link_is_tested(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		uint64_t id;
		struct pair *pair = pair_grouped(2, &c);
		struct smcr_command test = link_command(SMCR_COMMAND_LINK_TEST, 2);
		struct smcr_command_result result = command(pair, side, test);
		assert_int_equal(result.error, 0);
		assert_int_equal(result.rtt, 0); /* no time passes in this test */
		struct pair_pick pick = { .from = !side,
					  .type = SMCR_LLC_TEST_LINK,
					  .reply = true,
					  .verdict = PAIR_HOLD };
		pair_set_pick(pair, &pick);
		assert_int_equal(start(pair, side, test, &id), 0);
		pair_run(pair, 1234);
		pair_set_pick(pair, NULL);
		pair_pump(pair);
		assert_int_equal(pair->side[side].command_result.rtt, 1234);
		pick.verdict = PAIR_LOSE;
		pair_set_pick(pair, &pick);
		assert_int_equal(start(pair, side, test, &id), 0);
		pair_run(pair, 4100000);
		assert_int_equal(pair->side[side].command_result.error, -ENETDOWN);
		pair_free(pair);
	}
	PROVES("TEST-1 ERR-38");
}

static unsigned int on_link(struct pair *pair, int side, uint8_t number)
{
	return pair_link_view(pair, side, number).num_conns;
}

static void own_writes_move(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c[4];
		struct pair *pair = loaded(c);
		struct smcr_command_result result =
			command(pair, side, link_command(SMCR_COMMAND_LINK_DISABLE, 1));
		assert_int_equal(result.error, 0);
		assert_int_equal(result.connections, 2);
		assert_int_equal(on_link(pair, side, 1), 0);
		/* The peer chooses links for itself. */
		assert_int_equal(on_link(pair, !side, 1), 2);
		exchange_all(pair, c);
		(void)pair_connected(pair);
		assert_int_equal(on_link(pair, side, 1), 0);
		result = command(pair, side, link_command(SMCR_COMMAND_LINK_ENABLE, 1));
		assert_int_equal(result.error, 0);
		assert_in_range(on_link(pair, side, 1), 2, 3);
		/* failover away from a link, to a link, and spread over all */
		struct smcr_command to_2 = { .type = SMCR_COMMAND_FAILOVER, .to = 2 };
		result = command(pair, side, to_2);
		assert_int_equal(on_link(pair, side, 1), 0);
		assert_int_equal(on_link(pair, side, 2), 5);
		struct smcr_command off_2 = { .type = SMCR_COMMAND_FAILOVER, .link = 2, .to = 1 };
		result = command(pair, side, off_2);
		assert_int_equal(result.connections, 5);
		assert_int_equal(on_link(pair, side, 1), 5);
		struct smcr_command spread = { .type = SMCR_COMMAND_FAILOVER, .link = 1 };
		result = command(pair, side, spread);
		assert_int_equal(result.connections, 5);
		assert_int_equal(on_link(pair, side, 2), 5);
		exchange_all(pair, c);
		assert_int_equal(pair_count_llc(pair, side, SMCR_LLC_DELETE_LINK, false), 0);
		/* no other link to move to */
		pair_fail_link(pair, side, 1);
		pair_pump(pair);
		struct smcr_command off_last = { .type = SMCR_COMMAND_FAILOVER, .link = 2 };
		assert_int_equal(command(pair, side, off_last).error, -EBUSY);
		result = command(pair, side, link_command(SMCR_COMMAND_LINK_DISABLE, 2));
		assert_int_equal(result.error, 0);
		assert_int_equal(result.connections, 0);
		exchange_all(pair, c);
		pair_free(pair);
	}
	PROVES("FO-12 LG-17");
}

/** No connection moves to a link on which the peer's RMB has no RToken. */
static void nowhere_to_move_to(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_conn *conn = pair_end(pair, c, S)->smc;
	struct smcr_link *from = conn->tx.link, *to = pair_link(pair, S, 3 - from->number);
	struct smcr_rtoken *token = &conn->tx.rmb->token[to->slot];
	token->valid = false;
	assert_int_equal(smcr_failover_move_all(from, NULL), 0);
	assert_int_equal(smcr_failover_move_all(from, to), 0);
	assert_ptr_equal(conn->tx.link, from);
	token->valid = true;
	assert_int_equal(smcr_failover_move_all(from, from), 0);
	assert_int_equal(smcr_failover_move_all(from, NULL), 1);
	assert_ptr_equal(conn->tx.link, to);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("FO-12 RKEY-11");
}

/** The outcome of a move comes when the requests on the old link have completed, not before. */
static void moves_are_waited_for(void **state)
{
	static const struct smcr_command commands[] = {
		{ .type = SMCR_COMMAND_LINK_DISABLE, .link = 1 },
		{ .type = SMCR_COMMAND_FAILOVER, .link = 1 },
		{ .type = SMCR_COMMAND_FAILOVER, .to = 2 },
		{ .type = SMCR_COMMAND_LINK_ENABLE, .link = 2 },
		{ .type = SMCR_COMMAND_FAILOVER },
	};
	(void)state;
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
			TRIES("side %d, row %zu", side, i);
			int c[4];
			uint64_t id;
			struct pair *pair = loaded(c);
			/* All connections on link 1, so that there are some to spread. */
			if (i >= 3) {
				(void)command(pair, side,
					      (struct smcr_command){ .type = SMCR_COMMAND_FAILOVER,
								     .to = 1 });
				if (i == 3)
					(void)command(pair, side,
						      link_command(SMCR_COMMAND_LINK_DISABLE, 2));
			}
			pair->side[side].commands_done = 0;
			pair->side[side].hold_completions = true;
			for (int k = 0; k < 4; k++)
				pair_send(pair, c[k], side, 100, 3);
			assert_int_equal(start(pair, side, commands[i], &id), 0);
			pair_run(pair, SECOND);
			assert_int_equal(pair->side[side].commands_done, 0);
			pair->side[side].hold_completions = false;
			pair_pump(pair);
			assert_int_equal(pair->side[side].commands_done, 1);
			assert_int_equal(pair->side[side].command_result.error, 0);
			assert_int_equal(pair->side[side].command_result.connections, 2);
			assert_non_null(strstr(pair->side[side].command_result.text, "2 conn"));
			for (int k = 0; k < 4; k++)
				pair_expect(pair, c[k], !side, 100, 3);
			/* connections may end instead, or the completions may take too long */
			for (int k = 0; k < 4; k++)
				pair_send(pair, c[k], side, 100, 4);
			pair->side[side].hold_completions = true;
			pair_send(pair, c[0], side, 100, 5);
			const struct smcr_command back = { .type = SMCR_COMMAND_FAILOVER,
							   .link = on_link(pair, side, 1) ? 1 : 2 };
			assert_int_equal(start(pair, side, back, &id), 0);
			pair_run(pair, 11 * SECOND);
			assert_int_equal(pair->side[side].commands_done, 2);
			assert_int_equal(pair->side[side].command_result.error, -ETIMEDOUT);
			pair->side[side].hold_completions = false;
			pair_pump(pair);
			pair_free(pair);
		}
	PROVES("FO-12 LG-17");
}

struct outcome {
	uint64_t id;
	unsigned int seen;
	int error;
};

static void note_outcome(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct outcome *outcome = ctx;
	if (id != outcome->id)
		return;
	outcome->seen++;
	outcome->error = result->error;
}

/** Both links are to be deleted, one soon after the other: one of them stays. */
static void one_of_two_links_stays(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int orderly = 0; orderly < 2; orderly++) {
			TRIES("side %d, orderly %d", side, orderly);
			int c[4];
			uint64_t id;
			struct pair *pair = loaded(c);
			struct smcr_command delete = link_command(SMCR_COMMAND_LINK_DELETE, 2);
			assert_int_equal(
				start(pair, side, link_command(SMCR_COMMAND_LINK_DELETE, 1), &id),
				0);
			delete.orderly = orderly;
			struct outcome outcome = { 0 };
			pair->side[side].on_command_done = note_outcome;
			pair->side[side].on_command_ctx = &outcome;
			assert_int_equal(start(pair, side, delete, &outcome.id), 0);
			pair_pump(pair);
			assert_int_equal(outcome.seen, 1);
			assert_int_equal(outcome.error, -EBUSY);
			pair_run(pair, 20 * SECOND);
			assert_null(pair_link(pair, side, 1));
			exchange_all(pair, c);
			for (int k = 0; k < 4; k++)
				assert_int_equal(pair_end(pair, c[k], !side)->reset, 0);
			pair_free(pair);
		}
	PROVES("DELL-11");
}

/* ---- groups ---- */

static void a_group_is_deleted(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c[4];
		struct pair *pair = loaded(c);
		struct smcr_command_result result = command(
			pair, side, (struct smcr_command){ .type = SMCR_COMMAND_LGR_DELETE });
		assert_int_equal(result.error, 0);
		assert_int_equal(result.connections, 4);
		for (int i = 0; i < 2; i++) {
			assert_null(pair_lgr(pair, i));
			assert_int_equal(pair_num_qps(pair, i), 0);
			for (int k = 0; k < 4; k++)
				assert_int_equal(pair_end(pair, c[k], i)->reset, 1);
		}
		const struct pair_msg *order = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_true(order->llc.delete_link.all);
		assert_int_equal(order->llc.delete_link.reason, SMCR_LLC_DEL_OPERATOR);
		assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), side == C);
		int again = pair_connected(pair); /* the next connection makes a new group */
		pair_exchange(pair, again);
		pair_free(pair);
	}
	PROVES("DELL-8 DELL-9 DELL-10 DELL-11");
}

/* ---- wrong commands ---- */

static void wrong_commands_are_refused(void **state)
{
	static const struct {
		struct smcr_command command;
		int error;
	} rows[] = {
		{ { .type = SMCR_COMMAND_LINK_DELETE, .link = 9 }, -ENOENT },
		{ { .type = SMCR_COMMAND_LINK_DELETE }, -EINVAL },
		{ { .type = SMCR_COMMAND_LINK_TEST, .link = 9 }, -ENOENT },
		{ { .type = SMCR_COMMAND_LINK_TEST, .link = 1, .to = 2 }, -EINVAL },
		{ { .type = SMCR_COMMAND_LINK_TEST, .lgr = 77, .link = 1 }, -ENOENT },
		{ { .type = SMCR_COMMAND_LGR_DELETE, .lgr = 77 }, -ENOENT },
		{ { .type = SMCR_COMMAND_LGR_DELETE, .link = 1 }, -EINVAL },
		{ { .type = SMCR_COMMAND_LINK_ADD, .link = 1 }, -EINVAL },
		{ { .type = SMCR_COMMAND_FAILOVER, .link = 1, .to = 1 }, -EINVAL },
		{ { .type = SMCR_COMMAND_FAILOVER, .link = 1, .to = 9 }, -ENOENT },
		{ { .type = (enum smcr_command_type)99 }, -EINVAL },
	};
	int c;
	uint64_t id = 0;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("row %zu", i);
		assert_int_equal(start(pair, S, rows[i].command, &id), rows[i].error);
	}
	assert_int_equal(id, 0);
	pair_qp_fails(pair, S, 2);
	assert_int_equal(start(pair, S, link_command(SMCR_COMMAND_LINK_TEST, 2), &id), -EBUSY);
	pair_pump(pair);
	pair_free(pair);
	/* in first contact */
	pair = pair_new(NULL, NULL, 2, 2);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_ADD_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	(void)pair_connect(pair, C);
	pair_pump(pair);
	struct smcr_command delete = { .type = SMCR_COMMAND_LGR_DELETE };
	assert_int_equal(start(pair, S, delete, &id), -EBUSY);
	assert_int_equal(start(pair, C, delete, &id), -EBUSY);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	pair_free(pair);
}

/** The outcome comes from the event that causes it, without a timer between. But the caller learns
 *  the id of the command first. */
static void outcomes_do_not_wait(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		uint64_t id;
		struct pair *pair = pair_grouped(2, &c);
		struct pair_side *at = &pair->side[side];
		struct pair_pick pick = { .from = !side,
					  .type = SMCR_LLC_TEST_LINK,
					  .reply = true,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		assert_int_equal(start(pair, side, link_command(SMCR_COMMAND_LINK_TEST, 2), &id),
				 0);
		pair_pump(pair);
		struct smcr_llc_msg answer = { .type = SMCR_LLC_TEST_LINK, .reply = true };
		memcpy(answer.test_link.user_data, pair_link(pair, side, 2)->test_data,
		       sizeof(answer.test_link.user_data));
		pair_inject_llc(pair, !side, 2, &answer);
		assert_int_equal(at->commands_done, 1);
		assert_int_equal(at->command_id, id);
		assert_int_equal(at->command_result.error, 0);

		const struct smcr_command disable = link_command(SMCR_COMMAND_LINK_DISABLE, 2);
		assert_int_equal(start(pair, side, disable, &id), 0);
		/* the outcome is known already, and told later */
		assert_int_equal(at->commands_done, 1);
		pair_pump(pair);
		assert_int_equal(at->commands_done, 2);
		assert_int_equal(at->command_id, id);
		pair_free(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_is_deleted),
		cmocka_unit_test(a_deleted_link_stays_away),
		cmocka_unit_test(the_last_link_stays),
		cmocka_unit_test(an_orderly_deletion_waits_for_writes),
		cmocka_unit_test(an_orderly_request_may_be_delayed),
		cmocka_unit_test(an_orderly_request_for_the_last_link),
		cmocka_unit_test(a_link_is_added),
		cmocka_unit_test(its_rnic_goes_away),
		cmocka_unit_test(outcomes_that_do_not_come),
		cmocka_unit_test(a_link_is_tested),
		cmocka_unit_test(own_writes_move),
		cmocka_unit_test(nowhere_to_move_to),
		cmocka_unit_test(moves_are_waited_for),
		cmocka_unit_test(one_of_two_links_stays),
		cmocka_unit_test(a_group_is_deleted),
		cmocka_unit_test(wrong_commands_are_refused),
		cmocka_unit_test(outcomes_do_not_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
