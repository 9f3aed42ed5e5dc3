/* SPDX-License-Identifier: MIT */
/**
 * @file landlock.h
 * Landlock: a process gives up files and directories for good, whatever its user may do with them.
 * There is no library for it, so these are the kernel's calls (landlock(7)).
 *
 * What is open already stays usable, and so is what comes by SCM_RIGHTS. Not restricted are looking
 * at metadata (stat(), access()), changing a file's owner or mode, and connecting to Unix sockets.
 */
#ifndef SMCRD_HOST_LANDLOCK_H
#define SMCRD_HOST_LANDLOCK_H

#include <stdbool.h>

/** What may be done at a place and below. */
enum landlock_use {
	LANDLOCK_LIST,   /* list directories */
	LANDLOCK_READ,   /* and read files */
	LANDLOCK_OWN,    /* both, and write, make, rename and remove files and sockets */
	LANDLOCK_DEVICE, /* list directories, and read, write and control devices and files that are
			    there */
};

/** What is being built; nothing is restricted before landlock_enforce(). */
struct landlock {
	int fd;  /* -1: there is none */
	int abi; /* of the kernel; 1 is Linux 5.13 */
};

/**
 * Begin with nothing allowed.
 * @return 0; -ENOSYS (the kernel has none), -EOPNOTSUPP (it is switched off), -EPERM (a filter of
 *         system calls refuses), or another negative errno; nothing is to be closed then
 */
int landlock_begin(struct landlock *landlock);

/** A file or directory, which has to be there: who puts another one in its place later puts it out
 *  of reach, but not below a directory that is allowed. @return 0 or a negative errno */
int landlock_allow(struct landlock *landlock, const char *path, enum landlock_use use);

/**
 * From here on the calling thread, and those that it starts, have nothing else. Nor can they run a
 * program, trace a process or send a signal to one that is not restricted like them (as far as the
 * kernel knows how to). To be called while the process has one thread and cannot get privileges by
 * execve() (privileges_drop()). Ends the building, also on failure.
 * @return 0 or a negative errno
 */
int landlock_enforce(struct landlock *landlock);

#endif
