/* SPDX-License-Identifier: MIT */
/* Probes of idle links (RFC 7609 4.5.3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/smcr/internal.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define S      PAIR_SERVER
#define C      PAIR_CLIENT
#define SECOND 1000000

static struct pair *idle_pair(size_t rnics, int *c, int n)
{
	struct pair *pair = pair_new(NULL, NULL, rnics, rnics);
	for (int i = 0; i < n; i++)
		c[i] = pair_connected(pair);
	for (int i = 0; i < n; i++)
		pair_exchange(pair, c[i]);
	pair_clear_log(pair);
	return pair;
}

static unsigned int probes(const struct pair *pair, int from)
{
	return pair_count_llc(pair, from, SMCR_LLC_TEST_LINK, false);
}

static void want(struct pair *pair, int conn, int side, uint64_t interval)
{
	smcr_conn_keepalive(pair_end(pair, conn, side)->smc, interval);
}

/** Connections and link are idle for as long as the programs have set: one probe for all
 *  connections, and another one after the same time again. */
static void one_probe_for_all(void **state)
{
	int c[60];
	(void)state;
	for (int side = 0; side < 2; side++) {
		TRIES("side %d", side);
		struct pair *pair = idle_pair(1, c, 60);
		for (int i = 0; i < 60; i++)
			want(pair, c[i], side, 10 * SECOND);
		pair_run(pair, 10 * SECOND - 1);
		assert_int_equal(probes(pair, side), 0);
		pair_run(pair, 1);
		assert_int_equal(probes(pair, side), 1);
		assert_int_equal(pair_count_llc(pair, !side, SMCR_LLC_TEST_LINK, true), 1);
		pair_run(pair, 10 * SECOND + 1000);
		assert_int_equal(probes(pair, side), 2);
		assert_int_equal(probes(pair, !side), 0);
		for (int i = 0; i < 60; i++)
			want(pair, c[i], side, 0);
		pair_run(pair, 100 * SECOND);
		assert_int_equal(probes(pair, side), 2);
		pair_free(pair);
	}
	PROVES("TEST-3 TEST-4");
}

/** No probe for a busy connection, nor for an idle connection on a busy link. */
static void traffic_makes_probes_needless(void **state)
{
	int c[2];
	(void)state;
	struct pair *pair = idle_pair(1, c, 2);
	want(pair, c[0], S, 10 * SECOND);
	/* bytes on the connection itself; on another connection of its link */
	for (int busy = 0; busy < 2; busy++)
		for (int i = 0; i < 10; i++) {
			pair_run(pair, 6 * SECOND);
			pair_exchange(pair, c[busy]);
		}
	assert_int_equal(probes(pair, S), 0);
	pair_run(pair, 10 * SECOND);
	assert_int_equal(probes(pair, S), 1);
	pair_free(pair);
	/* the program changes the time, which counts from now on */
	pair = idle_pair(1, c, 1);
	want(pair, c[0], S, 10 * SECOND);
	pair_run(pair, 5 * SECOND);
	want(pair, c[0], S, 20 * SECOND);
	pair_run(pair, 19 * SECOND);
	assert_int_equal(probes(pair, S), 0);
	pair_run(pair, 2 * SECOND);
	assert_int_equal(probes(pair, S), 1);
	pair_free(pair);
	PROVES("TEST-3 TEST-4");
}

/** The two directions use different links: these two are probed, no other. */
static void both_directions_are_probed(void **state)
{
	int c[1];
	(void)state;
	struct pair *pair = idle_pair(3, c, 1);
	struct smcr_command move = { .type = SMCR_COMMAND_FAILOVER,
				     .lgr = pair_lgr_view(pair, C).id,
				     .to = 2 };
	uint64_t id;
	assert_int_equal(smcr_engine_command(pair->side[C].engine, &move, &id), 0);
	move.lgr = pair_lgr_view(pair, S).id;
	move.to = 3;
	assert_int_equal(smcr_engine_command(pair->side[S].engine, &move, &id), 0);
	pair_pump(pair);
	pair_exchange(pair, c[0]);
	struct smcr_conn *conn = pair_end(pair, c[0], S)->smc;
	assert_int_equal(conn->tx.link->number, 3);
	assert_int_equal(conn->rx.last_link->number, 2);
	pair_clear_log(pair);
	want(pair, c[0], S, 10 * SECOND);
	pair_run(pair, 11 * SECOND);
	assert_int_equal(probes(pair, S), 2);
	bool seen[4] = { false };
	for (size_t i = 0; i < pair->log_len; i++)
		if (pair->log[i].from == S)
			seen[pair->log[i].link] = true;
	assert_true(seen[2] && seen[3] && !seen[1]);
	pair_free(pair);
	PROVES("TEST-8");
}

/** The peer has moved the connection and sent no data since. Its CDC for validation tells on which
 *  link it sends, and that link is probed. */
static void the_link_of_a_silent_peer_is_probed(void **state)
{
	int c[1];
	(void)state;
	struct pair *pair = idle_pair(3, c, 1);
	struct smcr_conn *conn = pair_end(pair, c[0], S)->smc;
	struct smcr_command move = { .type = SMCR_COMMAND_FAILOVER,
				     .lgr = pair_lgr_view(pair, C).id,
				     .to = conn->tx.link->number == 2 ? 3 : 2 };
	uint64_t id;
	assert_int_equal(smcr_engine_command(pair->side[C].engine, &move, &id), 0);
	pair_pump(pair);
	assert_int_equal(conn->rx.last_link->number, move.to);
	pair_clear_log(pair);
	want(pair, c[0], S, 10 * SECOND);
	pair_run(pair, 11 * SECOND);
	assert_int_equal(probes(pair, S), 2);
	bool seen = false;
	for (size_t i = 0; i < pair->log_len; i++)
		seen |= pair->log[i].from == S && pair->log[i].link == move.to;
	assert_true(seen);
	/* That link is forgotten when it goes, and not before. */
	uint8_t other = (uint8_t)(6 - move.to - conn->tx.link->number);
	pair_qp_fails(pair, S, other);
	pair_pump(pair);
	assert_null(pair_link(pair, S, other));
	assert_non_null(conn->rx.last_link);
	assert_int_equal(conn->rx.last_link->number, move.to);
	pair_fail_link(pair, S, move.to);
	pair_pump(pair);
	assert_true(!conn->rx.last_link || conn->rx.last_link->number != move.to);
	pair_run(pair, 11 * SECOND);
	pair_exchange(pair, c[0]);
	pair_free(pair);
	PROVES("TEST-8");
}

/** No answer: the link has failed. Connections move to another link, or are reset if there is
 *  none. */
static void no_answer(void **state)
{
	int c[2];
	(void)state;
	for (int side = 0; side < 2; side++)
		for (size_t rnics = 1; rnics <= 2; rnics++) {
			TRIES("side %d, rnics %zu", side, rnics);
			struct pair *pair = idle_pair(rnics, c, 2);
			for (int i = 0; i < 2; i++)
				want(pair, c[i], side, 10 * SECOND);
			struct pair_pick pick = { .from = !side,
						  .type = SMCR_LLC_TEST_LINK,
						  .reply = true,
						  .link = 1,
						  .verdict = PAIR_LOSE };
			pair_set_pick(pair, &pick);
			pair_run(pair, 13900000);
			assert_int_equal(pick.seen, 1);
			assert_int_equal(pair_link_view(pair, side, 1).state, SMCR_LINK_ACTIVE);
			pair_run(pair, 200000);
			for (int i = 0; i < 2 && rnics == 2; i++) {
				pair_exchange(pair, c[i]);
				assert_int_equal(pair_end(pair, c[i], side)->reset, 0);
			}
			assert_int_equal(pair_end(pair, c[0], side)->reset, rnics == 1);
			assert_int_equal(pair_end(pair, c[1], side)->reset, rnics == 1);
			pair_free(pair);
		}
	PROVES("TEST-5 ERR-38");
}

/** The probe cannot be sent. */
static void the_probe_fails(void **state)
{
	int c[2];
	(void)state;
	struct pair *pair = idle_pair(2, c, 2);
	for (int i = 0; i < 2; i++)
		want(pair, c[i], S, 10 * SECOND);
	struct pair_pick pick = {
		.from = S, .type = SMCR_LLC_TEST_LINK, .link = 2, .verdict = PAIR_FAIL
	};
	pair_set_pick(pair, &pick);
	pair_run(pair, 10 * SECOND);
	assert_int_equal(pick.seen, 1);
	assert_null(pair_link(pair, S, 2));
	for (int i = 0; i < 2; i++)
		pair_exchange(pair, c[i]);
	pair_free(pair);
	PROVES("TEST-5");
}

/** Links without any traffic are probed even if no program asks for it. So a peer that has gone
 *  without a word is noticed (TERM-2). */
static void idle_links(void **state)
{
	(void)state;
	struct smcr_config config[2] = { pair_config(S), pair_config(C) };
	config[S].test_link_interval = 30 * SECOND;
	struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
	int c = pair_connected(pair);
	for (int i = 0; i < 10; i++) { /* link 1 has traffic */
		pair_run(pair, 10 * SECOND);
		pair_exchange(pair, c);
	}
	assert_int_equal(pair_conn_view(pair, c, S).link_number, 1);
	assert_int_equal(probes(pair, S), 3);
	for (size_t i = 0; i < pair->log_len; i++)
		if (!pair->log[i].is_clc && !pair->log[i].is_cdc &&
		    pair->log[i].llc.type == SMCR_LLC_TEST_LINK)
			assert_int_equal(pair->log[i].link, 2);
	assert_int_equal(probes(pair, C), 0);
	struct pair_pick pick = {
		.from = C, .type = SMCR_LLC_TEST_LINK, .reply = true, .verdict = PAIR_LOSE
	};
	pair_set_pick(pair, &pick);
	pair_run(pair, 60 * SECOND);
	assert_int_equal(pair_end(pair, c, S)->reset, 1);
	assert_null(pair_lgr(pair, S));
	pair_free(pair);
	PROVES("TERM-2 TEST-5");
}

/** The peer has been silent on a link for so long. @return may its queue pair be given up early? */
static bool may(struct pair *pair, int side, uint8_t link, uint64_t silent_us)
{
	return smcr_engine_may_give_up(pair->side[side].engine, pair_link_ref(pair, side, link),
				       silent_us);
}

/** A queue pair is given up early only if the peer was heard on another link. A link on which the
 *  peer was not heard is probed once, even if idle links are not probed otherwise. */
static void a_queue_pair_is_given_up_for_one_that_lives(void **state)
{
	const uint64_t early = 300000, last = 4000000; /* times for retries */
	int c;
	(void)state;
	for (int side = 0; side < 2; side++) {
		struct smcr_config config[2] = { pair_config(S), pair_config(C) };
		config[side].retry_alternative_ms = (uint32_t)(early / 1000);
		config[side].retry_ms = (uint32_t)(last / 1000);
		struct pair *pair = pair_new(&config[S], &config[C], 2, 2);
		c = pair_connected(pair);
		pair_exchange(pair, c);
		pair_clear_log(pair);

		pair->side[side].silent_us = early / 2 - 1;
		assert_true(may(pair, side, 1, early / 2));
		pair->side[side].silent_us = UINT64_MAX; /* the time is not known */
		assert_true(may(pair, side, 1, early / 2));
		pair_run(pair, SECOND);
		assert_int_equal(probes(pair, side), 0);

		pair->side[side].silent_us = early / 2;
		assert_false(may(pair, side, 1, early / 2));
		assert_false(may(pair, side, 1, last - 1));
		assert_int_equal(probes(pair, side), 0); /* the question itself does not probe */
		pair_run(pair, 1);
		assert_int_equal(probes(pair, side), 1);
		assert_int_equal(pair_last_llc(pair, side, SMCR_LLC_TEST_LINK, false)->link, 2);
		pair_run(pair, 100 * SECOND);
		assert_int_equal(probes(pair, side), 1);
		assert_true(may(pair, side, 1, last));
		assert_true(smcr_engine_may_give_up(pair->side[side].engine, 9999, early));
		pair_free(pair);

		pair = idle_pair(1, &c, 1); /* with one link there is no other to ask */
		pair->side[side].silent_us = last;
		assert_true(may(pair, side, 1, early / 2));
		pair_free(pair);
	}
}

/** A link with traffic that is doubted gets one probe, not a second one. */
static void a_doubted_link_is_probed_once(void **state)
{
	(void)state;
	struct smcr_config config = pair_config(S);
	unsigned int seen = 0;
	config.test_link_interval = 30 * SECOND;
	config.retry_alternative_ms = 300;
	struct pair *pair = pair_new(&config, NULL, 2, 2);
	int c = pair_connected(pair);
	pair->side[S].silent_us = SECOND;
	assert_false(may(pair, S, 2, SECOND));
	for (int i = 0; i < 10; i++) { /* link 1 has traffic */
		pair_run(pair, 10 * SECOND);
		pair_exchange(pair, c);
	}
	for (size_t i = 0; i < pair->log_len; i++)
		seen += !pair->log[i].is_clc && !pair->log[i].is_cdc && pair->log[i].from == S &&
			pair->log[i].link == 1 && pair->log[i].llc.type == SMCR_LLC_TEST_LINK &&
			!pair->log[i].llc.reply;
	assert_int_equal(seen, 1);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_probe_for_all),
		cmocka_unit_test(traffic_makes_probes_needless),
		cmocka_unit_test(both_directions_are_probed),
		cmocka_unit_test(the_link_of_a_silent_peer_is_probed),
		cmocka_unit_test(no_answer),
		cmocka_unit_test(the_probe_fails),
		cmocka_unit_test(idle_links),
		cmocka_unit_test(a_queue_pair_is_given_up_for_one_that_lives),
		cmocka_unit_test(a_doubted_link_is_probed_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
