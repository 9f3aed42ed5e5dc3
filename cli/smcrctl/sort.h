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
	const char *rows; /* key of the rows; NULL: the result is the rows */
};

/**
 * Find the column to sort by.
 * @param word  its title or key, in upper or lower case; "-" before it: the largest first
 * @return false after an error message
 */
bool sort_parse(const char *word, const struct object *object, struct sort *ret_sort);

/** Order the rows of a result: numbers by value, text with the numbers in it by value, unknown
 * values last. Equal rows keep their order. @return a new reference */
json_t *sort_rows(const struct sort *sort, json_t *result);

#endif
