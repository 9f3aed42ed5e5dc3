/* SPDX-License-Identifier: MIT */
/** @file options.h The command line of smcrctl as a whole. */
#ifndef SMCRD_SMCRCTL_OPTIONS_H
#define SMCRD_SMCRCTL_OPTIONS_H

#include <stdbool.h>

#include "cli/smcrctl/commands.h"
#include "cli/smcrctl/output.h"
#include "cli/smcrctl/sort.h"

#define OPTIONS_TITLE_LEN 128

struct arguments {
	struct output output;
	unsigned int flags;            /* COMMANDS_.. */
	double watch;                  /* seconds; 0: once */
	const char *w;                 /* as -w has it; NULL: not given */
	struct tool_capture capture;   /* what its options say */
	struct tool_top top;           /* what those of a terminal view say */
	const char *sort;              /* as it was given; NULL: not at all */
	struct sort order;             /* what that means */
	char title[OPTIONS_TITLE_LEN]; /* the words after the options */
	unsigned int number;           /* --number; 0: not given */
	const char *socket_path;
	struct request request;
};

/** @return -1 to go on, or the exit status: help was given, or what is wrong was said */
int options_parse(int argc, char **argv, struct arguments *ret_args);

/** The nth option as it is written, "--json"; NULL: there are no more. */
const char *options_name(unsigned int nth, bool *ret_has_value, char *ret_letter);

#endif
