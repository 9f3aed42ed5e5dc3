/* SPDX-License-Identifier: MIT */
/**
 * @file tools.h
 * Tools: objects for which smcrctl looks at the host itself, because smcrd alone cannot tell. Each
 * is like a program of its own.
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
	uint64_t count;   /* the capture ends after so many messages; 0: no limit */
	double seconds;   /* the capture ends after this time; 0: no limit */
};

/** Options of the terminal view. */
struct tool_top {
	double seconds;      /* between frames */
	bool at_least;       /* the time may be longer if asking takes long: it is the default */
	bool batch;          /* frames as text, also on a terminal */
	uint64_t frames;     /* top ends after so many; 0: never */
	unsigned int number; /* rows of each table as text; 0: not given */
	struct sort order;   /* its column is NULL: not given */
};

/** How a tool is called. */
struct tool_call {
	const char *socket_path; /* of smcrd */
	const struct output *output;
	const struct tool_capture *capture;
	const struct tool_top *top;
	bool rules; /* doctor: the firewall's rules, not what is wrong */
	bool cm;    /* check: an RDMA connection */
	int argc;   /* the words behind the tool's name */
	char **argv;
};

/* Each returns the exit status of smcrctl: 0, 1 (doctor and check found something that keeps
 * connections on TCP, or the tool failed) or 2 (usage). */

/** smcrctl doctor: what is wrong with this host? */
int doctor_run(const struct tool_call *call);
/** smcrctl check HOST [PORT]: would a connection use SMC-R? */
int check_run(const struct tool_call *call);
/** smcrctl capture: messages to and from RNICs, as pcapng. */
int capture_run(const struct tool_call *call);
/** smcrctl top: the busiest connections, on the terminal. */
int top_run(const struct tool_call *call);

#endif
