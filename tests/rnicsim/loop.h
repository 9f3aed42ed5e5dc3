/* SPDX-License-Identifier: MIT */
/**
 * @file loop.h
 * Between events and sockets.
 */
#ifndef SMCRD_TESTS_RNICSIM_LOOP_H
#define SMCRD_TESTS_RNICSIM_LOOP_H

#include <stdbool.h>

struct watch;

/** An event waits for a socket: tell it by loop_look() when the socket may be ready. */
void socket_watched(int fd, bool for_writing, struct watch *watch);
bool socket_is_readable(int fd);
bool socket_is_writable(int fd);

/** Have the event fire if its socket is ready. */
void loop_look(struct watch *watch);

#endif
