/* SPDX-License-Identifier: MIT */
/**
 * @file dups.h
 * Searches the duplicates of a socket in this process. The kernel cannot list them, and looking at
 * all descriptors would make connections slower the more there are. So only the lowest numbers,
 * where dup() usually puts them, and those around the socket's are looked at; and the search ends
 * when as many descriptors were seen as the process has.
 */
#ifndef SMCRD_LIB_SMCR_DUPS_H
#define SMCRD_LIB_SMCR_DUPS_H

#include <stdbool.h>
#include <stdint.h>

/** A search. Lies on the stack; nothing has to be freed. */
struct pre_dups {
	int fd;
	uint64_t cookie;
	int at; /* number that was looked at last; -1: none */
	int open, seen;
};

/** @param cookie  pre_cookie() of the socket, which is not at `fd` any more if it was replaced */
struct pre_dups pre_dups_begin(int fd, uint64_t cookie);

/** @return the next duplicate; -1: there are no more */
int pre_dups_next(struct pre_dups *dups);

/** Has the socket at `fd` another descriptor in this process? Searches only if the library has not
 * seen socket() and every dup() (holders.h). */
bool pre_dups_any(int fd, uint64_t cookie);

/** @return the next number above `after` that is looked at for what concerns `fd`; -1 at the end */
int pre_dups_candidate(int fd, int after);

#endif
