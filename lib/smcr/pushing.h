/* SPDX-License-Identifier: MIT */
/**
 * @file pushing.h
 * TCP_NODELAY and TCP_CORK of a pair end: when TCP sends what is short. Over SMC-R nothing is ever
 * held back, so they have no effect there (SOCK-3). Servers change them for each answer (nginx with
 * tcp_nopush does so four times), and a question to smcrd takes longer than the answer. So their
 * values are kept with the pair end, whatever process or descriptor sets them.
 *
 * If smcrd relays to TCP, that should not wait for more bytes where the program does not want it:
 * smcrd is told the first time that TCP_NODELAY is switched on, and never that it is off again.
 *
 * The kernel keeps the values in an option that has no effect on Unix sockets, SO_MAX_PACING_RATE.
 * A program's SO_MAX_PACING_RATE is that of the TCP socket.
 */
#ifndef SMCRD_LIB_SMCR_PUSHING_H
#define SMCRD_LIB_SMCR_PUSHING_H

#include <stdbool.h>

/**
 * @param name  TCP_NODELAY or TCP_CORK
 * @return false: the value is that of the TCP socket, as nobody has set it since it became a pair
 *         end
 */
bool pre_pushing_get(int fd, int name, bool *ret_on);

/** smcrd has to be told before TCP_NODELAY is set to on for the first time.
 * @return 0 or a negative errno */
int pre_pushing_set(int fd, int name, bool on);

/** Has TCP_NODELAY been set to on before? Then smcrd has been told. */
bool pre_pushing_was_nodelay(int fd);

/** The TCP socket takes the place of the pair end: give it the values. */
void pre_pushing_restore(int fd, int tcp);

#endif
