/* SPDX-License-Identifier: MIT */
/**
 * @file table.h
 * JSON as tables for people: columns as wide as their widest value, nothing cut off. On a terminal
 * that is too narrow the least important columns are left out.
 *
 * The value of a key that ends in _bytes or _size is a number of bytes, shown as 1.2M unless
 * table_style says otherwise.
 */
#ifndef SMCRD_SMCRCTL_TABLE_H
#define SMCRD_SMCRCTL_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define TABLE_MAX_COLUMNS 64 /* further ones are not shown */

struct column {
	const char *title;
	const char *key; /* of the row's object; a dot leads into an inner object */
	bool details;    /* only with --details */
	/* Makes the text that is shown instead of the plain value; malloc'ed, or NULL. Rows are
	 * still sorted by the value of the key. */
	char *(*format)(const json_t *row);
	unsigned char drop;  /* left out on a narrow terminal, the largest first; 0: never */
	unsigned char least; /* smallest width, so that columns beside it do not move */
	bool sentence;       /* text that goes on in the terminal's next line, if it has to */
};

/** How tables look from now on. At first all members are zero. */
struct table_style {
	bool exact_bytes;
	size_t width; /* of the terminal; 0: no limit */
	bool quiet;   /* do not tell of columns that were left out */
};
void table_set_style(const struct table_style *style);

/** Print a line of titles and a line for each row; numbers stand right, null is "-". */
void table_print(const json_t *rows, const struct column *columns, size_t num_columns,
		 bool details);

/** Print a line with title and value for each member of an object. */
void table_print_object(const json_t *object, const struct column *columns, size_t num_columns,
			bool details);

/** The text that a row has in a column, malloc'ed; NULL without memory. */
char *table_cell(const json_t *row, const struct column *column);
/** The value that a row has in a column, from smcrd; NULL: the column is made of several values. */
const json_t *table_value(const json_t *row, const struct column *column);

/** A number of bytes in units of 1024, such as "1.2M"; below 1024 the number itself; malloc'ed. */
char *table_bytes(json_int_t bytes);

/** The key uptime_ms of a row as "59s", "3m 59s", "2h 5m" or "12d 4h"; malloc'ed, or NULL. */
char *table_uptime(const json_t *row);

#endif
