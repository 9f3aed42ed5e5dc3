/* SPDX-License-Identifier: MIT */
/**
 * @file pair.h
 * What kind of descriptor is this: a TCP socket, one end of a pair of smcrd's, or neither.
 *
 * All of it is asked from the kernel each time, so that it holds after dup, fork, exec and
 * descriptor passing as well (GEN-9): the connection ends when the last copy of its end is closed.
 */
#ifndef SMCRD_LIB_SMCR_PAIR_H
#define SMCRD_LIB_SMCR_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"

/** A TCP socket over IPv4 or IPv6 (no MPTCP). */
bool pre_is_tcp(int fd);

/**
 * Is this an end of a pair of smcrd's, and of which connection? Its own name says so. Only pairs
 * made by a user whom we trust count: anybody can give a Unix socket a name.
 * @return 0, -ENOTSOCK (also for Unix sockets that are no such end)
 */
int pre_pair_name(int fd, struct ipc_pair_name *ret_name);

/**
 * Is the connection over: reset, or ended in both directions? Without the daemon's word only where
 * it is gone.
 */
bool pre_is_over(int fd);

/**
 * A TCP socket that was never connected, of the family of the connection: it answers for one that
 * is over. @return descriptor, the caller's, or a negative errno
 */
int pre_unconnected(const struct ipc_pair_name *name);

/** Remember that the daemon gave us this pair end: who made it is trusted. @return is it one? */
bool pre_pair_trust(int fd);

/** Remember whose the daemon's socket file is, the first time that it is in sight: before chroot().
 */
void pre_pair_note_owner(void);

/** Is the process behind a connected Unix socket root's, of our own user, or of one remembered by
 *  the two functions above? */
bool pre_pair_is_trusted(int fd);

/**
 * The kernel's number of a socket, the same for all dups of it and never used again.
 * @return 0 or a negative errno
 */
int pre_cookie(int fd, uint64_t *ret_cookie);

#endif
