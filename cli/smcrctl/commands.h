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

/** What a command's first word names, for completion. */
enum commands_value {
	COMMANDS_OTHER,
	COMMANDS_GROUP, /* a link group */
	COMMANDS_LINK,
	COMMANDS_UEID,
	COMMANDS_RULE,
	COMMANDS_DEVICE,
};

/** Options that some commands have. */
enum {
	COMMANDS_DISORDERLY = 1 << 0,
	COMMANDS_WAIT = 1 << 1,
	COMMANDS_OFF = 1 << 2,
};

/** What an object can be told to do. */
struct command {
	const char *object;
	const char *name; /* NULL: the object itself is the command */
	const char *arguments;
	const char *help;
	/** Words that are left over are refused by the caller. NULL: it takes filters. @return how
	 * many words were taken, or -1 */
	int (*parse)(int argc, char **argv, json_t *params);
	unsigned int flags;        /* COMMANDS_..: options that make sense */
	const char *method;        /* of smcrd, if it has another name */
	enum commands_value value; /* that the first word names */
};

extern const struct command commands[];
extern const size_t num_commands;

/** What the words ask for. */
struct request {
	const struct object *object;
	bool show;    /* else it is a command, whose result has a sentence, */
	bool monitor; /* or this, which has no end */
	bool patient; /* a command that takes as long as it takes */
	char *text;   /* JSON for smcrd; the caller frees it; NULL: the object is a tool */
	int argc;     /* the words for a tool */
	char **argv;
};

/**
 * Words may be shortened to a prefix that only one of their kind has; an exact word beats a prefix.
 * @param flags  COMMANDS_..: the options that were given
 * @return 0, or -EINVAL with a sentence on standard error
 */
int commands_parse(int argc, char **argv, unsigned int flags, struct request *ret_request);

/** The object that the word means; NULL: none, which it says. */
const struct object *commands_find_object(const char *word);
/**
 * The command of an object.
 * @param ret_command  NULL: show, or the object is a tool
 * @return false: it has none of this name, and says so
 */
bool commands_find(const struct object *object, const char *word,
		   const struct command **ret_command);
/** The one whose name is the object's; NULL: it has none. */
const struct command *commands_own(const struct object *object);

#endif
