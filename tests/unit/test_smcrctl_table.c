/* SPDX-License-Identifier: MIT */
/* Tables of smcrctl: how values look, which columns fit, the order of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/smcrctl/objects.h"
#include "cli/smcrctl/sort.h"
#include "cli/smcrctl/table.h"
#include "cli/smcrctl/words.h"
#include "tests/lib/tries.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void bytes_for_people(void **state)
{
	static const struct {
		json_int_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 1023, "1023" },
		{ 1024, "1.0K" },
		{ 10188, "9.9K" },
		{ 10189, "10K" },
		{ 1047000, "1022K" },
		{ 1048063, "1023K" },
		{ 1048064, "1.0M" },
		{ 1258291, "1.2M" },
		{ 1073741823, "1.0G" },
		{ 5497558138880, "5.0T" },
		{ INT64_MAX, "8.0E" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		TRIES("%s", cases[i].text);
		char *text = table_bytes(cases[i].bytes);
		assert_string_equal(text, cases[i].text);
		free(text);
	}
}

static void expect_cell(const char *row, const struct column *column, const char *text)
{
	json_t *json = json_loads(row, JSON_DECODE_ANY, NULL);
	char *cell = table_cell(json, column);
	assert_string_equal(cell, text);
	free(cell);
	json_decref(json);
}

static void uptime_for_people(void **state)
{
	static const struct {
		const char *row, *text;
	} cases[] = {
		{ "{\"uptime_ms\":0}", "0s" },
		{ "{\"uptime_ms\":59999}", "59s" },
		{ "{\"uptime_ms\":60000}", "1m 0s" },
		{ "{\"uptime_ms\":3599999}", "59m 59s" },
		{ "{\"uptime_ms\":3600000}", "1h 0m" },
		{ "{\"uptime_ms\":86399999}", "23h 59m" },
		{ "{\"uptime_ms\":86400000}", "1d 0h" },
		{ "{\"uptime_ms\":10000000000}", "115d 17h" },
		{ "{\"uptime_ms\":null}", "-" },
		{ "{}", "-" },
	};
	static const struct column column = { "uptime", "uptime_ms", .format = table_uptime };
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		TRIES("%s", cases[i].row);
		expect_cell(cases[i].row, &column, cases[i].text);
	}
}

static char *always_x(const json_t *row)
{
	(void)row;
	return strdup("x");
}

static void values_as_text(void **state)
{
	static const struct column plain = { "A", "a" }, inner = { "A", "a.b.c" },
				   bytes = { "A", "tx_bytes" }, size = { "A", "in.rmbe_size" },
				   own = { "A", NULL, .format = always_x };
	(void)state;
	expect_cell("{\"a\":\"text\"}", &plain, "text");
	expect_cell("{\"a\":\"\"}", &plain, "-");
	expect_cell("{\"a\":null}", &plain, "-");
	expect_cell("{}", &plain, "-");
	expect_cell("{\"a\":12345678}", &plain, "12345678");
	expect_cell("{\"a\":true}", &plain, "yes");
	expect_cell("{\"a\":[\"x\",\"y\"]}", &plain, "x, y");
	expect_cell("{\"a\":[]}", &plain, "-");
	expect_cell("{\"a\":{\"b\":{\"c\":7}}}", &inner, "7");
	expect_cell("{\"a\":{\"b\":1}}", &inner, "-");
	expect_cell("{}", &own, "x");
	expect_cell("{\"tx_bytes\":2048}", &bytes, "2.0K");
	expect_cell("{\"in\":{\"rmbe_size\":65536}}", &size, "64K");
	table_set_style(&(const struct table_style){ .exact_bytes = true });
	expect_cell("{\"tx_bytes\":2048}", &bytes, "2048");
	expect_cell("{\"in\":{\"rmbe_size\":65536}}", &size, "65536");
	table_set_style(&(const struct table_style){ .width = 0 });
}

/* Names come from peers and programs: no byte of them controls the terminal. */
static void nothing_does_something_to_a_terminal(void **state)
{
	static const struct column plain = { "A", "a" };
	(void)state;
	expect_cell("{\"a\":\"x\\u001b[2J\\n\\u007f\"}", &plain, "x?[2J??");
	expect_cell("{\"a\":\"x\\u009b2J\"}", &plain, "x??2J");
	expect_cell("{\"a\":\"\\u00e4\\u00a0\\u20ac\"}", &plain, "\xC3\xA4\xC2\xA0\xE2\x82\xAC");
}

/* ---- which columns fit ---- */

static const struct column columns[] = {
	{ "NAME", "name" },
	{ "LEAST", "least", .drop = 3 },
	{ "MORE", "more", .drop = 2 },
	{ "HIDDEN", "hidden", .details = true },
	{ "LAST", "last", .drop = 1 },
	{ "WHY", "why", .sentence = true },
};

/* Expects this line of titles on a terminal of this width. */
static void expect_titles(size_t width, bool details, const char *titles)
{
	static const char rows[] = "[{\"name\":\"n\",\"least\":1,\"more\":\"m\",\"last\":22222,"
				   "\"why\":\"because it is so, and that takes long to tell\"}]";
	FILE *real = stdout;
	char *text, *end;
	size_t len;
	json_t *json = json_loads(rows, 0, NULL);
	table_set_style(&(const struct table_style){ .width = width });
	stdout = open_memstream(&text, &len);
	table_print(json, columns, COUNT(columns), details);
	fclose(stdout);
	stdout = real;
	end = strchr(text, '\n');
	assert_non_null(strstr(end, "because it is so, and that takes long to tell\n"));
	assert_int_equal(strstr(text, "wider") != NULL,
			 !details && width && !strstr(titles, "LEAST"));
	*end = '\0';
	assert_string_equal(text, titles);
	free(text);
	json_decref(json);
	table_set_style(&(const struct table_style){ .width = 0 });
}

static void the_least_important_columns_go(void **state)
{
	(void)state;
	expect_titles(0, false, "NAME  LEAST  MORE   LAST  WHY");
	expect_titles(29, false, "NAME  LEAST  MORE   LAST  WHY");
	expect_titles(28, false, "NAME  MORE   LAST  WHY");
	expect_titles(22, false, "NAME  MORE   LAST  WHY");
	expect_titles(21, false, "NAME   LAST  WHY");
	expect_titles(15, false, "NAME  WHY");
	expect_titles(1, false, "NAME  WHY");
	expect_titles(10, true, "NAME  LEAST  MORE  HIDDEN   LAST  WHY");
}

/* ---- order ---- */

static void expect_order(const char *by, const char *ids)
{
	static const char rows[] =
		"[{\"id\":1,\"last\":10,\"name\":\"10.0.0.10\",\"hidden\":false},"
		"{\"id\":2,\"last\":null,\"name\":\"10.0.0.9\"},"
		"{\"id\":3,\"last\":9,\"name\":null,\"hidden\":true},"
		"{\"id\":4,\"last\":100,\"name\":\"10.0.0.9\",\"hidden\":false}]";
	const struct object object = { "thing", .columns = columns, .num_columns = COUNT(columns) };
	struct sort sort;
	char text[16] = "";
	size_t i;
	json_t *row, *json = json_loads(rows, 0, NULL);
	assert_true(sort_parse(by, &object, &sort));
	json_t *sorted = sort_rows(&sort, json);
	json_array_foreach(sorted, i, row)
	{
		sprintf(text + i, "%d", (int)json_integer_value(json_object_get(row, "id")));
	}
	assert_string_equal(text, ids);
	json_decref(sorted);
	json_decref(json);
}

static void rows_in_order(void **state)
{
	(void)state;
	expect_order("last", "3142");
	expect_order("LAST", "3142");
	expect_order("-last", "4132"); /* unknown values come last */
	/* numbers inside text are compared as numbers; equal rows keep their order */
	expect_order("name", "2413");
	expect_order("-name", "1243");
	expect_order("hidden", "1432");
	expect_order("why", "1234");
}

static void values_that_cannot_be_sorted(void **state)
{
	const struct object table = { "thing", .columns = columns, .num_columns = COUNT(columns) };
	const struct object other = { "other" };
	struct sort sort = { 0 };
	(void)state;
	assert_false(sort_parse("size", &table, &sort));
	assert_false(sort_parse("", &table, &sort));
	assert_false(sort_parse("-", &table, &sort));
	assert_false(sort_parse("name", &other, &sort));
	json_t *json = json_loads("{\"a\":1}", 0, NULL); /* not an array: nothing to order */
	json_t *same = sort_rows(&sort, json);
	assert_ptr_equal(same, json);
	json_decref(same);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_for_people),
		cmocka_unit_test(uptime_for_people),
		cmocka_unit_test(values_as_text),
		cmocka_unit_test(nothing_does_something_to_a_terminal),
		cmocka_unit_test(the_least_important_columns_go),
		cmocka_unit_test(rows_in_order),
		cmocka_unit_test(values_that_cannot_be_sorted),
	};
	return cmocka_run_group_tests_name("smcrctl: tables", tests, NULL, NULL);
}
