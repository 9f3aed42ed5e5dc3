/* SPDX-License-Identifier: MIT */
/**
 * @file landlock.h
 * Landlock: a process gives up access to files and directories for good, whatever its user's
 * rights. There is no library for Landlock, so this wraps the kernel's calls (landlock(7)).
 *
 * Open descriptors stay usable, as do those that come by SCM_RIGHTS. Landlock does not restrict
 * reading metadata (stat(), access()), changing a file's owner or mode, and connecting to Unix
 * sockets.
 */
#ifndef SMCRD_HOST_LANDLOCK_H
#define SMCRD_HOST_LANDLOCK_H

#include <stdbool.h>

/** What is allowed in a directory and below it, or with a file. */
enum landlock_use {
	LANDLOCK_LIST,   /* list directories */
	LANDLOCK_READ,   /* list directories and read files */
	LANDLOCK_OWN,    /* READ, and write, make, rename and remove files and sockets */
	LANDLOCK_DEVICE, /* READ, and write to and control existing devices and files */
};

/** A set of rules. Nothing is restricted before landlock_enforce(). */
struct landlock {
	int fd;  /* -1: none is open */
	int abi; /* Landlock version of the kernel; 1 is Linux 5.13 */
};

/**
 * Begin with nothing allowed.
 * @return 0; -ENOSYS: the kernel has no Landlock; -EOPNOTSUPP: it is switched off; -EPERM: a filter
 *         of system calls refuses; or another negative errno. On failure nothing has to be closed
 */
int landlock_begin(struct landlock *landlock);

/** Allow a file or directory, which has to exist. If it is replaced later, the new one is not
 * allowed, unless it lies below an allowed directory. @return 0 or a negative errno */
int landlock_allow(struct landlock *landlock, const char *path, enum landlock_use use);

/**
 * Restrict the calling thread and all threads that it starts to what was allowed. Nor can they run
 * a program any more, or trace or signal a process that is not restricted like them (signals: if
 * the kernel's Landlock can restrict them). To be called while the process has one thread and
 * cannot get privileges by execve() (privileges_drop()). Closes the set of rules, also on failure.
 * @return 0 or a negative errno
 */
int landlock_enforce(struct landlock *landlock);

#endif
