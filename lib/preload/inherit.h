/* SPDX-License-Identifier: MIT */
/**
 * @file inherit.h
 * The listeners that a program inherits, if it cannot speak CLC: whoever connects to one of them
 * must not be promised SMC-R, for that program may accept the connection. So they are barred
 * (lib/smcr/bar.h), for whoever else accepts from them too: the kernel does not tell who it will
 * be.
 *
 * Async-signal-safe, for children of fork() and vfork().
 */
#ifndef SMCRD_LIB_PRELOAD_INHERIT_H
#define SMCRD_LIB_PRELOAD_INHERIT_H

#include <stdbool.h>
#include <stddef.h>

#define INHERIT_MAX 64

struct inherit_barred {
	size_t count; /* all that were barred */
	size_t known; /* those in `fds` */
	int fds[INHERIT_MAX];
};

/** Was the process itself started with listeners? Looked for once, while few descriptors are open.
 */
void inherit_open(void);

/**
 * Bar the listeners that a program started now would inherit. Costs nothing in a process that has
 * never had one.
 * @param with_dups  file actions of posix_spawn() are carried out before: those too that are closed
 *                   on exec but were the source of a posix_spawn_file_actions_adddup2()
 */
void inherit_bar(bool with_dups, struct inherit_barred *ret_barred);

/** The program was not started: take that back, as far as `fds` says. */
void inherit_unbar(const struct inherit_barred *barred);

/** posix_spawn_file_actions_adddup2(): what it adds cannot be read again. */
void inherit_note_dup(int fd);

#endif
