/* SPDX-License-Identifier: MIT */
/**
 * @file tools.h
 * Objects that smcrctl looks at itself, where smcrd alone cannot tell: each is a program of its own
 * behind one word.
 */
#ifndef SMCRD_SMCRCTL_TOOLS_H
#define SMCRD_SMCRCTL_TOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/smcrctl/output.h"
#include "cli/smcrctl/sort.h"

/** Options of a capture. */
struct tool_capture {
	const char *file; /* NULL: standard output */
	bool data;        /* RDMA writes too */
	uint64_t count;   /* it ends after so many messages; 0: not for that */
	double seconds;   /* likewise */
};

/** Options of the terminal view. */
struct tool_top {
	double seconds;      /* from frame to frame, */
	bool at_least;       /* or more, where asking takes long: nobody has said it */
	bool batch;          /* frames as text, whatever standard output is */
	uint64_t frames;     /* then it ends; 0: never */
	unsigned int number; /* rows of each table as text; 0: not given */
	struct sort order;   /* column NULL: not given */
};

/** How a tool is called. */
struct tool_call {
	const char *socket_path; /* of smcrd */
	const struct output *output;
	const struct tool_capture *capture;
	const struct tool_top *top;
	int argc; /* the words behind the tool's name */
	char **argv;
};

/* Each returns the exit status of smcrctl: 0, 1 (it found something that keeps connections on TCP)
 * or 2 (usage). */

/** smcrctl doctor: what is wrong with this host? */
int doctor_run(const struct tool_call *call);
/** smcrctl check HOST [PORT]: would a connection use SMC-R? */
int check_run(const struct tool_call *call);
/** smcrctl capture: what goes to RNICs and comes from them, as pcapng. */
int capture_run(const struct tool_call *call);
/** smcrctl top: the busiest connections, on the terminal. */
int top_run(const struct tool_call *call);

#endif
