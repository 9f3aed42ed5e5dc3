/* SPDX-License-Identifier: MIT */
/* Texts from elsewhere, as they are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "daemon/host/words.h"
#include "tests/lib/tries.h"

static void bytes_that_are_no_character_become_question_marks(void **state)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "", "" },
		{ "plain, two\nlines", "plain, two\nlines" },
		{ "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\xA7",
		  "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\xA7" },
		{ "cut \xC3", "cut ?" },
		{ "cut \xE2\x82' is", "cut ?\?' is" },
		{ "\xF0\x9F\x90", "???" },
		{ "\x1B[31m\t\x7F", "?[31m??" },
		{ "\xC2\x9B", "??" },                  /* CSI as one character */
		{ "\xC0\xAF \xE0\x80\xAF", "?? ???" }, /* longer encodings than necessary */
		{ "\xED\xA0\x80 \xF4\x90\x80\x80", "??? ????" },
		{ "\xFF\xFE\x80", "???" },
		{ "\xEF\xBF\xBE \xEF\xBF\xBF \xEF\xBF\xBD", "??? ??? \xEF\xBF\xBD" },
		{ "\xEF\xB7\x8F \xEF\xB7\x90 \xEF\xB7\xAF \xEF\xB7\xB0",
		  "\xEF\xB7\x8F ??? ??? \xEF\xB7\xB0" },
		{ "\xF0\x9F\xBF\xBE \xF4\x8F\xBF\xBF \xF0\x9E\xBF\xBD",
		  "???? ???? \xF0\x9E\xBF\xBD" },
		{ "\xE1\xBF\xBE \xF0\xA0\xBF\xBE", "\xE1\xBF\xBE \xF0\xA0\xBF\xBE" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].text);
		char text[64];
		snprintf(text, sizeof(text), "%s", cases[i].text);
		words_mend(text);
		assert_string_equal(text, cases[i].shown);
	}
}

/* Any three bytes. */
static void the_text_fits_into_json(void **state)
{
	(void)state;
	for (uint32_t bytes = 0; bytes < 1u << 24; bytes += 61) {
		char text[] = { 'a', (char)(bytes >> 16), (char)(bytes >> 8), (char)bytes, 'z', 0 };
		words_mend(text);
		json_t *string = json_string(text);
		assert_non_null(string);
		json_decref(string);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_that_are_no_character_become_question_marks),
		cmocka_unit_test(the_text_fits_into_json),
	};
	return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
