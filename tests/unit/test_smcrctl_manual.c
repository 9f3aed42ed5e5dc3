/* SPDX-License-Identifier: MIT */
/* The manual page of each object has every column of its table, and every line of info and
 * stats. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/smcrctl/objects.h"
#include "cli/smcrctl/table.h"
#include "cli/smcrctl/tools.h"

/* The real function makes connections, and would need the whole library. */
int check_run(const struct tool_call *call)
{
	(void)call;
	fail_msg("nobody checks anything here");
	return 0;
}

static char page[65536];

static void read_page(const char *object)
{
	char name[64];
	snprintf(name, sizeof(name), "man/smcrctl-%s.8", object);
	FILE *file = fopen(name, "r");
	if (!file)
		fail_msg("there is no %s", name);
	page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
	fclose(file);
}

/* @return true if "Ic TITLE" or 'Ic "two words"' is a line of its own or begins an item */
static bool has_title(const char *from, const char *title)
{
	static const char *const forms[] = { ".It Ic %s\n",     ".It Ic %s Pq ",
					     ".It Ic \"%s\"\n", ".It Ic \"%s\" Pq ",
					     ".Ic %s\n",        ".Ic %s ,\n",
					     ".Ic %s :\n" };
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		char text[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof(text), forms[i], title);
#pragma GCC diagnostic pop
		if (strstr(from, text))
			return true;
	}
	return false;
}

/* The page has columns that only -d shows below a heading that says so, and the others above it. */
static void every_column_is_in_its_page(void **state)
{
	unsigned int looked_at = 0;
	(void)state;
	for (size_t i = 0; i < num_objects; i++) {
		const struct object *object = &objects[i];
		if (object->num_columns == 0)
			continue;
		read_page(object->name);
		char *details = strstr(page, "\n.Ss With -d also\n");
		for (size_t c = 0; c < object->num_columns; c++) {
			const struct column *column = &object->columns[c];
			if (column->details && !details)
				fail_msg("smcrctl-%s(8) has nothing about -d", object->name);
			if (!has_title(column->details ? details : page, column->title))
				fail_msg("smcrctl-%s(8) lacks %s", object->name, column->title);
			if (!column->details && details) {
				*details = '\0';
				if (!has_title(page, column->title))
					fail_msg("smcrctl-%s(8) says that %s needs -d",
						 object->name, column->title);
				*details = '\n';
			}
			looked_at++;
		}
	}
	assert_true(looked_at > 100);
}

/* ---- objects with several tables: their output is checked ---- */

static const struct object *find(const char *name)
{
	for (size_t i = 0; i < num_objects; i++)
		if (!strcmp(objects[i].name, name))
			return &objects[i];
	fail_msg("there is no object %s", name);
	return NULL;
}

static char *print(const char *name, const char *result)
{
	FILE *real = stdout;
	char *text = NULL;
	size_t len;
	json_t *json = json_loads(result, 0, NULL);
	assert_non_null(json);
	stdout = open_memstream(&text, &len);
	find(name)->print(json, true);
	fclose(stdout);
	stdout = real;
	json_decref(json);
	return text;
}

/* The title of a column is in capitals. */
static bool is_title(const char *cell)
{
	bool letter = false;
	for (const char *at = cell; *at; at++) {
		if (islower((unsigned char)*at))
			return false;
		letter |= isupper((unsigned char)*at) != 0;
	}
	return letter;
}

/* Cells are at least two blanks apart. Of "name: value" the name is a cell. */
static unsigned int check_line(const char *object, char *line, bool labels)
{
	unsigned int looked_at = 0;
	char *colon = strstr(line, ": ");
	for (char *cell = line, *next; cell; cell = next) {
		next = strstr(cell, "  ");
		if (next) {
			*next++ = '\0';
			next += strspn(next, " ");
		}
		if (colon)
			*colon = '\0';
		bool label = labels && cell == line;
		if (*cell && (label || is_title(cell))) {
			if (!has_title(page, cell))
				fail_msg("smcrctl-%s(8) lacks %s", object, cell);
			looked_at++;
		}
		if (colon)
			return looked_at;
	}
	return looked_at;
}

/* @param labels  the first word of a line is a name too */
static unsigned int check_output(const char *object, const char *result, bool labels)
{
	char *text = print(object, result), *save = NULL;
	unsigned int looked_at = 0;
	read_page(object);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		looked_at += check_line(object, line, labels);
	free(text);
	return looked_at;
}

static void every_column_of_policy_and_config_is_in_their_pages(void **state)
{
	(void)state;
	assert_true(check_output("config", "[{\"key\":\"k\",\"value\":\"v\"}]", false) == 4);
	assert_true(check_output("policy",
				 "{\"rules\":[{\"rule\":\"all\"}],"
				 "\"failed\":[{\"peer\":\"p\"}],\"learnt\":[{\"peer\":\"p\"}],"
				 "\"paths\":[{\"peer\":\"p\"}]}",
				 false) >= 3 + 5 + 8 + 6);
}

static void every_line_of_info_and_stats_is_in_their_pages(void **state)
{
	(void)state;
	assert_true(check_output("info", "{\"version\":\"1\"}", true) > 40);
	assert_true(check_output("stats",
				 "{\"connections\":{\"reasons\":[]},\"tx\":{},\"rx\":{},"
				 "\"handshakes\":{\"classes\":[]},\"devices\":[]}",
				 true) > 60);
}

/* The line of titles in an example has only columns that exist. */
static void examples_are_not_out_of_date(void **state)
{
	unsigned int looked_at = 0;
	(void)state;
	for (size_t i = 0; i < num_objects; i++) {
		char command[64], line[256];
		read_page(objects[i].name);
		snprintf(command, sizeof(command), "\n$ smcrctl %s", objects[i].name);
		const char *example = strstr(page, command);
		example = example ? strchr(example + 1, '\n') : NULL;
		if (!example || !objects[i].print)
			continue;
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(example + 1, "\n"), example + 1);
		looked_at += check_line(objects[i].name, line, false);
	}
	assert_true(looked_at > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_column_is_in_its_page),
		cmocka_unit_test(every_column_of_policy_and_config_is_in_their_pages),
		cmocka_unit_test(examples_are_not_out_of_date),
		cmocka_unit_test(every_line_of_info_and_stats_is_in_their_pages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
