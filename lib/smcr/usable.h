/* SPDX-License-Identifier: MIT */
/**
 * @file usable.h
 * What this process knows of whether it can reach the daemon: asked before a socket is claimed, and
 * told by the requests to it (request.h, session.h).
 */
#ifndef SMCRD_LIB_SMCR_USABLE_H
#define SMCRD_LIB_SMCR_USABLE_H

#include <stdbool.h>

/**
 * Can this process probably reach the daemon? To be asked before a socket is claimed. Checks once
 * whether the process may open a Unix socket and write to the daemon's. After a failure the answer
 * is no for a second; for a minute if the daemon belongs to another network namespace; and for ever
 * if a sandbox forbids the socket.
 * @param alive  the daemon's BPF programs have just answered, so earlier failures do not count
 */
bool pre_daemon_usable(bool alive);

/** The same without checking; false if it was never checked. */
bool pre_daemon_known(void);

/* ---- for request.c and session.c */

/** A Unix socket. If the process may not have one, pre_daemon_usable() is false from now on.
 * @return descriptor or a negative errno */
int pre_usable_socket(void);
/** The daemon could not be reached. */
void pre_usable_absent(void);
/** The daemon has said that it serves another network namespace. */
void pre_usable_foreign(void);

/** Does this negative errno say that descriptors or memory are short, and nothing of the daemon? */
bool pre_is_shortage(int error);

#endif
