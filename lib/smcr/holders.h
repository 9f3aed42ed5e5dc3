/* SPDX-License-Identifier: MIT */
/**
 * @file holders.h
 * Who else may have a socket or pair end of this process: other descriptors of the process, or
 * other processes. A socket that nobody else has can be replaced without a search for duplicates
 * (dups.h).
 *
 * A table by descriptor number, which path.c keeps up to date as descriptors come and go: of fixed
 * size and without locks, usable in signal handlers and by any number of threads. Numbers of
 * PRE_PATH_SLOTS and more are not in the table: what has such a number counts as UNKNOWN.
 */
#ifndef SMCRD_LIB_SMCR_HOLDERS_H
#define SMCRD_LIB_SMCR_HOLDERS_H

#include <stdbool.h>

/** As far as the library has seen. */
enum pre_holders {
	PRE_HOLDERS_UNKNOWN, /* the process may have duplicates */
	PRE_HOLDERS_ALONE,   /* nobody else: socket() or accept() has made it in this process, or it
				is the pair end that has taken the place of such a socket, and nobody
				has duplicated it since */
	PRE_HOLDERS_PASSED,  /* somebody: it, or what it is a copy of, was passed to a process,
				perhaps this one */
};

enum pre_holders pre_holders_of(int fd);

void pre_holders_set(int fd, enum pre_holders now);

/** `to` is a copy of `from`: neither is alone any more, and what was passed stays passed. */
void pre_holders_copied(int from, int to);

/** Another file, which nobody else has, is about to take the place of the one at `fd`. If `fd` is
 * alone it stays so, unless somebody duplicates it meanwhile. */
void pre_holders_replaced(int fd);

#endif
