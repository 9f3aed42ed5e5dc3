/* SPDX-License-Identifier: MIT */
/* One line a minute for each peer and reason. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/smcr/log_limit.h"

static struct log_limit limit;
static char more[LOG_LIMIT_TEXT];

static int setup(void **state)
{
	(void)state;
	limit = (struct log_limit){ 0 };
	strcpy(more, "of before");
	return 0;
}

static bool passes(const char *reason, uint8_t peer, int64_t now)
{
	const uint8_t addr[16] = { [15] = peer };
	return log_limit_passes(&limit, reason, addr, now, more);
}

static void one_line_a_minute(void **state)
{
	(void)state;
	assert_true(passes("a", 1, 5));
	assert_string_equal(more, "");
	for (int i = 0; i < 7; i++)
		assert_false(passes("a", 1, 5 + i));
	assert_false(passes("a", 1, 5 + LOG_LIMIT_MS - 1));
	assert_true(passes("a", 1, 5 + LOG_LIMIT_MS));
	assert_string_equal(more, " (and 8 times before)");
	assert_true(passes("a", 1, 5 + 2 * LOG_LIMIT_MS));
	assert_string_equal(more, "");
	assert_false(passes("a", 1, 6 + 2 * LOG_LIMIT_MS));
	assert_true(passes("a", 1, 5 + 3 * LOG_LIMIT_MS));
	assert_string_equal(more, " (and 1 time before)");
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
	/* A new peer takes the place of another one whose minute is over: the lines left out for
	 * that one are not reported. */
	assert_true(passes("c", 3, LOG_LIMIT_MS));
	assert_string_equal(more, "");
}

/* One host may have very many addresses. Its lines do not fill the log, and do not hide those of
 * others. */
static void all_peers_together_have_a_limit(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < LOG_LIMIT_PLACES; i++)
		assert_true(passes("a", (uint8_t)i, i));
	assert_string_equal(more, "");
	assert_true(passes("a", 200, LOG_LIMIT_PLACES));
	assert_non_null(strstr(more, "not all peers are named"));
	for (unsigned int i = 0; i < 7; i++)
		assert_false(passes("a", (uint8_t)(201 + i), LOG_LIMIT_PLACES + i));

	const int64_t later = LOG_LIMIT_MS + LOG_LIMIT_PLACES;
	for (unsigned int i = 0; i < LOG_LIMIT_PLACES; i++)
		assert_true(passes("b", (uint8_t)i, later));
	assert_string_equal(more, "");
	assert_true(passes("a", 250, later));
	assert_non_null(strstr(more, "(lines about other peers that were left out: 7;"));
	assert_false(passes("a", 251, later));
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
