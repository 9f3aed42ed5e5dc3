/* SPDX-License-Identifier: MIT */
/**
 * @file pending.h
 * Remembers pair ends that this process got for a connect() in progress. If an entry is lost (by
 * exec, or a full table),
 *
 * - the TCP socket cannot be put back after a fallback, and the daemon relays;
 * - shutdown() does not end the connect();
 * - the first send() or recv() after a connect() that has failed gives ECONNRESET, and SO_ERROR
 *   tells the error afterwards.
 *
 * No locks and no allocation; usable in signal handlers.
 */
#ifndef SMCRD_LIB_SMCR_PENDING_H
#define SMCRD_LIB_SMCR_PENDING_H

#include <stdbool.h>
#include <stdint.h>

/** Start to count forks. Called once. */
void pre_pending_begin(void);

/** connect() has put a pair end at `fd`. */
void pre_pending_add(int fd, uint64_t cookie);

/** Is the outcome of this pair end's connect() unknown to this process? The number may be a
 * duplicate. Makes no system call if there is no such connect(). */
bool pre_pending_open_at(int fd);

/**
 * As pre_pending_open_at(), of a pair end that was registered with an epoll instance. Some programs
 * never ask for the outcome, and register anew for each message: after a few times the outcome
 * counts as known.
 * @param ret_cookie  of the pair end, if the result is true
 */
bool pre_pending_registered(int fd, uint64_t *ret_cookie);

/**
 * Is its outcome unknown, and has no fork since then given the pair end to another process?
 * @param ret_fd  the number where connect() has put it
 */
bool pre_pending_is_ours(uint64_t cookie, int *ret_fd);

/** The outcome is known, or the pair end is gone. */
void pre_pending_drop(uint64_t cookie);

#endif
