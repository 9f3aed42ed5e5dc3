/* SPDX-License-Identifier: MIT */
/* The log on standard error: lines of a daemon in the foreground have times; others get theirs from
 * the journal or syslog. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/host/log.h"

struct fixture {
	FILE *written; /* in place of standard error */
	int before;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	unsetenv("JOURNAL_STREAM");
	fixture->written = tmpfile();
	fixture->before = dup(STDERR_FILENO);
	dup2(fileno(fixture->written), STDERR_FILENO);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	log_tell_starter(false);
	dup2(fixture->before, STDERR_FILENO);
	close(fixture->before);
	fclose(fixture->written);
	free(fixture);
	return 0;
}

/* @return what has been written to standard error */
static const char *written(struct fixture *fixture)
{
	static char text[1024];
	fflush(stderr);
	rewind(fixture->written);
	text[fread(text, 1, sizeof(text) - 1, fixture->written)] = '\0';
	return text;
}

static void a_line_in_the_foreground_has_the_time(void **state)
{
	const time_t before = time(NULL);
	struct tm tm = { .tm_isdst = -1 };
	unsigned int milliseconds;
	int end = 0;
	log_open(LOG_INFO, false);
	log_message(LOG_NOTICE, "%s", "a line");
	log_message(LOG_DEBUG, "%s", "another line");
	const char *text = written(*state);
	assert_int_equal(sscanf(text, "%d-%d-%d %d:%d:%d.%3u %n", &tm.tm_year, &tm.tm_mon,
				&tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &milliseconds,
				&end),
			 7);
	assert_string_equal(text + end, "smcrd: notice: a line\n");
	tm.tm_year -= 1900;
	tm.tm_mon--;
	const time_t told = mktime(&tm);
	assert_true(told >= before && told <= time(NULL));
}

static void so_has_a_line_about_an_event(void **state)
{
	const struct log_field field = { .name = "PEER", .value = "192.0.2.1" };
	unsigned int number;
	int end = 0;
	log_open(LOG_INFO, false);
	log_fields(LOG_INFO, "an event", &field, 1);
	const char *text = written(*state);
	assert_int_equal(sscanf(text, "%u-%*u-%*u %*u:%*u:%*u.%*u %n", &number, &end), 1);
	assert_string_equal(text + end, "smcrd: info: an event\n");
}

static void who_starts_smcrd_in_the_background_is_told_without_a_time(void **state)
{
	log_open(LOG_WARNING, true);
	log_tell_starter(true);
	log_message(LOG_WARNING, "%s", "a line of test_log");
	assert_string_equal(written(*state), "smcrd: warning: a line of test_log\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_line_in_the_foreground_has_the_time),
		CASE(so_has_a_line_about_an_event),
		CASE(who_starts_smcrd_in_the_background_is_told_without_a_time),
	};
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
