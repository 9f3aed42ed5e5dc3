/* SPDX-License-Identifier: MIT */
/**
 * @file filters.h
 * "peer 192.0.2.1 port 443": which rows a show is limited to. smcrd leaves the others out; here the
 * words become parameters of the request.
 */
#ifndef SMCRD_SMCRCTL_FILTERS_H
#define SMCRD_SMCRCTL_FILTERS_H

#include <jansson.h>
#include <stdbool.h>

#define FILTERS_OF_EVENTS "event"

/** Can the object be limited by the word? NULL: by any. */
bool filters_begin(const char *object, const char *word);

/** The nth word that the object can be limited by; NULL: there are no more. */
const char *filters_name(const char *object, unsigned int nth);

/** Pairs of a word and a value. @return false, and says what is wrong */
bool filters_take(const char *object, int argc, char **argv, json_t *params);

/** "peer ADDRESS, group NUMBER"; "" if there is none. */
void filters_list(const char *object, char *text, size_t len);

#endif
