/* SPDX-License-Identifier: MIT */
/**
 * @file objects.h
 * What smcrctl can show: objects, their commands, and how each looks as a table.
 */
#ifndef SMCRD_SMCRCTL_OBJECTS_H
#define SMCRD_SMCRCTL_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct object {
	const char *name;
	const char *help;
	void (*print)(const json_t *result, bool details);
};

extern const struct object objects[];
extern const size_t num_objects;

/** Every object has this one. */
#define COMMAND_SHOW "show"

/**
 * Find by name or by a prefix that only one object has; an exact word beats a prefix.
 * @return the object, or NULL with a sentence on standard error
 */
const struct object *object_find(const char *word);

#endif
