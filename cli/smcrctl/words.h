/* SPDX-License-Identifier: MIT */
/**
 * @file words.h
 * Words of the command line: what a word means, and errors about words.
 */
#ifndef SMCRD_SMCRCTL_WORDS_H
#define SMCRD_SMCRCTL_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDS_MAX_GROUP UINT32_MAX
#define WORDS_USER_LEN  16
#define WORDS_HINT_LEN  64

struct output;

/** From now on words_refuse() prints as `output` says, which has to stay until the next call. */
void words_say_as(const struct output *output);

/** Print an error about wrong usage. @return false */
bool words_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * Find the name that the word is, or is a prefix of.
 * @return its index, or -1: there is none. *ret_other is another name with the same prefix, or NULL
 */
int words_match(const char *word, const char *const *names, size_t n, const char **ret_other);

/**
 * A suggestion for a word that is none of `names` but similar to a name.
 * @return "; did you mean 'link'?", or ""
 */
const char *words_hint(const char *word, const char *const *names, size_t n,
		       char ret_hint[WORDS_HINT_LEN]);

/** A decimal number from 1 to `max`. */
bool words_number(const char *text, size_t len, uint64_t max, uint64_t *ret);
/** The number of a link group. @return false after an error message */
bool words_group(const char *word, uint64_t *ret);
/** The number of the user with this name, as text. Looking up a name may take long, so smcrd does
 *  not do that. @return NULL after an error message */
const char *words_user(const char *name, char ret_number[WORDS_USER_LEN]);

/** Set a parameter of the request. @return false after an error message: no memory */
bool words_set(json_t *params, const char *name, uint64_t value);

#endif
