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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_living_and_the_dead_are_added_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
