/* SPDX-License-Identifier: MIT */
/**
 * @file words.h
 * Words of the command line: which one is meant, and what is wrong with it.
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

/** How to say what is wrong from now on; outlives that. */
void words_say_as(const struct output *output);

/** Say what is wrong: wrong usage. @return false */
bool words_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * The one of `names` that the word is, or is a prefix of.
 * @return its index or -1; *ret_other is the second one that fits, or NULL if none does
 */
int words_match(const char *word, const char *const *names, size_t n, const char **ret_other);

/**
 * A suggestion for a word that is none of `names` but much like one.
 * @return "; did you mean 'link'?", or ""
 */
const char *words_hint(const char *word, const char *const *names, size_t n,
		       char ret_hint[WORDS_HINT_LEN]);

/** A decimal number from 1 to `max`. */
bool words_number(const char *text, size_t len, uint64_t max, uint64_t *ret);
/** The number of a link group; says what is wrong. */
bool words_group(const char *word, uint64_t *ret);
/** The number of a user by its name, as text, because smcrd looks no name up, which may take long.
 *  @return NULL, and says what is wrong */
const char *words_user(const char *name, char ret_number[WORDS_USER_LEN]);

/** A parameter of the request. @return true */
bool words_set(json_t *params, const char *name, uint64_t value);

#endif
