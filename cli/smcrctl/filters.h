/* SPDX-License-Identifier: MIT */
/**
 * @file filters.h
 * Filters such as "peer 192.0.2.1 port 443" limit the rows of a view. smcrd leaves the others out;
 * here the words become parameters of the request.
 */
#ifndef SMCRD_SMCRCTL_FILTERS_H
#define SMCRD_SMCRCTL_FILTERS_H

#include <jansson.h>
#include <stdbool.h>

#define FILTERS_OF_EVENTS "event"

/** Is the word a filter of the object? NULL: does the object have filters? */
bool filters_begin(const char *object, const char *word);

/** The nth filter of the object; NULL: there are no more. */
const char *filters_name(const char *object, unsigned int nth);

/** Turn pairs of a filter and its value into params. @return false after an error message */
bool filters_take(const char *object, int argc, char **argv, json_t *params);

/** All filters of the object: "peer ADDRESS, group NUMBER"; "" if there are none. */
void filters_list(const char *object, char *text, size_t len);

#endif
