/* SPDX-License-Identifier: MIT */
/* The words of "smcrctl log" as parameters of config.set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/smcrctl/commands.h"
#include "tests/lib/tries.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The real function makes connections, and would need the whole library. */
int check_run(const struct tool_call *call)
{
	(void)call;
	fail_msg("nobody checks anything here");
	return 0;
}

static void words_become_values(void **state)
{
	static const struct {
		const char *words[6];
		const char *request; /* NULL: the words are refused */
	} cases[] = {
		{ { "log", "level", "debug" },
		  "{\"method\":\"config.set\",\"params\":{\"name\":\"log_level\",\"value\":"
		  "\"debug\"}}" },
		{ { "log", "lev", "deb" },
		  "{\"method\":\"config.set\",\"params\":{\"name\":\"log_level\",\"value\":"
		  "\"debug\"}}" },
		{ { "log", "level" }, NULL },
		{ { "log", "level", "loud" }, NULL },
		{ { "log", "level", "info", "debug" }, NULL },
		{ { "log", "trace", "llc", "clc" },
		  "{\"method\":\"config.set\",\"params\":{\"name\":\"log_trace\",\"value\":\"llc "
		  "clc\"}}" },
		{ { "log", "trace", "off" },
		  "{\"method\":\"config.set\",\"params\":{\"name\":\"log_trace\",\"value\":"
		  "\"none\"}}" },
		{ { "log", "trace", "all" },
		  "{\"method\":\"config.set\",\"params\":{\"name\":\"log_trace\",\"value\":"
		  "\"all\"}}" },
		{ { "log", "trace" }, NULL },
		{ { "log", "trace", "llc", "off" }, NULL },
		{ { "log", "trace", "tcp" }, NULL },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *words[COUNT(cases[i].words)] = { NULL };
		struct request request = { .text = NULL };
		int n = 0;
		for (; n < (int)COUNT(words) && cases[i].words[n]; n++)
			words[n] = strdup(cases[i].words[n]);
		TRIES("%zu", i);
		const int error = commands_parse(n, words, 0, &request);
		assert_int_equal(error != 0, cases[i].request == NULL);
		if (!error)
			assert_string_equal(request.text, cases[i].request);
		free(request.text);
		while (n > 0)
			free(words[--n]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_values),
	};
	return cmocka_run_group_tests_name("smcrctl log", tests, NULL, NULL);
}
