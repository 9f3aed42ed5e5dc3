/* SPDX-License-Identifier: MIT */
/**
 * @file commands.h
 * The words after the options: which object, which command, and its arguments as the parameters of
 * a control method.
 */
#ifndef SMCRD_SMCRCTL_COMMANDS_H
#define SMCRD_SMCRCTL_COMMANDS_H

#include <stdio.h>

#include "cli/smcrctl/objects.h"

/** What the words ask for. */
struct request {
	const struct object *object;
	bool show;    /* else it is a command, whose result has a sentence, */
	bool monitor; /* or this, which has no end */
	char *text;   /* JSON for smcrd; the caller frees it; NULL: the object is a tool */
	int argc;     /* the words for a tool */
	char **argv;
};

/**
 * Words may be shortened to a prefix that only one of their kind has; an exact word beats a prefix.
 * @param disorderly  --disorderly was given
 * @return 0, or -EINVAL with a sentence on standard error
 */
int commands_parse(int argc, char **argv, bool disorderly, struct request *ret_request);

/** A line for each object and command. */
void commands_list(FILE *out);

#endif
