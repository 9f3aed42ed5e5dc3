/* SPDX-License-Identifier: MIT */
/**
 * @file objects.h
 * What smcrctl can show: objects, and how each looks as a table. Commands are in commands.h.
 */
#ifndef SMCRD_SMCRCTL_OBJECTS_H
#define SMCRD_SMCRCTL_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/smcrctl/table.h"
#include "cli/smcrctl/tools.h"

struct session;

struct object {
	const char *name;
	const char *help;
	void (*print)(const json_t *result, bool details); /* NULL: there is nothing to show */
	const struct column *columns;                      /* of the table that can be sorted */
	size_t num_columns;
	const char *rows; /* key of its rows in the result; NULL: the result is the rows */
	/* Makes several requests in place of pages_request(). NULL: one request is enough. */
	int (*gather)(struct session *session, const char *request, json_t **ret_reply,
		      char *ret_error);
	/* The object is a tool, which takes all words behind its name. NULL: it is none. */
	int (*run)(const struct tool_call *call);
	const char *arguments; /* of a tool; NULL: none */
};

/** The name of a row's link as on the command line, "GROUP/NUMBER"; malloc'ed, or NULL: the row has
 *  no link. @param number_key  the key of the link's number */
char *link_text(const json_t *row, const char *number_key);
/** "05:31:13", when it began, in local time; of another day the date; malloc'ed, or NULL. */
char *since_text(const json_t *row);
/** When the event happened, for people; malloc'ed, or NULL: that is not known. */
char *event_time(const json_t *event);
/** Print an event as a line of "smcrctl monitor". */
void event_print_line(const json_t *event, bool details);

extern const struct object objects[];
extern const size_t num_objects;

#endif
