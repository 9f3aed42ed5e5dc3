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

/** What the first argument of a command names, for completion. */
enum commands_value {
	COMMANDS_OTHER,
	COMMANDS_GROUP, /* a link group */
	COMMANDS_LINK,
	COMMANDS_UEID,
	COMMANDS_RULE,
	COMMANDS_DEVICE,
	COMMANDS_SMBDIRECT, /* a connection of SMB Direct */
	COMMANDS_LOG_LEVEL,
	COMMANDS_LOG_TRACE,
};

/** Options that some commands have. */
enum {
	COMMANDS_DISORDERLY = 1 << 0,
	COMMANDS_WAIT = 1 << 1,
	COMMANDS_OFF = 1 << 2,
};

/** A command about an object. */
struct command {
	const char *object;
	const char *name; /* NULL: the object itself is the command */
	const char *arguments;
	const char *help;
	/** Turns arguments into params; the caller refuses words that are left over. NULL: the
	 * command takes filters. @return how many words were taken, or -1 after an error message */
	int (*parse)(int argc, char **argv, json_t *params);
	unsigned int flags;        /* COMMANDS_..: options that the command takes */
	const char *method;        /* of smcrd; NULL: it is called OBJECT.NAME */
	enum commands_value value; /* of the first argument */
};

extern const struct command commands[];
extern const size_t num_commands;

/** What the words ask for. */
struct request {
	const struct object *object;
	bool show;    /* else it is a command, whose result has a sentence */
	bool monitor; /* the command is the monitor, which has no end */
	bool patient; /* a command that may take any time */
	char *text;   /* JSON for smcrd; the caller frees it; NULL: the object is a tool */
	const struct command *command; /* NULL: a show or a tool */
	int argc;                      /* the words for a tool */
	char **argv;
};

/**
 * Words may be shortened to a prefix that only one of their kind has; an exact word beats a prefix.
 * @param flags  COMMANDS_..: the options that were given
 * @return 0, or -EINVAL with a sentence on standard error
 */
int commands_parse(int argc, char **argv, unsigned int flags, struct request *ret_request);

/** The object that the word means; NULL after an error message: there is none, or several. */
const struct object *commands_find_object(const char *word);
/**
 * The command of an object.
 * @param ret_command  NULL: show, or the object is a tool
 * @return false after an error message: the object has no such command
 */
bool commands_find(const struct object *object, const char *word,
		   const struct command **ret_command);
/** The command that an object is itself, such as "drain"; NULL: it is none. */
const struct command *commands_own(const struct object *object);

#endif
