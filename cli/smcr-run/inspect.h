/* SPDX-License-Identifier: MIT */
/**
 * @file inspect.h
 * Can a preload library work in a program? Finds the program as execvp(3) does and looks at the
 * file that the kernel will run: scripts are followed to their interpreter.
 */
#ifndef SMCRD_CLI_SMCR_RUN_INSPECT_H
#define SMCRD_CLI_SMCR_RUN_INSPECT_H

#include <limits.h>
#include <stddef.h>

enum inspect_verdict {
	INSPECT_OK,
	INSPECT_STATIC,     /* no dynamic loader that could load the library */
	INSPECT_PRIVILEGED, /* setuid, setgid or file capabilities: the loader ignores LD_PRELOAD */
	INSPECT_WRONG_CLASS, /* other ELF class or machine than the library's */
	INSPECT_GO,          /* Go programs make system calls without the C library */
	INSPECT_UNKNOWN, /* no ELF file and no script, or it cannot be read: let the kernel say */
};

struct inspect_result {
	enum inspect_verdict verdict;
	char file[PATH_MAX]; /* the ELF file that decided */
	char text[256];      /* a sentence about it, for people; empty with OK and UNKNOWN */
};

/**
 * Search PATH.
 * @param name      as typed; with a slash in it taken as it is
 * @param ret_path  PATH_MAX bytes
 * @return 0, -ENOENT, -EACCES (found, but not executable), -ENAMETOOLONG
 */
int inspect_find(const char *name, char *ret_path);

/**
 * @param path     of the program
 * @param library  of the preload library, whose ELF class and machine are the measure
 */
void inspect_program(const char *path, const char *library, struct inspect_result *ret_result);

#endif
