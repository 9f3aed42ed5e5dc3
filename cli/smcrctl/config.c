/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/config.h"

#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* "FILE:LINE", or a word for a value that is from no file. */
static char *source(const json_t *row)
{
	const char *origin = json_string_value(json_object_get(row, "origin"));
	const char *file = json_string_value(json_object_get(row, "file"));
	json_int_t line = json_integer_value(json_object_get(row, "line"));
	char *text = NULL;
	if (file)
		return asprintf(&text, "%s:%" JSON_INTEGER_FORMAT, file, line) < 0 ? NULL : text;
	if (origin && !strcmp(origin, "run-time"))
		return strdup("smcrctl");
	return origin ? strdup(origin) : NULL;
}

static const struct column columns[] = {
	{ "KEY", "key" },
	{ "VALUE", "value" },
	{ "FROM", NULL, .format = source },
	{ "CHANGES-AT", "changes_at", .details = true },
};

void config_print(const json_t *result, bool details)
{
	size_t i;
	json_t *row;
	table_print(result, columns, COUNT(columns), details);
	json_array_foreach(result, i, row)
	{
		const char *later = json_string_value(json_object_get(row, "after_restart"));
		if (later)
			printf("%s: a restart makes it %s.\n",
			       json_string_value(json_object_get(row, "key")), later);
	}
}
