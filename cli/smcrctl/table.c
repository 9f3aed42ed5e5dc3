/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *lookup(const json_t *row, const char *key)
{
	const char *dot = strchr(key, '.');
	if (!dot)
		return json_object_get(row, key);
	char *outer = strndup(key, (size_t)(dot - key));
	const json_t *inner = outer ? json_object_get(row, outer) : NULL;
	free(outer);
	return lookup(inner, dot + 1);
}

/* "a, b" for an array. */
static char *array_text(const json_t *value)
{
	char *text = strdup("");
	size_t i;
	json_t *item;
	json_array_foreach(value, i, item)
	{
		char *longer;
		if (!text || asprintf(&longer, "%s%s%s", text, i ? ", " : "",
				      json_is_string(item) ? json_string_value(item) : "?") < 0)
			break;
		free(text);
		text = longer;
	}
	return text;
}

static char *value_text(const json_t *value)
{
	char *text = NULL;
	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_STRING: return strdup(json_string_value(value));
	case JSON_INTEGER:
		return asprintf(&text, "%" JSON_INTEGER_FORMAT, json_integer_value(value)) < 0
			       ? NULL
			       : text;
	case JSON_TRUE: return strdup("yes");
	case JSON_FALSE: return strdup("no");
	case JSON_ARRAY: return array_text(value);
	default: return strdup("-");
	}
}

static char *cell(const json_t *row, const struct column *column)
{
	char *text = column->format ? column->format(row) : value_text(lookup(row, column->key));
	if (!text)
		text = strdup("-");
	if (text && *text)
		return text;
	free(text);
	return strdup("-");
}

static bool is_number(const json_t *row, const struct column *column)
{
	return !column->format && json_is_integer(lookup(row, column->key));
}

static void print_line(char **cells, const int *widths, const bool *right, size_t n)
{
	for (size_t c = 0; c < n; c++) {
		if (c + 1 == n && !right[c]) {
			fputs(cells[c] ? cells[c] : "", stdout);
			continue;
		}
		printf(right[c] ? "%*s" : "%-*s", widths[c], cells[c] ? cells[c] : "");
		if (c + 1 < n)
			fputs("  ", stdout);
	}
	putchar('\n');
}

static size_t shown_columns(const struct column *columns, size_t num_columns, bool details,
			    const struct column **ret)
{
	size_t n = 0;
	for (size_t c = 0; c < num_columns && n < TABLE_MAX_COLUMNS; c++)
		if (details || !columns[c].details)
			ret[n++] = &columns[c];
	return n;
}

void table_print(const json_t *rows, const struct column *columns, size_t num_columns, bool details)
{
	const struct column *shown[TABLE_MAX_COLUMNS];
	int widths[TABLE_MAX_COLUMNS];
	bool right[TABLE_MAX_COLUMNS] = { false };
	size_t n = shown_columns(columns, num_columns, details, shown);
	size_t num_rows = json_array_size(rows);
	char **cells = calloc(n * (num_rows + 1), sizeof(*cells));
	if (!cells)
		return;
	for (size_t c = 0; c < n; c++) {
		cells[c] = strdup(shown[c]->title);
		widths[c] = (int)strlen(shown[c]->title);
		for (size_t r = 0; r < num_rows; r++) {
			const json_t *row = json_array_get(rows, r);
			char *text = cell(row, shown[c]);
			int width = text ? (int)strlen(text) : 0;
			cells[(r + 1) * n + c] = text;
			widths[c] = width > widths[c] ? width : widths[c];
			right[c] |= is_number(row, shown[c]);
		}
	}
	for (size_t r = 0; r <= num_rows; r++)
		print_line(&cells[r * n], widths, right, n);
	for (size_t i = 0; i < n * (num_rows + 1); i++)
		free(cells[i]);
	free(cells);
}

void table_print_object(const json_t *object, const struct column *columns, size_t num_columns,
			bool details)
{
	const struct column *shown[TABLE_MAX_COLUMNS];
	size_t n = shown_columns(columns, num_columns, details, shown);
	int width = 0;
	for (size_t c = 0; c < n; c++)
		if ((int)strlen(shown[c]->title) > width)
			width = (int)strlen(shown[c]->title);
	for (size_t c = 0; c < n; c++) {
		char *text = cell(object, shown[c]);
		printf("%-*s  %s\n", width, shown[c]->title, text ? text : "");
		free(text);
	}
}
