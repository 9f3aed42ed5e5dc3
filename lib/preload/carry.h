/* SPDX-License-Identifier: MIT */
/**
 * @file carry.h
 * The library goes with a program that becomes another one (exec) or starts one (posix_spawn), also
 * if it has cleared or replaced its environment: whoever accepts from a listener that was claimed
 * must speak CLC, and whoever was started by smcr-run wants it for what is started then.
 *
 * Three things are decided for each program: may LD_PRELOAD name the library, must it not, or is it
 * none of our business (CARRY_ENV); will the program be able to use SMC-R, and if not, may it be
 * started at all (smcr-run --require); and what of the listeners that it inherits (inherit.h).
 *
 * Async-signal-safe, and fit for children of fork() and vfork(): no lock, nothing allocated with
 * malloc(), nothing left behind in memory that a vfork() child shares with its parent.
 */
#ifndef SMCRD_LIB_PRELOAD_CARRY_H
#define SMCRD_LIB_PRELOAD_CARRY_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/preload/inherit.h"

/** "0" in the environment of a program, or in the one that it gives to another: what it starts has
 *  the environment that it was given, and nothing is added. */
#define CARRY_ENV "SMCR_CARRY"

/* Pointers of a new environment that fit on the stack: that of a thread may be small. */
#define CARRY_ROOM 512

/** Which program is to be started. */
struct carry_program {
	int dirfd; /* what `path` is relative to, or AT_FDCWD */
	const char *path;
	int flags;   /* as inspect_program() takes them */
	bool search; /* in PATH, if there is no slash in it */
	bool spawn;  /* by posix_spawn(), with file actions: see inherit_bar() */
};

/** One call of exec or posix_spawn. To live on the stack, without being initialized. */
struct carry {
	char *const *envp; /* for the program */
	struct inherit_barred barred;
	void *mapped; /* the new environment, if it is too large for `room` */
	size_t mapped_len;
	char *room[CARRY_ROOM];
};

/**
 * Before the call.
 * @param envp  as the program gave it; NULL as the kernel takes it: empty
 * @return 0, then carry_end() is due if the call returns; -EACCES: smcr-run was asked for SMC-R or
 *         nothing, and the program cannot have it (said on standard error)
 */
int carry_begin(struct carry *ret_carry, const struct carry_program *program, char *const envp[]);

/** After the call. @param started  the program runs, beside this one */
void carry_end(struct carry *carry, bool started);

#endif
