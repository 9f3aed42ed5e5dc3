/* SPDX-License-Identifier: MIT */
/**
 * @file table.h
 * JSON as tables for people: columns as wide as their widest value, nothing cut off. On a terminal
 * that is too narrow the least important columns are left out.
 *
 * A key that ends in _bytes or _size is a number of bytes, shown as 1.2M unless exact ones are
 * wanted.
 */
#ifndef SMCRD_SMCRCTL_TABLE_H
#define SMCRD_SMCRCTL_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define TABLE_MAX_COLUMNS 64 /* what is beyond is not shown */

struct column {
	const char *title;
	const char *key; /* of the row's object; a dot leads into an inner object */
	bool details;    /* only with --details */
	/* Instead of the plain value, which is what rows are sorted by all the same; malloc'ed, or
	 * NULL. */
	char *(*format)(const json_t *row);
	unsigned char drop;  /* left out on a narrow terminal, the largest first; 0: never */
	unsigned char least; /* so wide at least: its neighbours stay where they are */
	bool sentence;       /* text that goes on in the terminal's next line, if it has to */
};

/** How tables look from now on; everything wide and human at first. */
struct table_style {
	bool exact_bytes;
	size_t width; /* of the terminal; 0: as wide as it takes */
	bool quiet;   /* do not tell of columns that were left out */
};
void table_set_style(const struct table_style *style);

/** One row a line under a line of titles; numbers stand right, null is "-". */
void table_print(const json_t *rows, const struct column *columns, size_t num_columns,
		 bool details);

/** "title: value" lines for one object. */
void table_print_object(const json_t *object, const struct column *columns, size_t num_columns,
			bool details);

/** What stands in a row's column, malloc'ed; NULL without memory. */
char *table_cell(const json_t *row, const struct column *column);
/** Its value, as smcrd has told it; NULL: the column is made of several. */
const json_t *table_value(const json_t *row, const struct column *column);

/** "1.2M" of 1024 a step, or the number itself; malloc'ed. */
char *table_bytes(json_int_t bytes);

#endif
