/* SPDX-License-Identifier: MIT */
/**
 * @file unasked.h
 * connect() without a claim, to servers that are known not to answer the SMC-R option
 * (unanswered.h). Counts these connections, and has smcrd told of them by the next connection that
 * is asked about.
 *
 * unanswered.c remembers servers by address and decides; this file looks at descriptors and at the
 * program's addresses, and tells smcrd. A connect() without a claim goes through pre_unasked_may()
 * and pre_unasked_made(); the outcome of one with a claim through pre_unasked_plain() or
 * pre_unasked_answered().
 */
#ifndef SMCRD_LIB_SMCR_UNASKED_H
#define SMCRD_LIB_SMCR_UNASKED_H

#include <stdbool.h>
#include <sys/socket.h>

#include "proto/ipc/ipc.h"

/**
 * May this connect() be made without a claim? If so it is counted.
 * @param addr    the program's pointer, which may be invalid
 * @param ret_to  true: the server
 */
bool pre_unasked_may(const struct sockaddr *addr, socklen_t len, union ipc_addr *ret_to);

/**
 * Such a connect() has returned: was it a connection? What was not is not counted any more.
 * @param rc  its result
 * @return false: connect() has failed, or `fd` is no TCP socket, or an earlier connect() on it has
 *         succeeded
 */
bool pre_unasked_made(int fd, const union ipc_addr *to, int rc);

/** Note that the program makes a socket. As long as it has made none of IP other than TCP, those
 * that it connects count as TCP without a look at them. */
void pre_unasked_note_socket(int domain, int type, int protocol);

/** The address of a connect() that the kernel has read. @return false: not of TCP */
bool pre_unasked_copy(const struct sockaddr *addr, socklen_t len, union ipc_addr *ret_to);

/** The handshake of a connection with a claim is over, and it is plain TCP. */
void pre_unasked_plain(int fd, const union ipc_addr *to);

/** The handshake of a connection with a claim is over, and both sides have sent the option. */
void pre_unasked_answered(int fd, const union ipc_addr *to);

#endif
