/* SPDX-License-Identifier: MIT */
/* Words of smcrctl's command line: what an abbreviation means, what is suggested, what filters
 * take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/smcrctl/filters.h"
#include "cli/smcrctl/words.h"
#include "tests/lib/tries.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[] = { "link", "linkgroup", "connection", "peer", "ueid" };

static void prefixes(void **state)
{
	const char *other;
	(void)state;
	assert_int_equal(words_match("link", names, COUNT(names), &other), 0);
	assert_null(other); /* an exact word wins over longer words that begin with it */
	assert_int_equal(words_match("linkg", names, COUNT(names), &other), 1);
	assert_int_equal(words_match("l", names, COUNT(names), &other), 0);
	assert_string_equal(other, "linkgroup");
	assert_int_equal(words_match("links", names, COUNT(names), &other), -1);
	assert_int_equal(words_match("", names, COUNT(names), &other), -1);
}

static void suggestions(void **state)
{
	static const struct {
		const char *word, *meant; /* NULL: no word is similar */
	} cases[] = {
		{ "lnik", "link" },
		{ "linq", "link" },
		{ "lin", "link" },
		{ "links", "link" },
		{ "linkgruop", "linkgroup" },
		{ "conection", "connection" },
		{ "per", "peer" },
		{ "x", NULL },
		{ "", NULL },
		{ "xy", NULL },
		{ "nonsense", NULL },
		{ "cnnctin", NULL },
		{ "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", NULL },
	};
	char hint[WORDS_HINT_LEN], wanted[WORDS_HINT_LEN];
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		TRIES("%s", cases[i].word);
		words_hint(cases[i].word, names, COUNT(names), hint);
		snprintf(wanted, sizeof(wanted), cases[i].meant ? "; did you mean '%s'?" : "%s",
			 cases[i].meant ? cases[i].meant : "");
		assert_string_equal(hint, wanted);
	}
}

static void numbers(void **state)
{
	uint64_t value = 0;
	(void)state;
	assert_true(words_number("4294967295", 10, UINT32_MAX, &value));
	assert_int_equal(value, UINT32_MAX);
	assert_true(words_number("12/3", 2, 100, &value));
	assert_int_equal(value, 12);
	assert_false(words_number("4294967296", 10, UINT32_MAX, &value));
	assert_false(words_number("99999999999999999999", 20, UINT64_MAX / 20, &value));
	assert_false(words_number("0", 1, 10, &value));
	assert_false(words_number("", 0, 10, &value));
	assert_false(words_number("+1", 2, 10, &value));
	assert_false(words_number("1x", 2, 10, &value));
}

static void expect_filters(const char *object, int argc, const char *const *words,
			   const char *params)
{
	char *argv[8];
	for (int i = 0; i < argc; i++)
		argv[i] = strdup(words[i]);
	json_t *taken = json_object();
	assert_int_equal(filters_take(object, argc, argv, taken), params != NULL);
	char *text = json_dumps(taken, JSON_COMPACT | JSON_SORT_KEYS);
	if (params)
		assert_string_equal(text, params);
	free(text);
	json_decref(taken);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
}

static void filters(void **state)
{
	(void)state;
	expect_filters("link", 0, NULL, "{}");
	expect_filters("device", 0, NULL, "{}");
	expect_filters("connection", 6,
		       (const char *const[]){ "port", "443", "uid", "0", "g", "3" },
		       "{\"linkgroup\":3,\"port\":443,\"uid\":0}");
	expect_filters("connection", 2, (const char *const[]){ "uid", "root" }, "{\"uid\":0}");
	expect_filters("connection", 2, (const char *const[]){ "uid", "4294967295" },
		       "{\"uid\":4294967295}");
	expect_filters("connection", 2, (const char *const[]){ "uid", "4294967296" }, NULL);
	expect_filters("connection", 2, (const char *const[]){ "port", "65536" }, NULL);
	expect_filters("connection", 1, (const char *const[]){ "port" }, NULL);
	expect_filters("connection", 2, (const char *const[]){ "p", "1" }, NULL);
	expect_filters("link", 2, (const char *const[]){ "pid", "1" }, NULL);
	expect_filters("link", 2, (const char *const[]){ "peer", "\xff" }, NULL);
	expect_filters("link", 4, (const char *const[]){ "group", "1", "group", "1" }, NULL);
	assert_true(filters_begin("link", "peer"));
	assert_false(filters_begin("link", "port"));
	assert_false(filters_begin("device", NULL));
	assert_string_equal(filters_name("link", 0), "peer");
	assert_null(filters_name("link", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefixes),
		cmocka_unit_test(suggestions),
		cmocka_unit_test(numbers),
		cmocka_unit_test(filters),
	};
	return cmocka_run_group_tests_name("smcrctl: words", tests, NULL, NULL);
}
