/* SPDX-License-Identifier: MIT */
/**
 * @file unit_state.h
 * The properties of a service, as `systemctl show` prints them.
 */
#ifndef SMCRD_CLI_SMCR_RUN_UNIT_STATE_H
#define SMCRD_CLI_SMCR_RUN_UNIT_STATE_H

#include <stdbool.h>
#include <stddef.h>

struct unit_state {
	char *text; /* lines, each ended by NUL */
	size_t len;
};

/**
 * Ask systemd.
 * @param name  a valid name of a unit
 * @return false: systemd does not run here, does not answer, or does not know the unit. ret_state
 * is empty then: every property is ""
 */
bool unit_state_read(const char *name, struct unit_state *ret_state);
void unit_state_free(struct unit_state *state);

/** @return the property's value, or "" */
const char *unit_state_get(const struct unit_state *state, const char *property);

/** Is the property "yes" (or another word than "no", where there are more)? */
bool unit_state_is_on(const struct unit_state *state, const char *property);

/** A list names what is allowed; with "~" in front, what is forbidden. */
enum unit_list { UNIT_LIST_NONE, UNIT_LIST_ALLOWS, UNIT_LIST_FORBIDS };
enum unit_list unit_state_list(const struct unit_state *state, const char *property,
			       const char **ret_words);

/** Is the word in the list of words? */
bool unit_words_have(const char *words, const char *word);

/** Is the path, or a directory above it, in the list of paths (with "-" or "+" in front, or options
 *  behind a colon)? */
bool unit_words_cover(const char *words, const char *path);

#endif
