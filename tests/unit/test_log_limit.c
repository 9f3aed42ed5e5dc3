/* SPDX-License-Identifier: MIT */
/* One line a minute of each peer and reason. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "daemon/engine/log_limit.h"

static struct log_limit limit;
static unsigned int left_out;

static int setup(void **state)
{
	(void)state;
	limit = (struct log_limit){ 0 };
	left_out = 99;
	return 0;
}

static bool passes(const char *reason, uint8_t peer, int64_t now)
{
	const uint8_t addr[16] = { [15] = peer };
	return log_limit_passes(&limit, reason, addr, now, &left_out);
}

static void one_line_a_minute(void **state)
{
	(void)state;
	assert_true(passes("a", 1, 5));
	assert_int_equal(left_out, 0);
	for (int i = 0; i < 7; i++)
		assert_false(passes("a", 1, 5 + i));
	assert_false(passes("a", 1, 5 + LOG_LIMIT_MS - 1));
	assert_true(passes("a", 1, 5 + LOG_LIMIT_MS));
	assert_int_equal(left_out, 8);
	assert_true(passes("a", 1, 5 + 2 * LOG_LIMIT_MS));
	assert_int_equal(left_out, 0);
}

static void peers_and_reasons_have_their_own(void **state)
{
	(void)state;
	char same[] = "a";
	assert_true(passes("a", 1, 0));
	assert_true(passes("a", 2, 0));
	assert_true(passes("b", 1, 0));
	assert_false(passes(same, 1, 1));
	assert_false(passes("a", 2, 1));
	assert_false(passes("b", 1, 1));
	/* A place that was another's, whose time is over: what that one left out is forgotten. */
	assert_true(passes("c", 3, LOG_LIMIT_MS));
	assert_int_equal(left_out, 0);
}

/* One host may have very many addresses. */
static void all_peers_together_have_a_limit(void **state)
{
	(void)state;
	unsigned int lines = 0;
	for (unsigned int i = 0; i < 200; i++)
		lines += passes("a", (uint8_t)i, i);
	assert_int_equal(lines, LOG_LIMIT_PLACES);
	assert_true(passes("a", 250, LOG_LIMIT_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_line_a_minute, setup),
		cmocka_unit_test_setup(peers_and_reasons_have_their_own, setup),
		cmocka_unit_test_setup(all_peers_together_have_a_limit, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
