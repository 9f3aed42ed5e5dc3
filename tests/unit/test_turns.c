/* SPDX-License-Identifier: MIT */
/* Work that keeps the event loop for long is counted by its kind, and reported now and then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/log.h"
#include "daemon/host/turns.h"

#define SECOND 1000000ull

static void work_is_counted_by_its_kind(void **state)
{
	(void)state;
	struct turns turns = { 0 };
	turns_end(&turns, 100 * SECOND); /* no work was begun */
	turns_begin(&turns, TURNS_PROGRAMS, 100 * SECOND);
	turns_begin(&turns, TURNS_TOOLS, 100 * SECOND + 1000);
	turns_begin(&turns, TURNS_PROGRAMS, 100 * SECOND + 1000 + TURNS_LIMIT_US);
	turns_end(&turns, 100 * SECOND + 3000 + TURNS_LIMIT_US);
	assert_int_equal(turns.counts[TURNS_PROGRAMS].longest_us, 2000);
	assert_int_equal(turns.counts[TURNS_TOOLS].longest_us, TURNS_LIMIT_US);
	for (int i = 0; i < TURNS_WORKS; i++)
		assert_int_equal(turns.counts[i].times, 0);
	turns_begin(&turns, TURNS_ROCE, 200 * SECOND); /* the loop slept before this */
	turns_begin(&turns, TURNS_TIMERS, 200 * SECOND + TURNS_LIMIT_US + 1);
	turns_end(&turns, 200 * SECOND + TURNS_LIMIT_US + 2);
	assert_int_equal(turns.counts[TURNS_ROCE].times, 1);
	assert_int_equal(turns.counts[TURNS_ROCE].longest_us, TURNS_LIMIT_US + 1);
	assert_int_equal(turns.counts[TURNS_TIMERS].times, 0);
	assert_int_equal(turns.counts[TURNS_TIMERS].longest_us, 1);
}

static void each_kind_has_its_name(void **state)
{
	static const char *const names[TURNS_WORKS] = { "programs", "tools", "roce",
							"timers",   "cm",    "host" };
	(void)state;
	for (int i = 0; i < TURNS_WORKS; i++)
		assert_string_equal(turns_name((enum turns_work)i), names[i]);
}

static size_t lines(const char *text, const char *words)
{
	size_t n = 0;
	for (; (text = strstr(text, words)); text++)
		n++;
	return n;
}

static void the_log_tells_once_a_minute(void **state)
{
	(void)state;
	struct turns turns = { 0 };
	int ends[2], before = dup(STDERR_FILENO);
	char text[4096] = "";
	log_open(LOG_NOTICE, false);
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	for (uint64_t at = 1000 * SECOND; at < 1121 * SECOND; at += SECOND) {
		turns_begin(&turns, TURNS_TOOLS, at);
		turns_end(&turns, at + 7000);
	}
	dup2(before, STDERR_FILENO);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_int_equal(lines(text, "work for tools kept everything else waiting for 7 ms"), 3);
	assert_int_equal(lines(text, "(times since the last line: 1)"), 1);
	assert_int_equal(lines(text, "(times since the last line: 60)"), 2);
	assert_int_equal(turns.counts[TURNS_TOOLS].times, 121);
	close(ends[0]);
	close(ends[1]);
	close(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_is_counted_by_its_kind),
		cmocka_unit_test(each_kind_has_its_name),
		cmocka_unit_test(the_log_tells_once_a_minute),
	};
	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
