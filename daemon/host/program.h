/* SPDX-License-Identifier: MIT */
/** @file program.h Names of processes, to be shown to operators. */
#ifndef SMCRD_HOST_PROGRAM_H
#define SMCRD_HOST_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct nl_sock;

/** State of program_name(); zeroed at the start. */
struct program_names {
	struct nl_sock *sock;
	int family;
	bool refused; /* the kernel has no taskstats or refuses them: not asked again */
};

/** Length with the NUL. The kernel keeps at most 15 bytes, of the program's file name or of a name
 * that the program has chosen. */
#define PROGRAM_NAME_LEN 16

/**
 * The name of a process. It comes from /proc, or from the kernel's taskstats (which need
 * CAP_NET_ADMIN) if /proc does not show processes of other users, as in the service's sandbox.
 * Takes a few microseconds and never blocks.
 *
 * Programs can choose their names, so a name proves nothing. The result is one line of printable
 * ASCII: other bytes become '?'.
 * @param pid  as this process sees it; 0 or less: unknown
 * @param ret_name  "" if there is no such process, or it cannot be seen
 * @return true: there is a name
 */
bool program_name(struct program_names *names, pid_t pid, char ret_name[PROGRAM_NAME_LEN]);

/** Make such a name of `len` bytes of any origin. */
void program_name_clean(const char *raw, size_t len, char ret_name[PROGRAM_NAME_LEN]);

void program_names_close(struct program_names *names);

#endif
