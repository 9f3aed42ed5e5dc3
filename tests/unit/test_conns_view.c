/* SPDX-License-Identifier: MIT */
/* What is counted of connections: those that live and those that have ended, together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/conns/internal.h"

/* Connections in each phase, with bytes that no other has. */
static void the_living_and_the_dead_are_added_up(void **state)
{
	(void)state;
	static struct conns conns;
	static struct conn conn[NUM_PHASES];
	struct conns_view view;
	conns.counts = (struct conns_view){ .established = 9,
					    .smcr_tx_bytes = 10000,
					    .smcr_rx_bytes = 20000,
					    .shared_tx_bytes = 30000,
					    .shared_rx_bytes = 40000,
					    .relay_tx_bytes = 50000,
					    .relay_rx_bytes = 60000 };
	uint64_t sum = 0;
	for (int phase = 0; phase < NUM_PHASES; phase++) {
		const uint64_t bytes = 1ull << phase;
		conn[phase].phase = (enum conn_phase)phase;
		conn[phase].pump.tx_bytes = bytes;
		conn[phase].pump.rx_bytes = 2 * bytes;
		conn[phase].shared.tx_bytes = 3 * bytes;
		conn[phase].shared.rx_bytes = 4 * bytes;
		conn[phase].relay.tx_bytes = 5 * bytes;
		conn[phase].relay.rx_bytes = 6 * bytes;
		sum += bytes;
		DL_APPEND(conns.conns, &conn[phase]);
	}
	conns_get_view(&conns, &view);
	assert_int_equal(view.established, 9);
	assert_int_equal(view.smcr_tx_bytes, 10000 + sum);
	assert_int_equal(view.smcr_rx_bytes, 20000 + 2 * sum);
	assert_int_equal(view.shared_tx_bytes, 30000 + 3 * sum);
	assert_int_equal(view.shared_rx_bytes, 40000 + 4 * sum);
	assert_int_equal(view.relay_tx_bytes, 50000 + 5 * sum);
	assert_int_equal(view.relay_rx_bytes, 60000 + 6 * sum);
	/* connecting, rendezvous, declining, again; SMC-R, closing; relay; the dead are none */
	assert_int_equal(view.conns_pending, 4);
	assert_int_equal(view.conns_smcr, 2);
	assert_int_equal(view.conns_relay, 1);
	assert_int_equal(NUM_PHASES, 8);
	assert_int_equal(conns.counts.smcr_tx_bytes, 10000); /* asking changes nothing */
}

/* The history is a ring. What is asked about is found as it was last, and the oldest is forgotten.
 */
static void the_newest_is_found(void **state)
{
	(void)state;
	enum { SIZE = 3 };
	static struct conns conns;
	static struct conn conn;
	struct conn_view view;
	conns.config.limits.history = SIZE;
	assert_int_equal(history_new(&conns), 0);
	conn.conns = &conns;
	assert_false(history_find_tcp(&conns, 0, &view)); /* nothing is there yet */
	for (uint32_t i = 1; i <= 2 * SIZE; i++) {
		conn.reason = i;
		conn.cookie = 7; /* the same TCP socket each time */
		conn.id = 8;
		conn.pair.program_cookie = 9;
		history_add(&conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
		assert_true(history_find_tcp(&conns, 7, &view));
		assert_int_equal(view.reason, i);
		assert_true(history_find_pair(&conns, 8, 9, &view));
		assert_int_equal(view.reason, i);
		assert_false(history_find_pair(&conns, 8, 10, &view));
		assert_false(history_find_pair(&conns, 9, 9, &view));
		assert_false(history_find_tcp(&conns, 8, &view));
	}
	for (uint32_t i = 1; i <= SIZE; i++) {
		conn.cookie = 100 + i;
		assert_true(history_find_tcp(&conns, 7, &view));
		history_add(&conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
	}
	assert_false(history_find_tcp(&conns, 7, &view));
	assert_true(history_find_tcp(&conns, 101, &view));
	history_free(&conns);
}

static void count_reason(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count)
{
	uint64_t *sums = arg;
	sums[0]++;
	sums[1] += count;
	if (reason == 5 && peer_reason == SMCR_REASON_NONE)
		sums[2] = count;
}

/* Peers may give any reasons. Not more than 128 are counted each for itself, the others as what
 * they are to this host. */
static void reasons_of_peers_have_a_limit(void **state)
{
	(void)state;
	enum { MOST = 128, PEERS = 300 };
	static struct conns conns;
	uint64_t sums[3] = { 0 };
	conns.config.limits.history = 1;
	assert_int_equal(history_new(&conns), 0);
	for (uint32_t i = 1; i <= PEERS; i++)
		history_count_reason(&conns, 5, i);
	conns_each_reason(&conns, count_reason, sums);
	assert_int_equal(sums[0], MOST + 1);
	assert_int_equal(sums[1], PEERS);
	assert_int_equal(sums[2], PEERS - MOST);
	history_free(&conns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_living_and_the_dead_are_added_up),
		cmocka_unit_test(the_newest_is_found),
		cmocka_unit_test(reasons_of_peers_have_a_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
