/* SPDX-License-Identifier: MIT */
/* Link groups in service: links fail and are deleted, groups idle and end, LLC at any time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc_delete_link.h"
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

/* ---- idle groups ---- */

static void idle_group(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	pair_run(pair, 700ull * SECOND); /* in use: stays */
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	pair_close(pair, c);
	pair_run(pair, 599ull * SECOND);
	assert_non_null(pair_lgr(pair, S));
	/* Kept for the next connection, which starts the idle time anew. */
	c = pair_connected(pair);
	assert_false(pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.first_contact);
	pair_close(pair, c);
	pair_run(pair, 599ull * SECOND);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 0);
	/* nothing is freed before the SEND has completed */
	pair->side[S].hold_completions = true;
	pair_run(pair, 2ull * SECOND);
	const struct pair_msg *del = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
	assert_non_null(del);
	assert_true(del->llc.delete_link.all);
	assert_true(del->llc.delete_link.orderly);
	assert_int_equal(del->llc.delete_link.link_number, 0);
	assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_INACTIVITY);
	assert_non_null(pair_lgr(pair, S));
	gone(pair, C);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	gone(pair, S);
	/* the client has not asked for the deletion, and no reply was sent */
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false), 0);
	assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 0);
	c = pair_connected(pair);
	assert_true(pair_last_clc(pair, S, SMCR_CLC_ACCEPT)->clc.accept.first_contact);
	pair_close(pair, c);
	pair_free(pair);
	PROVES("LG-16 DELL-8 DELL-9 LLC-4");
}

static void end_that_nobody_confirms(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	pair_close(pair, c);
	pair->side[S].hold_completions = true;
	pair_run(pair, 606ull * SECOND);
	gone(pair, S);
	pair_free(pair);
	/* the client asks for the end, and nobody answers on one link after the other */
	pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = C, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_LOSE };
	pair_set_pick(pair, &pick);
	smcr_engine_shutdown(pair->side[C].engine);
	pair_run(pair, 5 * SECOND);
	assert_int_equal(pick.seen, 2);
	assert_non_null(pair_lgr(pair, C));
	pair_run(pair, 4 * SECOND);
	gone(pair, C);
	pair_free(pair);
	PROVES("ERR-34 ERR-35");
}

static void delete_all_resets_connections(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK };
	msg.delete_link.all = true;
	msg.delete_link.reason = SMCR_LLC_DEL_OPERATOR;
	pair_inject_llc(pair, S, 2, &msg);
	pair_pump(pair);
	gone(pair, C);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	assert_int_equal(pair_end(pair, c, C)->last.type, SMCR_CONN_CLOSED);
	assert_true(pair_end(pair, c, C)->last.tcp_reset);
	pair_free(pair);
	/* the client asks, and the server answers with a request of its own */
	pair = pair_grouped(2, &c);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	const struct pair_msg *del = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
	assert_non_null(del);
	assert_true(del->llc.delete_link.all);
	assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_OPERATOR);
	gone(pair, S);
	gone(pair, C);
	assert_int_equal(pair_end(pair, c, S)->reset, 1);
	assert_int_equal(pair_end(pair, c, C)->reset, 1);
	pair_free(pair);
	PROVES("DELL-9 DELL-10");
}

/* ---- orderly stop ---- */

static void shutdown_of_one_side(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		/* also a group that is being set up, and a connection that waits to be closed */
		int closing = pair_connected(pair);
		smcr_conn_close(pair_end(pair, closing, C)->smc, false);
		pair_pump(pair);
		struct pair_pick pick = {
			.from = C, .clc = true, .type = SMCR_CLC_PROPOSAL, .verdict = PAIR_HOLD
		};
		pair_set_pick(pair, &pick);
		int starting = pair_connect(pair, C);
		pair_pump(pair);
		smcr_engine_shutdown(pair->side[side].engine);
		pair_set_pick(pair, NULL);
		pair_run(pair, 5 * SECOND);
		for (int i = 0; i < 2; i++) {
			gone(pair, i);
			assert_int_equal(pair_end(pair, c, i)->reset, 1);
			assert_int_equal(pair_end(pair, c, i)->closed, 1);
			assert_null(pair_end(pair, closing, i)->smc);
			assert_int_equal(pair_end(pair, starting, i)->fallback, 1);
		}
		assert_true(smcr_engine_idle(pair->side[side].engine));
		const struct pair_msg *del = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
		assert_true(del && del->llc.delete_link.all);
		del = pair_last_llc(pair, C, SMCR_LLC_DELETE_LINK, false);
		assert_true((del != NULL) == (side == C));
		/* no new connections */
		int late = pair_connect(pair, C);
		pair_run(pair, SECOND);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_end(pair, late, i)->fallback, 1);
		pair_free(pair);
	}
	PROVES("TERM-1 DELL-10");
}

static void shutdown_in_first_contact(void **state)
{
	static const struct pair_pick rows[] = {
		{ .from = C, .clc = true, .type = SMCR_CLC_PROPOSAL },
		{ .from = S, .clc = true, .type = SMCR_CLC_ACCEPT },
		{ .from = C, .clc = true, .type = SMCR_CLC_CONFIRM },
		{ .from = S, .type = SMCR_LLC_CONFIRM_LINK },
		{ .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true },
		{ .from = S, .type = SMCR_LLC_ADD_LINK },
		{ .from = C, .type = SMCR_LLC_ADD_LINK, .reply = true },
		{ .from = S, .type = SMCR_LLC_ADD_LINK_CONT },
		{ .from = C, .type = SMCR_LLC_ADD_LINK_CONT, .reply = true },
		{ .from = S, .type = SMCR_LLC_CONFIRM_LINK, .link = 2 },
		{ .from = C, .type = SMCR_LLC_CONFIRM_LINK, .reply = true, .link = 2 },
	};
	(void)state;
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			TRIES("side %d, row %zu", side, i);
			struct pair *pair = pair_new(NULL, NULL, 2, 2);
			struct pair_pick pick = rows[i];
			pick.verdict = PAIR_HOLD;
			pair_set_pick(pair, &pick);
			int c = pair_connect(pair, C), held = pair_connect(pair, C);
			pair_pump(pair);
			smcr_engine_shutdown(pair->side[side].engine);
			pair_pump(pair);
			pair_set_pick(pair, NULL);
			pair_run(pair, 20 * SECOND);
			gone(pair, side);
			for (int e = 0; e < 2; e++) {
				assert_null(pair_end(pair, c, e)->smc);
				assert_null(pair_end(pair, held, e)->smc);
			}
			pair_free(pair);
		}
	PROVES("TERM-1");
}

/* ---- links fail ---- */

/** One of two links fails, on either side: the group goes on with the other link, and both sides
 *  delete the failed one. */
static void link_fails(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (uint8_t number = 1; number <= 2; number++) {
			TRIES("side %d, number %u", side, number);
			int c[2];
			struct pair *pair = pair_grouped(2, &c[0]);
			c[1] = pair_connected(pair);
			int on = pair_conn_view(pair, c[0], S).link_number == number ? 0 : 1;
			pair_fail_link(pair, side, number);
			pair_pump(pair);
			/* client's request if the client saw the failure, server's request,
			 * client's reply */
			assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, false),
					 side == C);
			assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
			assert_int_equal(pair_count_llc(pair, C, SMCR_LLC_DELETE_LINK, true), 1);
			const struct pair_msg *del =
				pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
			assert_int_equal(del->llc.delete_link.link_number, number);
			assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_LOST_PATH);
			assert_true(del->link != number);
			for (int i = 0; i < 2; i++) {
				assert_null(pair_link(pair, i, number));
				assert_int_equal(pair_num_qps(pair, i), 1);
			}
			pair_exchange(pair, c[!on]);
			/* new connections use the other link */
			int more = pair_connected(pair);
			pair_exchange(pair, more);
			pair_free(pair);
		}
	PROVES("DELL-1 DELL-2 DELL-5 DELL-6 ERR-33");
}

static void rnic_is_removed(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		pair_remove_device(pair, side, pair->side[side].devices[0].id);
		assert_int_equal(pair_num_qps(pair, side), 1); /* at once */
		pair_pump(pair);
		assert_int_equal(pair_num_qps(pair, !side), 1);
		int more = pair_connected(pair);
		pair_exchange(pair, more);
		pair_remove_device(pair, side, pair->side[side].devices[0].id);
		assert_int_equal(pair_num_qps(pair, side), 0);
		pair_run(pair, 5 * SECOND);
		gone(pair, side);
		assert_int_equal(pair_end(pair, more, side)->reset, 1);
		pair_free(pair);
	}
	PROVES("GEN-5");
}

static void port_goes_down(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_device_info info = pair->side[S].devices[1];
	info.active = false;
	assert_int_equal(smcr_engine_device_update(pair->side[S].engine, &info), 0);
	pair_pump(pair);
	assert_null(pair_link(pair, S, 2));
	assert_null(pair_link(pair, C, 2));
	assert_int_equal(smcr_engine_device_update(pair->side[S].engine, &pair->side[S].devices[0]),
			 0);
	assert_non_null(pair_link(pair, S, 1));
	info.id = 999;
	assert_int_equal(smcr_engine_device_update(pair->side[S].engine, &info), -ENODEV);
	info.mtu = 9;
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &info), -EINVAL);
	assert_int_equal(smcr_engine_device_add(pair->side[S].engine, &pair->side[S].devices[0]),
			 -EEXIST);
	pair_free(pair);
}

/** The device reports that a queue pair is dead though the engine has posted nothing on it. */
static void queue_pair_fails_by_itself(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	uint64_t ref = pair_link_ref(pair, S, 2);
	smcr_engine_qp_failed(pair->side[S].engine, ref, "refused a request");
	pair_pump(pair);
	for (int side = 0; side < 2; side++) {
		assert_null(pair_link(pair, side, 2));
		assert_int_equal(pair_link_view(pair, side, 1).state, SMCR_LINK_ACTIVE);
	}
	/* this queue pair has gone: nothing happens */
	smcr_engine_qp_failed(pair->side[S].engine, ref, "again");
	pair_pump(pair);
	pair_exchange(pair, c);
	pair_free(pair);
}

static void last_link_fails(void **state)
{
	(void)state;
	int c[3];
	struct pair *pair = pair_grouped(1, &c[0]);
	c[1] = pair_connected(pair);
	c[2] = pair_connected(pair);
	pair_fail_link(pair, C, 1);
	pair_run(pair, 5 * SECOND);
	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(pair_end(pair, c[i], side)->reset, 1);
		gone(pair, side);
	}
	pair_free(pair);
	PROVES("GEN-5 FO-13");
}

/** A group in the RFC's dialect with so many links and one connection; the log is empty. */
static struct pair *by_the_letter(size_t links, int *ret_conn)
{
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	for (int i = 0; i < 2; i++)
		config[i].dialect = SMCR_DIALECT_FORCE_RFC;
	struct pair *pair = pair_new(&config[S], &config[C], links, links);
	*ret_conn = pair_connected(pair);
	pair_clear_log(pair);
	return pair;
}

/** The carrier of DELETE LINK fails too. In the deployed dialect it would be tested first. */
static void both_links_fail(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		int c;
		struct pair *pair = by_the_letter(2, &c);
		struct pair_pick pick = { .from = side,
					  .type = SMCR_LLC_DELETE_LINK,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		pair_fail_link(pair, side, 1);
		pair_run(pair, 3900000);
		assert_non_null(pair_lgr(pair, side));
		pair_run(pair, 200000); /* no answer: the carrier has failed too */
		assert_null(pair_lgr(pair, side));
		pair_set_pick(pair, NULL);
		pair_run(pair, 10 * SECOND);
		gone(pair, side);
		pair_free(pair);
	}
	PROVES("ERR-33 ERR-36");
}

/** Keeps a reply from a peer that has not asked. */
static enum pair_verdict keep_reply(struct pair *pair, const struct pair_msg *msg, void *arg)
{
	(void)pair;
	if (msg->is_clc || msg->is_cdc || !msg->llc.reply)
		return PAIR_PASS;
	*(struct smcr_llc_msg *)arg = msg->llc;
	return PAIR_LOSE;
}

static void unknown_link_numbers(void **state)
{
	(void)state;
	for (int from = 0; from < 2; from++) {
		TRIES("from %d", from);
		int c;
		struct pair *pair = pair_grouped(2, &c);
		struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK };
		msg.delete_link.link_number = 77;
		msg.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
		struct smcr_llc_msg reply = { 0 };
		pair->filter = keep_reply;
		pair->filter_arg = &reply;
		pair_inject_llc(pair, from, 1, &msg);
		pair_pump(pair);
		assert_int_equal(reply.type, SMCR_LLC_DELETE_LINK);
		assert_int_equal(reply.delete_link.reason, SMCR_LLC_DEL_UNKNOWN_LINK);
		assert_int_equal(reply.delete_link.link_number, 77);
		pair_exchange(pair, c);
		pair_free(pair);
	}
	PROVES("ERR-56 ERR-57");
}

static void client_asks_for_deletion(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK };
	msg.delete_link.link_number = 2;
	msg.delete_link.orderly = true;
	msg.delete_link.reason = SMCR_LLC_DEL_OPERATOR;
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	/* the client's request gets no reply: the server sends a request of its own, with the
	 * client's reason */
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, true), 0);
	const struct pair_msg *del = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false);
	assert_int_equal(del->llc.delete_link.link_number, 2);
	assert_int_equal(del->llc.delete_link.reason, SMCR_LLC_DEL_OPERATOR);
	assert_null(pair_link(pair, S, 2));
	assert_null(pair_link(pair, C, 2));
	/* the client asks again while the server cleans up: ignored */
	pair_free(pair);
	pair = pair_grouped(2, &c);
	struct pair_pick pick = { .from = S, .type = SMCR_LLC_DELETE_LINK, .verdict = PAIR_HOLD };
	pair_set_pick(pair, &pick);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	pair_inject_llc(pair, C, 1, &msg);
	pair_pump(pair);
	assert_int_equal(pair_link_view(pair, S, 1).state, SMCR_LINK_ACTIVE);
	pair_set_pick(pair, NULL);
	pair_pump(pair);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, false), 1);
	assert_int_equal(pair_count_llc(pair, S, SMCR_LLC_DELETE_LINK, true), 0);
	pair_free(pair);
	PROVES("DELL-5 DELL-6 ERR-56");
}

/** The client has lost the carrier of its reply and asks once more, while the server still cleans
 *  up. */
static void client_asks_for_what_is_agreed(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK };
	msg.delete_link.link_number = 2;
	msg.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
	pair_inject_llc(pair, C, 1, &msg);
	while (pair_link(pair, S, 2)->deletion.state != SMCR_DELETION_AGREED)
		assert_true(pair_step(pair));
	smcr_llc_on_delete_link_request(pair_link(pair, S, 1), &msg);
	pair_pump(pair);
	const struct pair_msg *reply = pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, true);
	assert_non_null(reply);
	assert_int_equal(reply->llc.delete_link.link_number, 2);
	assert_int_equal(reply->llc.delete_link.reason, SMCR_LLC_DEL_UNKNOWN_LINK);
	pair_free(pair);
	PROVES("ERR-56");
}

static void link_numbers(void **state)
{
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_device *device = pair->side[S].engine->devices;
	unsigned int seen[256] = { 0 };
	for (int i = 0; i < 300; i++) {
		struct smcr_link *link;
		assert_int_equal(smcr_link_new(lgr, device, 0, &link), 0);
		assert_true(link->number != 0 && link->number != 1); /* number 1 is in use */
		seen[link->number]++;
		/* a number comes again only after all others */
		for (unsigned int n = 2; n < 256; n++)
			assert_true(seen[n] + 1 >= seen[link->number]);
		smcr_link_free(link);
	}
	/* nine links at most, each with a slot and a number of its own */
	struct smcr_link *more[SMCR_LINK_SLOTS];
	for (int i = 0; i < SMCR_LINK_SLOTS - 1; i++)
		assert_int_equal(smcr_link_new(lgr, device, 0, &more[i]), 0);
	assert_int_equal(smcr_link_new(lgr, device, 0, &more[8]), -ENOSPC);
	for (int i = 0; i < SMCR_LINK_SLOTS - 1; i++)
		smcr_link_free(more[i]);
	pair_exchange(pair, c);
	pair_free(pair);
	PROVES("LG-11 LG-6");
}

/** The carrier of DELETE LINK does not answer, as the message or its reply is lost. So it has
 *  failed too, and both links are deleted over the third one. */
static void deletion_goes_on_elsewhere(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++)
		for (int lost = 0; lost < 2; lost++) {
			TRIES("side %d, lost %d", side, lost);
			int c;
			struct pair *pair = by_the_letter(3, &c);
			struct pair_pick pick = { .from = lost ? !side : side,
						  .type = SMCR_LLC_DELETE_LINK,
						  .reply = lost && side == S,
						  .link = 2,
						  .verdict = PAIR_LOSE };
			pair_set_pick(pair, &pick);
			pair_fail_link(pair, side, 1);
			pair_run(pair, 3900000);
			assert_int_equal(pick.seen, 1);
			assert_int_equal(pair_link_view(pair, side, 2).state, SMCR_LINK_ACTIVE);
			pair_clear_log(pair);
			pair_run(pair, SECOND);
			bool told[4] = { false };
			for (size_t i = 0; i < pair->log_len; i++) {
				const struct pair_msg *msg = &pair->log[i];
				if (msg->is_clc || msg->is_cdc || msg->from != side ||
				    msg->llc.type != SMCR_LLC_DELETE_LINK || msg->llc.reply)
					continue;
				assert_int_equal(msg->link, 3);
				told[msg->llc.delete_link.link_number] = true;
			}
			assert_true(told[1] && told[2] && !told[3]);
			for (int i = 0; i < 2; i++) {
				assert_null(pair_link(pair, i, 1));
				assert_null(pair_link(pair, i, 2));
				assert_int_equal(pair_link_view(pair, i, 3).state,
						 SMCR_LINK_ACTIVE);
			}
			pair_set_pick(pair, NULL);
			pair_exchange(pair, c);
			pair_free(pair);
		}
	PROVES("ERR-33 ERR-36");
}

/** The client ends the group while the server still waits for a reply of the first contact. */
static void end_in_first_contact(void **state)
{
	static const uint8_t held[] = { SMCR_LLC_ADD_LINK, SMCR_LLC_ADD_LINK_CONT,
					SMCR_LLC_CONFIRM_LINK };
	(void)state;
	for (unsigned int i = 0; i < sizeof(held); i++) {
		TRIES("row %u", i);
		struct pair *pair = pair_new(NULL, NULL, 2, 2);
		struct pair_pick pick = { .from = C,
					  .type = held[i],
					  .reply = true,
					  .skip = held[i] == SMCR_LLC_CONFIRM_LINK,
					  .verdict = PAIR_LOSE };
		pair_set_pick(pair, &pick);
		int c = pair_connect(pair, C);
		pair_pump(pair);
		assert_int_equal(pick.seen, 1);
		assert_int_equal(pair_lgr(pair, S)->state, SMCR_LGR_FIRST_CONTACT);
		struct smcr_llc_msg end = { .type = SMCR_LLC_DELETE_LINK };
		end.delete_link.all = true;
		end.delete_link.reason = SMCR_LLC_DEL_LOST_PATH;
		pair_inject_llc(pair, C, 1, &end);
		pair_run(pair, 1000);
		assert_int_equal(pair_end(pair, c, S)->failed, 1);
		/* the client opens its gate when it confirms the second link */
		assert_int_equal(pair_end(pair, c, C)->failed + pair_end(pair, c, C)->reset, 1);
		assert_null(pair_lgr(pair, S));
		assert_null(pair_lgr(pair, C));
		assert_true(
			pair_last_llc(pair, S, SMCR_LLC_DELETE_LINK, false)->llc.delete_link.all);
		pair_free(pair);
	}
	PROVES("DELL-10 SER-4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_group),
		cmocka_unit_test(end_that_nobody_confirms),
		cmocka_unit_test(delete_all_resets_connections),
		cmocka_unit_test(shutdown_of_one_side),
		cmocka_unit_test(shutdown_in_first_contact),
		cmocka_unit_test(link_fails),
		cmocka_unit_test(rnic_is_removed),
		cmocka_unit_test(port_goes_down),
		cmocka_unit_test(queue_pair_fails_by_itself),
		cmocka_unit_test(last_link_fails),
		cmocka_unit_test(both_links_fail),
		cmocka_unit_test(unknown_link_numbers),
		cmocka_unit_test(client_asks_for_deletion),
		cmocka_unit_test(client_asks_for_what_is_agreed),
		cmocka_unit_test(deletion_goes_on_elsewhere),
		cmocka_unit_test(end_in_first_contact),
		cmocka_unit_test(link_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
