/* SPDX-License-Identifier: MIT */
/**
 * @file table.h
 * JSON as tables for people: columns as wide as their widest value, nothing cut off.
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
	char *(*format)(const json_t *row); /* instead of the plain value; malloc'ed, or NULL */
};

/** One row a line under a line of titles; numbers stand right, null is "-". */
void table_print(const json_t *rows, const struct column *columns, size_t num_columns,
		 bool details);

/** "title: value" lines for one object. */
void table_print_object(const json_t *object, const struct column *columns, size_t num_columns,
			bool details);

#endif
