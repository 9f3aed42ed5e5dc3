/* SPDX-License-Identifier: MIT */
/**
 * @file listeners.h
 * The listeners of this process. A program may connect to itself and accept afterwards, all in one
 * thread; with SMC-R such a connect() would wait for a rendezvous that needs the accept().
 *
 * As watch.h: no locks, no allocation, usable in signal handlers. A listener that finds no room in
 * the table is not remembered.
 */
#ifndef SMCRD_LIB_PRELOAD_LISTENERS_H
#define SMCRD_LIB_PRELOAD_LISTENERS_H

#include <stdbool.h>
#include <sys/socket.h>

/** listen() has succeeded on a TCP socket. */
void pre_listeners_add(int fd);

/**
 * Does this process (or one it was forked from) listen where connect() is about to go?
 * @param addr  not read before it is known that the process listens anywhere at all
 */
bool pre_listeners_have(const struct sockaddr *addr, socklen_t len);

#endif
