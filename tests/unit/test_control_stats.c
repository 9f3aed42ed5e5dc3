/* SPDX-License-Identifier: MIT */
/* The views of memory and of sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "daemon/control/counters.h"
#include "daemon/smcr/stats.h"
#include "tests/lib/controlfix.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

static void memory_is_shown_piece_by_piece(void **state)
{
	struct controlfix *fix = *state;
	json_int_t used = 0, filled = 0, rmbs = 0;
	const json_t *row;
	size_t i;
	pair_send(fix->pair, fix->conn, C, 321, 1);
	pair_pump(fix->pair);
	json_t *reply = controlfix_ask(fix, false, "rmb.show");
	const json_t *rows = json_object_get(reply, "result");
	assert_true(json_array_size(rows) >= 2);
	json_array_foreach(rows, i, row)
	{
		bool is_rmb = !strcmp(json_string_value(json_object_get(row, "kind")), "rmb");
		rmbs += is_rmb;
		used += controlfix_number(row, "elements_used");
		filled += is_rmb ? controlfix_number(row, "filled_bytes") : 0;
		assert_int_equal(controlfix_number(row, "linkgroup"), 1);
		assert_int_equal(controlfix_number(row, "size_bytes"),
				 controlfix_number(row, "element_size") *
					 controlfix_number(row, "elements"));
		assert_true(json_is_null(json_object_get(row, "owners")));
	}
	json_decref(reply);
	assert_true(rmbs >= 1);
	assert_int_equal(used, 2);
	assert_int_equal(filled, 321);
}

static void sums_are_shown(void **state)
{
	struct controlfix *fix = *state;
	struct smcr_engine_stats stats;
	pair_send(fix->pair, fix->conn, S, 10000, 1);
	pair_pump(fix->pair);
	smcr_engine_get_stats(fix->control.engine, &stats);
	json_t *reply = controlfix_ask(fix, false, "stats.show");
	const json_t *result = json_object_get(reply, "result");
	assert_int_equal(controlfix_number(result, "tx.bytes"), stats.tx.bytes);
	assert_int_equal(controlfix_number(result, "tx.request_sizes.16K"), stats.tx.sizes[1]);
	assert_true(stats.tx.sizes[1] >= 1);
	assert_int_equal(controlfix_number(result, "rx.buffer_sizes.16K"), 1);
	assert_int_equal(controlfix_number(result, "rx.messages"), stats.rx.messages);
	assert_int_equal(controlfix_number(result, "connections.established_v1.server"), 1);
	assert_int_equal(controlfix_number(result, "connections.established_v1.client"), 0);
	assert_int_equal(controlfix_number(result, "connections.handshake_errors.server"), 0);
	assert_int_equal(controlfix_number(result, "first_contacts.count"), 1);
	assert_int_equal(controlfix_number(result, "handshakes.count"), 0);
	assert_int_equal(controlfix_number(result, "linkgroups.links_up"), 2);
	assert_int_equal(controlfix_number(result, "linkgroups.groups_now"), 1);
	assert_true(controlfix_number(result, "memory.used_bytes") > 0);
	assert_int_equal(json_array_size(json_object_get(json_object_get(result, "failover_gaps"),
							 "classes")),
			 SMCR_TIME_CLASSES);
	json_decref(reply);
}

/* Each counter of RNICs is shown exactly once. */
static void counters_of_rnics_are_complete(void **state)
{
	struct rnic_stats stats;
	uint64_t *numbers = (uint64_t *)&stats;
	(void)state;
	for (size_t i = 0; i < sizeof(stats) / sizeof(*numbers); i++)
		numbers[i] = i + 1;
	json_t *object = counters_json(&stats);
	/* How often the interface was read again is not shown: that counter is for tests. */
	assert_int_equal(json_object_size(object), sizeof(stats) / sizeof(*numbers) - 1);
	assert_int_equal(controlfix_number(object, "tx_packets"), stats.tx_packets);
	assert_int_equal(controlfix_number(object, "drop_access"), stats.drop_access);
	json_decref(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(memory_is_shown_piece_by_piece, controlfix_setup,
						controlfix_teardown),
		cmocka_unit_test_setup_teardown(sums_are_shown, controlfix_setup,
						controlfix_teardown),
		cmocka_unit_test(counters_of_rnics_are_complete),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
