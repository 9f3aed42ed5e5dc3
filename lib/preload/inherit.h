/* SPDX-License-Identifier: MIT */
/**
 * @file inherit.h
 * Bars the listeners that a program without CLC inherits (lib/smcr/bar.h): such a program may
 * accept their connections, so their clients must not be promised SMC-R. The bar also holds for
 * other programs that accept from the same listener, since the kernel does not tell which one will.
 *
 * Async-signal-safe, and safe in children of fork() and vfork().
 */
#ifndef SMCRD_LIB_PRELOAD_INHERIT_H
#define SMCRD_LIB_PRELOAD_INHERIT_H

#include <stdbool.h>
#include <stddef.h>

#define INHERIT_MAX 64

struct inherit_barred {
	size_t count; /* how many listeners were barred */
	size_t known; /* how many of them are in `fds` */
	int fds[INHERIT_MAX];
};

/** Find out whether this process was started with listeners. Called once, early, while few
 * descriptors are open.
 */
void inherit_open(void);

/**
 * Bar the listeners that a program started now would inherit. Costs nothing in a process that never
 * had a claimed listener.
 * @param with_dups  also bar listeners that are closed on exec but were the source of a
 *                   posix_spawn_file_actions_adddup2(), since posix_spawn() carries out file
 *                   actions first
 */
void inherit_bar(bool with_dups, struct inherit_barred *ret_barred);

/** The program was not started: lift the bars of the listeners in `fds`. */
void inherit_unbar(const struct inherit_barred *barred);

/** Note the source of a posix_spawn_file_actions_adddup2(): file actions cannot be read back. */
void inherit_note_dup(int fd);

#endif
