/* SPDX-License-Identifier: MIT */
/** @file program.h What the kernel calls a process, for operators. */
#ifndef SMCRD_HOST_PROGRAM_H
#define SMCRD_HOST_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct nl_sock;

/** What it takes to ask; zeroed at the start. */
struct program_names {
	struct nl_sock *sock;
	int family;
	bool refused; /* by this kernel, or for want of privileges: it is asked no more */
};

/** As the kernel has it, with the NUL: 15 bytes of a program's file name at most, or what the
 *  program has chosen instead. */
#define PROGRAM_NAME_LEN 16

/**
 * The name of a process: from /proc, or where that shows no processes of other users (the service's
 * sandbox), from the kernel's taskstats, which need CAP_NET_ADMIN. A few microseconds; blocks on
 * nobody.
 *
 * Programs choose their names themselves. Here no more is certain than that it is one line of
 * printable ASCII: other bytes become '?'.
 * @param pid       as this process sees it; 0 or less: none is known
 * @param ret_name  "" where there is no such process, or it is not to be seen
 * @return is there a name?
 */
bool program_name(struct program_names *names, pid_t pid, char ret_name[PROGRAM_NAME_LEN]);

/** Put that into form: `len` bytes of whatever a kernel or program gave. */
void program_name_clean(const char *raw, size_t len, char ret_name[PROGRAM_NAME_LEN]);

void program_names_close(struct program_names *names);

#endif
