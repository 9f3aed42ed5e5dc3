/* SPDX-License-Identifier: MIT */
/**
 * @file carry.h
 * Loads the library into programs that this program becomes (exec) or starts (posix_spawn), also if
 * it has cleared or replaced its environment. A program that accepts from a claimed listener must
 * speak CLC, and a user of smcr-run wants SMC-R for the programs that the program starts, too.
 *
 * Three things are decided for each program. Is the library put into LD_PRELOAD, taken out of it,
 * or left alone (CARRY_ENV)? Can the program use SMC-R, and if not, may it be started (smcr-run
 * --require)? Are the listeners that it inherits barred (inherit.h)?
 *
 * Async-signal-safe, and safe in children of fork() and vfork(): no locks, no malloc(), and no
 * changes of memory that a child of vfork() shares with its parent.
 */
#ifndef SMCRD_LIB_PRELOAD_CARRY_H
#define SMCRD_LIB_PRELOAD_CARRY_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/preload/inherit.h"

/** "0" in the environment of this program, or in the one for the other program: environments are
 * not changed. */
#define CARRY_ENV "SMCR_CARRY"

/* How many pointers of a new environment fit into struct carry, which lies on the stack; the stack
 * of a thread may be small. */
#define CARRY_ROOM 512

/** Which program is to be started. */
struct carry_program {
	int dirfd; /* what `path` is relative to, or AT_FDCWD */
	const char *path;
	int flags;   /* as inspect_program() takes them */
	bool search; /* search PATH if `path` has no slash */
	bool spawn;  /* started by posix_spawn() with file actions: see inherit_bar() */
};

/** State of one call of exec or posix_spawn. Lies on the stack and need not be initialized. */
struct carry {
	char *const *envp; /* environment for the program */
	struct inherit_barred barred;
	void *mapped; /* the new environment, if it is too large for `room` */
	size_t mapped_len;
	char *room[CARRY_ROOM];
};

/**
 * To be called before exec or posix_spawn.
 * @param envp  the environment that the program gave; NULL: empty, as for the kernel
 * @return 0: call carry_end() if exec or posix_spawn returns; -EACCES: the program cannot use
 *         SMC-R, and smcr-run --require was given (a message was written to standard error)
 */
int carry_begin(struct carry *ret_carry, const struct carry_program *program, char *const envp[]);

/** To be called after exec or posix_spawn has returned. @param started the program runs beside this
 * one */
void carry_end(struct carry *carry, bool started);

#endif
