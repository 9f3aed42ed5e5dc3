/* SPDX-License-Identifier: MIT */
/**
 * @file status.h
 * How is the connection behind a pair end? The answer may bring the TCP socket back.
 */
#ifndef SMCRD_LIB_SMCR_STATUS_H
#define SMCRD_LIB_SMCR_STATUS_H

#include <stdbool.h>

#include "proto/ipc/ipc.h"

struct pre_status {
	struct ipc_status ipc;
	bool taken_back; /* the TCP socket is at the descriptor again */
};

/**
 * Does the library that the core is part of see the program's epoll_ctl() and setsockopt()?
 * Otherwise the TCP socket does not come back unasked, since registrations would be lost, and
 * options are asked for (fit.h). Defined by each library.
 */
extern const bool pre_sees_calls;

/**
 * Ask the daemon. If it gives the TCP socket back, that is put in the pair end's place.
 * @return 0 or a negative errno: the daemon is gone or does not know the connection
 */
int pre_status(int fd, struct pre_status *ret_status);

/** The same for a program that wants its TCP socket back, and answers for what this library cannot
 *  know: that no other process has the pair end, and that no registration with epoll is lost. */
int pre_status_taking_back(int fd, struct pre_status *ret_status);

/**
 * End the connection behind a pair end and put a TCP socket that can be connected in its place: its
 * own, or a new one if that is gone with the connection.
 * @return 0 or a negative errno
 */
int pre_status_disconnect(int fd, const struct ipc_pair_name *pair);

#endif
