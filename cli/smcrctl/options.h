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
	const char *w;                 /* value of -w; NULL: not given */
	struct tool_capture capture;   /* options of 'capture' */
	struct tool_top top;           /* options of 'top' */
	bool rules;                    /* --rules of 'doctor' */
	bool cm;                       /* of check */
	const char *sort;              /* value of --sort; NULL: not given */
	struct sort order;             /* what --sort means */
	char title[OPTIONS_TITLE_LEN]; /* the words after the options */
	unsigned int number;           /* --number; 0: not given */
	const char *socket_path;
	struct request request;
};

/** @return -1: the request can be made; else the exit status: help or an error was printed */
int options_parse(int argc, char **argv, struct arguments *ret_args);

/** The long name of the nth option, without "--"; NULL: there are no more. @param ret_letter  its
 * short name; '\0': it has none */
const char *options_name(unsigned int nth, bool *ret_has_value, char *ret_letter);

#endif
