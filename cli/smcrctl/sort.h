/* SPDX-License-Identifier: MIT */
/** @file sort.h The order of a table's rows. */
#ifndef SMCRD_SMCRCTL_SORT_H
#define SMCRD_SMCRCTL_SORT_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/table.h"

struct object;

struct sort {
	const struct column *column; /* NULL: in smcrd's order */
	bool descending;
};

/**
 * By which column?
 * @param word  its title or key, in either case; "-" before it: the largest first
 * @return false, and says what is wrong
 */
bool sort_parse(const char *word, const struct object *object, struct sort *ret_sort);

/** Order the rows: numbers as numbers, text with its numbers as numbers, what is not known last.
 * Equal ones stay as they are. @return a new reference */
json_t *sort_rows(const struct sort *sort, json_t *rows);

#endif
