/* SPDX-License-Identifier: MIT */
/**
 * @file pair.h
 * What kind of descriptor is this: a TCP socket, a pair end of smcrd, or neither?
 *
 * The kernel is asked each time, so the answers are right after dup, fork, exec and descriptor
 * passing (GEN-9): the connection ends when the last copy of its end is closed. Where that costs
 * too much, less is asked:
 *
 *     pre_path_is_pair()   (path.h) no system call: was it one when it was last seen?
 *     pre_pair_is_named()  one system call: has it the name of one, whoever made it?
 *     pre_pair_name()      three or more: sure
 *
 * All functions take any descriptor, are async-signal-safe and thread safe, and may change errno.
 */
#ifndef SMCRD_LIB_SMCR_PAIR_H
#define SMCRD_LIB_SMCR_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/ipc/ipc.h"

/** Is it a TCP socket over IPv4 or IPv6? (MPTCP is not.) */
bool pre_is_tcp(int fd);

/**
 * Is this a pair end of smcrd, and of which connection? The name of the socket tells. Anybody can
 * give a Unix socket such a name, so only pairs that a trusted user made count.
 * @return 0; -ENOTSOCK: no pair end, perhaps another Unix socket
 */
int pre_pair_name(int fd, struct ipc_pair_name *ret_name);

/** As pre_pair_name(), but in one system call: whoever made the socket. For cases where it harms
 * nobody to take another's Unix socket for a pair end. */
bool pre_pair_is_named(int fd);

/** The daemon has given this descriptor, so from now on the user who made it is trusted (trust.h).
 * @return true: it is a pair end. It may have no name, where others have taken all that smcrd
 * tried: such a one carries the bytes, and passes for any Unix socket afterwards */
bool pre_pair_given(int fd);

/**
 * Make an unconnected TCP socket of the connection's family, which can answer for a connection that
 * is over. @return a descriptor, which the caller closes, or a negative errno
 */
int pre_unconnected(const struct ipc_pair_name *name);

/**
 * The connect() of a new pair end goes on in the background, so a later connect() returns 0 when it
 * has succeeded, but only one. The kernel keeps this with the socket: it does not matter which
 * duplicate or process calls connect().
 */
void pre_pair_owe_success(int fd);

/** @return true: a connect() returns 0 now, and later ones return EISCONN */
bool pre_pair_tell_success(int fd);

/**
 * The kernel's number of a socket. All duplicates have the same, and no other socket ever gets it.
 * @return 0 or a negative errno
 */
int pre_cookie(int fd, uint64_t *ret_cookie);

#endif
