/* SPDX-License-Identifier: MIT */
/**
 * @file inspect.h
 * Can the preload library work in a program? Finds the program as execvp(3) does and looks at the
 * file that the kernel will run: scripts are followed to their interpreter.
 *
 * smcr-run asks before it starts a program, the preload library before a program becomes another
 * one, where fork() may have been called in any situation: all functions are async-signal-safe
 * (system calls made directly, nothing allocated) and thread safe. errno is clobbered.
 */
#ifndef SMCRD_LIB_INSPECT_INSPECT_H
#define SMCRD_LIB_INSPECT_INSPECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INSPECT_LINE   256 /* as much of a script's first line as the kernel looks at */
#define INSPECT_LOADER 64  /* the longest name of a dynamic loader, without directory */

enum inspect_verdict {
	INSPECT_OK,
	INSPECT_STATIC,     /* no dynamic loader that could load the library */
	INSPECT_PRIVILEGED, /* setuid, setgid, file capabilities, or started with effective ids that
			       are not the real ones: the loader ignores LD_PRELOAD */
	INSPECT_WRONG_CLASS,  /* other ELF class or machine than the library's */
	INSPECT_OTHER_LOADER, /* another C library's: with our library in it the program may not
				 start */
	INSPECT_GO,           /* Go programs make system calls without the C library */
	INSPECT_UNKNOWN, /* no ELF file and no script, or it cannot be read: let the kernel say; or
			    it runs programs in itself, as the dynamic loader and valgrind do */
};

/** What programs are compared with. */
struct inspect_measure {
	uint8_t class;
	uint16_t machine;
	char loader[INSPECT_LOADER]; /* empty: any */
	dev_t loader_device;         /* and which file it is; 0 if empty */
	ino_t loader_inode;
};

struct inspect_result {
	enum inspect_verdict verdict;
	char interpreter[INSPECT_LINE]; /* the file that decided if the program is a script, else
					   empty */
	const char *text; /* a sentence about it, for people; empty with OK and UNKNOWN */
};

/** Take the calling program or library itself for the measure. To be called early, once: dladdr()
 *  is not for signal handlers. */
void inspect_measure_self(struct inspect_measure *ret_measure);

/**
 * Search PATH.
 * @param name      as typed; with a slash in it taken as it is
 * @param ret_path  PATH_MAX bytes, undefined on failure
 * @return 0, -ENOENT, -EACCES (found, but not executable), -ENAMETOOLONG
 */
int inspect_find(const char *name, char *ret_path);

/* A flag for inspect_program() beside execveat(2)'s: who starts it puts the effective ids back to
 * the real ones before (POSIX_SPAWN_RESETIDS). */
#define INSPECT_RESET_IDS (1 << 30)

/**
 * @param dirfd  what `path` is relative to, or AT_FDCWD
 * @param flags  AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH (then `dirfd` may be the program itself), as
 *               execveat(2) takes them; INSPECT_RESET_IDS
 */
void inspect_program(int dirfd, const char *path, int flags, const struct inspect_measure *measure,
		     struct inspect_result *ret_result);

/** Does the verdict say that the library would do harm, be it only a line of the loader's? Then it
 *  must not be in LD_PRELOAD. Elsewhere it may, for the programs that the program starts. */
bool inspect_harmful(enum inspect_verdict verdict);

#endif
