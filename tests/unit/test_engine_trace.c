/* SPDX-License-Identifier: MIT */
/* The protocol trace of two engines: exchanges in their order, on both sides, while their category
 * is on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "daemon/smcr/internal.h"
#include "proto/ipc/trace.h"
#include "tests/lib/enginepair.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

static void trace(struct pair *pair, int side, unsigned int categories)
{
	struct smcr_config config = pair_config(side);
	config.trace = categories;
	smcr_engine_configure(pair->side[side].engine, &config);
	pair->side[side].trace[0] = '\0';
}

/* Lines with these words are there in this order, each line once. */
static void expect_lines(const struct pair_side *side, const char *const *wanted)
{
	const char *at = side->trace;
	for (; *wanted; wanted++) {
		TRIES("%s in\n%s", *wanted, side->trace);
		at = strstr(at, *wanted);
		assert_non_null(at);
		at = strchr(at, '\n');
		assert_non_null(at);
	}
}

static size_t count(const char *text, const char *words)
{
	size_t n = 0;
	while ((text = strstr(text, words))) {
		text += strlen(words);
		n++;
	}
	return n;
}

static void clc_is_traced_on_both_sides(void **state)
{
	static const char *const types[] = { ": Proposal, ", ": Accept, version 1, first contact, ",
					     ": Confirm, ", NULL };
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	trace(pair, C, IPC_TRACE_BIT(IPC_TRACE_CLC));
	trace(pair, S, IPC_TRACE_BIT(IPC_TRACE_CLC));
	pair_connected(pair);
	expect_lines(&pair->side[C], types);
	expect_lines(&pair->side[S], types);
	assert_int_equal(count(pair->side[C].trace, "\n"), 3);
	assert_int_equal(count(pair->side[C].trace, "clc: sent to "), 2);
	assert_int_equal(count(pair->side[S].trace, "clc: received from "), 2);
	pair_connected(pair);
	expect_lines(&pair->side[C],
		     (const char *const[]){ ": Confirm, ", ": Accept, version 1, group that exists",
					    NULL });
	pair_free(pair);
}

static void a_decline_is_traced_with_its_reason(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	pair->side[S].refuse = SMCR_REASON_DRAINING;
	trace(pair, C, IPC_TRACE_BIT(IPC_TRACE_CLC));
	pair_connect(pair, C);
	pair_run(pair, 1000);
	expect_lines(&pair->side[C],
		     (const char *const[]){ ": Decline, version 1, reason 0a000013: ", NULL });
	pair_free(pair);
}

static void llc_is_traced_on_both_sides(void **state)
{
	static const char *const server[] = { "link 1/1: CONFIRM LINK request, link 1",
					      "link 1/1: CONFIRM LINK reply, link 1",
					      "link 1/1: ADD LINK request, link 2",
					      "link 1/1: ADD LINK reply, link 2",
					      "link 1/2: CONFIRM LINK request, link 2",
					      "link 1/2: CONFIRM LINK reply, link 2",
					      NULL };
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	for (int side = 0; side < 2; side++)
		trace(pair, side, IPC_TRACE_BIT(IPC_TRACE_LLC));
	pair_connected(pair);
	pair_run(pair, 1000000);
	for (int side = 0; side < 2; side++) {
		expect_lines(&pair->side[side], server);
		assert_int_equal(count(pair->side[side].trace, "clc:"), 0);
	}
	assert_int_equal(count(pair->side[S].trace, "llc: sent to "),
			 count(pair->side[C].trace, "llc: received from "));
	pair_free(pair);
}

static void nobody_can_make_the_trace_fail(void **state)
{
	static const uint8_t bad[SMCR_LLC_LEN] = { SMCR_LLC_TEST_LINK, 3 };
	(void)state;
	int c;
	struct pair *pair = pair_grouped(1, &c);
	pair->tolerant = true;
	trace(pair, C, IPC_TRACE_BIT(IPC_TRACE_LLC));
	pair_inject_raw(pair, S, 1, bad, sizeof(bad));
	pair_run(pair, 1000);
	expect_lines(&pair->side[C],
		     (const char *const[]){ "link 1/1: a malformed or unknown message", NULL });
	pair_free(pair);
}

static void cdc_is_traced_until_it_is_off(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	trace(pair, C, IPC_TRACE_BIT(IPC_TRACE_CDC));
	pair_send(pair, c, C, 100, 1);
	pair_run(pair, 1000);
	pair_expect(pair, c, S, 100, 1);
	pair_run(pair, 1000);
	expect_lines(
		&pair->side[C],
		(const char *const[]){ "link 1/1: CDC 1, producer 0/100, consumer 0/0", NULL });
	trace(pair, C, 0);
	pair_exchange(pair, c);
	assert_string_equal(pair->side[C].trace, "");
	assert_string_equal(pair->side[S].trace, "");
	pair_free(pair);
}

static void rnics_are_traced(void **state)
{
	static const char *const begins[] = { ", link 1/1: creation of the queue pair: done\n",
					      ", link 1/1: RMB: registration: done\n",
					      ", link 1/1: queue pair to ready to receive: done\n",
					      ", link 1/1: queue pair to ready to send: done\n",
					      NULL };
	static const char *const ends[] = { ": it was looked at again, port down",
					    ", link 1/1: queue pair to error: done\n",
					    ", link 1/1: RMB: end of registration: done\n",
					    ", link 1/1: end of the queue pair: done\n", NULL };
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	trace(pair, C, IPC_TRACE_BIT(IPC_TRACE_RNIC));
	pair_connected(pair);
	expect_lines(&pair->side[C], begins);
	pair->side[C].trace[0] = '\0';
	pair_set_port(pair, C, 0, false);
	pair_run(pair, 1000000);
	expect_lines(&pair->side[C], ends);
	pair_free(pair);
}

static void what_an_rnic_refuses_is_traced(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 1, 1);
	trace(pair, C, IPC_TRACE_BIT(IPC_TRACE_RNIC));
	pair->side[C].fail_qp_create = 1;
	pair_connect(pair, C);
	pair_run(pair, 1000);
	expect_lines(&pair->side[C],
		     (const char *const[]){ ": creation of the queue pair: Cannot ", NULL });
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clc_is_traced_on_both_sides),
		cmocka_unit_test(a_decline_is_traced_with_its_reason),
		cmocka_unit_test(llc_is_traced_on_both_sides),
		cmocka_unit_test(nobody_can_make_the_trace_fail),
		cmocka_unit_test(cdc_is_traced_until_it_is_off),
		cmocka_unit_test(rnics_are_traced),
		cmocka_unit_test(what_an_rnic_refuses_is_traced),
	};
	return cmocka_run_group_tests_name("engine trace", tests, NULL, NULL);
}
