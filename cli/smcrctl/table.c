/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2 /* blanks between columns */

static struct table_style table_style;

void table_set_style(const struct table_style *style)
{
	table_style = *style;
}

/* ---- values ---- */

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

const json_t *table_value(const json_t *row, const struct column *column)
{
	return column->key ? lookup(row, column->key) : NULL;
}

static bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);
	return len >= end_len && !strcmp(text + len - end_len, end);
}

static bool is_bytes(const char *key)
{
	return ends_in(key, "_bytes") || ends_in(key, "_size");
}

char *table_bytes(json_int_t bytes)
{
	static const char units[] = "KMGTPE";
	char *text = NULL;
	double value = (double)bytes;
	int unit = -1, n;
	/* A value that would be rounded to 1024 gets the next unit. */
	while (value >= (unit < 0 ? 1024 : 1023.5) && unit + 1 < (int)sizeof(units) - 1) {
		value /= 1024;
		unit++;
	}
	if (unit < 0)
		n = asprintf(&text, "%" JSON_INTEGER_FORMAT, bytes);
	else
		n = asprintf(&text, value < 9.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
	return n < 0 ? NULL : text;
}

char *table_uptime(const json_t *row)
{
	const json_t *uptime_ms = json_object_get(row, "uptime_ms");
	const unsigned long long s = (unsigned long long)json_integer_value(uptime_ms) / 1000;
	char *text = NULL;
	int n = -1;
	if (!json_is_integer(uptime_ms))
		return NULL;
	if (s < 60)
		n = asprintf(&text, "%llus", s);
	else if (s < 3600)
		n = asprintf(&text, "%llum %llus", s / 60, s % 60);
	else if (s < 86400)
		n = asprintf(&text, "%lluh %llum", s / 3600, s / 60 % 60);
	else
		n = asprintf(&text, "%llud %lluh", s / 86400, s / 3600 % 24);
	return n < 0 ? NULL : text;
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

static char *integer_text(json_int_t value, const char *key)
{
	char *text = NULL;
	if (!table_style.exact_bytes && is_bytes(key))
		return table_bytes(value);
	return asprintf(&text, "%" JSON_INTEGER_FORMAT, value) < 0 ? NULL : text;
}

static char *value_text(const json_t *value, const char *key)
{
	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_STRING: return strdup(json_string_value(value));
	case JSON_INTEGER: return integer_text(json_integer_value(value), key);
	case JSON_TRUE: return strdup("yes");
	case JSON_FALSE: return strdup("no");
	case JSON_ARRAY: return array_text(value);
	default: return strdup("-");
	}
}

/* Peers and programs choose names, which must not control the terminal. */
static void make_harmless(char *text)
{
	for (unsigned char *at = (unsigned char *)text; *at; at++) {
		if (*at < ' ' || *at == 0x7F)
			*at = '?';
		else if (*at == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0) /* U+0080 to U+009F */
			at[0] = at[1] = '?';
	}
}

char *table_cell(const json_t *row, const struct column *column)
{
	char *text = column->format ? column->format(row)
				    : value_text(table_value(row, column), column->key);
	if (!text || !*text) {
		free(text);
		return strdup("-");
	}
	make_harmless(text);
	return text;
}

static bool is_number(const json_t *row, const struct column *column)
{
	return !column->format && json_is_integer(table_value(row, column));
}

/* In characters of UTF-8. */
static size_t width_of(const char *text)
{
	size_t width = 0;
	for (; text && *text; text++)
		width += ((unsigned char)*text & 0xC0) != 0x80;
	return width;
}

/* ---- tables ---- */

struct table {
	size_t num_columns, num_rows;
	const struct column *columns[TABLE_MAX_COLUMNS];
	char **cells[TABLE_MAX_COLUMNS]; /* a column's title, then its rows */
	size_t widths[TABLE_MAX_COLUMNS];
	bool right[TABLE_MAX_COLUMNS];
};

static bool fill_column(struct table *table, const json_t *rows, const struct column *column)
{
	size_t c = table->num_columns;
	char **cells = calloc(table->num_rows + 1, sizeof(*cells));
	if (!cells)
		return false;
	cells[0] = strdup(column->title);
	table->widths[c] = width_of(column->title);
	if (table->widths[c] < column->least)
		table->widths[c] = column->least;
	table->right[c] = column->least && column->key && is_bytes(column->key);
	for (size_t r = 0; r < table->num_rows; r++) {
		const json_t *row = json_array_get(rows, r);
		cells[r + 1] = table_cell(row, column);
		size_t width = width_of(cells[r + 1]);
		table->widths[c] = width > table->widths[c] ? width : table->widths[c];
		table->right[c] |= is_number(row, column);
	}
	table->columns[c] = column;
	table->cells[c] = cells;
	table->num_columns++;
	return true;
}

static void drop_column(struct table *table, size_t c)
{
	for (size_t r = 0; r <= table->num_rows; r++)
		free(table->cells[c][r]);
	free(table->cells[c]);
	table->num_columns--;
	for (; c < table->num_columns; c++) {
		table->columns[c] = table->columns[c + 1];
		table->cells[c] = table->cells[c + 1];
		table->widths[c] = table->widths[c + 1];
		table->right[c] = table->right[c + 1];
	}
}

/* A sentence in the last column may go on in the next line, so only its title counts. */
static size_t total_width(const struct table *table)
{
	size_t total = 0;
	for (size_t c = 0; c < table->num_columns; c++) {
		bool flows = c + 1 == table->num_columns && table->columns[c]->sentence;
		total += (c ? GAP : 0) +
			 (flows ? strlen(table->columns[c]->title) : table->widths[c]);
	}
	return total;
}

/* @return false: every column that is left has to stay */
static bool drop_least(struct table *table)
{
	size_t least = 0;
	for (size_t c = 1; c < table->num_columns; c++)
		if (table->columns[c]->drop >= table->columns[least]->drop)
			least = c;
	if (table->num_columns == 0 || !table->columns[least]->drop)
		return false;
	drop_column(table, least);
	return true;
}

static void print_blanks(size_t n)
{
	printf("%*s", (int)n, "");
}

static void print_cell(const struct table *table, size_t c, size_t r)
{
	const char *text = table->cells[c][r] ? table->cells[c][r] : "";
	size_t blanks = table->widths[c] - width_of(text);
	bool last = c + 1 == table->num_columns;
	if (table->right[c])
		print_blanks(blanks);
	fputs(text, stdout);
	if (!last)
		print_blanks(GAP + (table->right[c] ? 0 : blanks));
}

static void print_rows(const struct table *table)
{
	for (size_t r = 0; r <= table->num_rows; r++) {
		for (size_t c = 0; c < table->num_columns; c++)
			print_cell(table, c, r);
		putchar('\n');
	}
}

void table_print(const json_t *rows, const struct column *columns, size_t num_columns, bool details)
{
	struct table table = { .num_rows = json_array_size(rows) };
	size_t dropped = 0;
	for (size_t c = 0; c < num_columns && table.num_columns < TABLE_MAX_COLUMNS; c++)
		if (details || !columns[c].details)
			fill_column(&table, rows, &columns[c]);
	while (!details && table_style.width && total_width(&table) > table_style.width &&
	       drop_least(&table))
		dropped++;
	print_rows(&table);
	if (dropped && table.num_rows && !table_style.quiet)
		printf("(%zu more column%s with -d, or on a wider terminal)\n", dropped,
		       dropped == 1 ? "" : "s");
	while (table.num_columns > 0)
		drop_column(&table, table.num_columns - 1);
}

void table_print_object(const json_t *object, const struct column *columns, size_t num_columns,
			bool details)
{
	size_t width = 0;
	for (size_t c = 0; c < num_columns; c++)
		if ((details || !columns[c].details) && strlen(columns[c].title) > width)
			width = strlen(columns[c].title);
	for (size_t c = 0; c < num_columns; c++) {
		if (columns[c].details && !details)
			continue;
		char *text = table_cell(object, &columns[c]);
		printf("%-*s  %s\n", (int)width, columns[c].title, text ? text : "");
		free(text);
	}
}
