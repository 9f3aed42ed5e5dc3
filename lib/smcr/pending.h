/* SPDX-License-Identifier: MIT */
/**
 * @file pending.h
 * Remembers pair ends that this process got for a connect() in progress. If an entry is lost (by
 * exec, or a full table), the TCP socket cannot be put back after a fallback, and the daemon
 * relays. Nothing else depends on it.
 *
 * No locks and no allocation; usable in signal handlers.
 */
#ifndef SMCRD_LIB_SMCR_PENDING_H
#define SMCRD_LIB_SMCR_PENDING_H

#include <stdbool.h>
#include <stdint.h>

/** Start to count forks. Called once. */
void pre_pending_open(void);

/** connect() has put a pair end at `fd`. */
void pre_pending_add(int fd, uint64_t cookie);

/** Is the outcome of this pair end's connect() unknown to this process? Makes no system call if the
 * number is not in the table. */
bool pre_pending_open_at(int fd);

/** Is its outcome unknown, and has no fork since then given the pair end to another process? */
bool pre_pending_is_ours(int fd, uint64_t cookie);

/** The outcome is known, and the pair end stays. The next connect() of the program may still have
 * to report success. */
void pre_pending_settle(int fd, uint64_t cookie);

/**
 * connect() is called on a connected pair end.
 * @return true the first time, when Linux returns 0; later it returns EISCONN
 */
bool pre_pending_report(int fd, uint64_t cookie);

/** `fd` is not this pair end any more. */
void pre_pending_drop(int fd);

#endif
