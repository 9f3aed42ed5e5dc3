/* SPDX-License-Identifier: MIT */
/**
 * @file outcome.h
 * connect() on a pair end: the program asks how an earlier connect() has ended, or disconnects.
 */
#ifndef SMCRD_LIB_SMCR_OUTCOME_H
#define SMCRD_LIB_SMCR_OUTCOME_H

#include <sys/socket.h>

struct ipc_pair_name;

/**
 * Waits as connect() on a TCP socket does, if `fd` is blocking and the connection not there yet.
 * The TCP socket may have taken the place of the pair end afterwards (status.h). Async-signal-safe.
 * @param addr  the program's pointer, which may be invalid
 * @param name  of the pair end `fd`
 * @return 0, or a negative errno, as of connect(2)
 */
int pre_outcome_connect(int fd, const struct sockaddr *addr, socklen_t len,
			const struct ipc_pair_name *name);

#endif
