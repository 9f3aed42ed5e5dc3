/* SPDX-License-Identifier: MIT */
/**
 * @file inspect.h
 * Can the preload library work in a program? Finds the program as execvp(3) does, and reads the
 * file that the kernel will run; for a script that is its interpreter.
 *
 * smcr-run asks before it starts a program, and the preload library before its program becomes
 * another one, perhaps in a child of fork(). So all functions are async-signal-safe (they make
 * system calls directly and allocate nothing) and thread safe. errno may change.
 */
#ifndef SMCRD_LIB_INSPECT_INSPECT_H
#define SMCRD_LIB_INSPECT_INSPECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INSPECT_LINE    256 /* how much of a script's first line the kernel reads */
#define INSPECT_LOADER  64  /* the longest file name of a dynamic loader */
#define INSPECT_RUNTIME 128 /* the longest name of a sanitizer's runtime */

enum inspect_verdict {
	INSPECT_OK,
	INSPECT_STATIC,     /* no dynamic loader that could load the library */
	INSPECT_PRIVILEGED, /* setuid, setgid, file capabilities, or started with effective ids that
			       are not the real ones: the loader ignores LD_PRELOAD */
	INSPECT_WRONG_CLASS,  /* other ELF class or machine than the library's */
	INSPECT_OTHER_LOADER, /* loader of another C library: with ours the program may not start */
	INSPECT_GO,           /* Go programs make system calls without the C library */
	INSPECT_UNKNOWN, /* neither ELF nor script, unreadable, or itself a loader (ld.so, valgrind)
			  */
};

/** Properties of this program or library, with which others are compared. */
struct inspect_measure {
	uint8_t class;
	uint16_t machine;
	char loader[INSPECT_LOADER]; /* empty: any */
	dev_t loader_device;         /* identity of that file; 0 if empty */
	ino_t loader_inode;
};

struct inspect_result {
	enum inspect_verdict verdict;
	char interpreter[INSPECT_LINE]; /* the interpreter that decided, if the program is a script;
					   else empty */
	const char *text;               /* a sentence that says why; empty with OK and UNKNOWN */
	char runtime[INSPECT_RUNTIME];  /* what LD_PRELOAD has to have before the library
					   (preload_list.h); empty: nothing */
};

/** Fill in the properties of the calling program or library. To be called once, early: dladdr() is
 * not async-signal-safe. */
void inspect_measure_self(struct inspect_measure *ret_measure);

/**
 * Search PATH.
 * @param name      name as typed; if it has a slash, PATH is not searched
 * @param ret_path  PATH_MAX bytes, undefined on failure
 * @return 0, -ENOENT, -EACCES (found, but not executable), -ENAMETOOLONG
 */
int inspect_find(const char *name, char *ret_path);

/* A flag for inspect_program() beside those of execveat(2): the effective ids are reset to the real
 * ones before the start (POSIX_SPAWN_RESETIDS). */
#define INSPECT_RESET_IDS (1 << 30)

/**
 * Judge a program.
 * @param dirfd  what `path` is relative to, or AT_FDCWD
 * @param flags  AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH (then `dirfd` may be the program itself), as
 *               execveat(2) takes them; INSPECT_RESET_IDS
 */
void inspect_program(int dirfd, const char *path, int flags, const struct inspect_measure *measure,
		     struct inspect_result *ret_result);

/** Would the library do harm in such a program, even if only an error message of the loader? Then
 * LD_PRELOAD must not name the library. Otherwise it may, for the programs that this one starts. */
bool inspect_harmful(enum inspect_verdict verdict);

#endif
