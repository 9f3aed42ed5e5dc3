/* SPDX-License-Identifier: MIT */
/**
 * @file trust.h
 * Whose sockets this process believes: root's, its own user's, and those of the user whom it takes
 * for smcrd's, who owns smcrd's socket file or has given this process a pair end before. The kernel
 * tells the user of the process that made a socket pair or listens (SO_PEERCRED).
 *
 * Async-signal-safe and thread safe.
 */
#ifndef SMCRD_LIB_SMCR_TRUST_H
#define SMCRD_LIB_SMCR_TRUST_H

#include <stdbool.h>

/** Remember the owner of the daemon's socket file the first time that the file can be seen: after a
 * chroot() its path may lead to another file. */
void pre_trust_note_owner(void);

/** The daemon has given this descriptor: remember the user who made it.
 * @return false: the kernel does not tell who that is, as it is no Unix socket */
bool pre_trust_given(int fd);

/** May the maker of this socket pair be believed? Looks at the socket file now, too. */
bool pre_trust_maker(int fd);

/** May the process at the other end of a connected Unix socket be believed? To be asked where the
 * path of the socket file may lead to another file by now: only the remembered owner counts. */
bool pre_trust_end(int fd);

#endif
