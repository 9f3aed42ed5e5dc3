/* SPDX-License-Identifier: MIT */
/**
 * @file status.h
 * Asks for the state of the connection behind a pair end. The TCP socket may come back with the
 * answer.
 */
#ifndef SMCRD_LIB_SMCR_STATUS_H
#define SMCRD_LIB_SMCR_STATUS_H

#include <stdbool.h>

#include "proto/ipc/ipc.h"

struct pre_status {
	struct ipc_status ipc;
	bool taken_back; /* the descriptor is the TCP socket again */
};

/**
 * Ask the daemon. If it gives the TCP socket back, put that in the place of the pair end.
 * @return 0 or a negative errno: the daemon is gone or does not know the connection
 */
int pre_status(int fd, struct pre_status *ret_status);

/** Ask for the state only: the descriptor stays what it is, and how connect() has ended stays to be
 * told by a later call. @return 0 or a negative errno, as pre_status() */
int pre_status_look(int fd, enum ipc_conn_state *ret_state);

/** As pre_status(), for a program that asks for its TCP socket. The program is responsible for what
 * this library cannot see: that no other process has the pair end, and that no epoll registration
 * is lost. */
int pre_status_taking_back(int fd, struct pre_status *ret_status);

/**
 * Reset the connection behind a pair end, and put a TCP socket that can be connected in its place:
 * the connection's own one, or a new one if that is gone.
 * @return 0 or a negative errno
 */
int pre_status_disconnect(int fd, const struct ipc_pair_name *pair);

#endif
