/* SPDX-License-Identifier: MIT */
/**
 * @file pending.h
 * Pair ends that this process got for a connect() in progress: what it may still do with them. A
 * memory of convenience: an entry that is lost (exec, a full table) costs the way back to the TCP
 * socket after a fallback, so that the daemon relays, and nothing else.
 *
 * As watch.h: no locks, no allocation, usable in signal handlers.
 */
#ifndef SMCRD_LIB_SMCR_PENDING_H
#define SMCRD_LIB_SMCR_PENDING_H

#include <stdbool.h>
#include <stdint.h>

/** Count forks from now on. Called once. */
void pre_pending_open(void);

/** connect() has put a pair end at `fd`. */
void pre_pending_add(int fd, uint64_t cookie);

/** Is the outcome of the connect() open as far as we know? No system call where the number is not
 *  in the table. */
bool pre_pending_open_at(int fd);

/** The same for one socket, and no fork has given others a copy since. */
bool pre_pending_is_ours(int fd, uint64_t cookie);

/** The outcome is known: the pair end stays. connect() may still have to be told. */
void pre_pending_settle(int fd, uint64_t cookie);

/**
 * connect() tells the program that it is connected.
 * @return true the first time: Linux returns 0 then, and EISCONN ever after
 */
bool pre_pending_report(int fd, uint64_t cookie);

/** The pair end is gone from `fd`. */
void pre_pending_drop(int fd);

#endif
