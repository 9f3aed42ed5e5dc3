/* SPDX-License-Identifier: MIT */
/**
 * @file wait_all.h
 * MSG_WAITALL and SO_RCVLOWAT on a pair end without shared memory. If a reset ends a call early
 * that waits for more bytes than it has, a Unix socket forgets the reset, and the next call gets
 * end of file. With TCP the next call gets the reset.
 */
#ifndef SMCRD_LIB_PRELOAD_WAIT_ALL_H
#define SMCRD_LIB_PRELOAD_WAIT_ALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/** Has this process set SO_RCVLOWAT of any socket to more than one byte, or did a pair end come by
 * exec for which that was set? */
extern _Atomic bool wait_all_low_used;

/** SO_RCVLOWAT of a socket. @param value  an int, which need not be aligned */
void wait_all_note_low(const void *value);

/** May a call with these flags have to wait for more than one byte? */
static inline bool wait_all_may_concern(int flags)
{
	return flags & MSG_WAITALL ||
	       atomic_load_explicit(&wait_all_low_used, memory_order_relaxed);
}

/**
 * recvmsg() of bytes, for which wait_all_may_concern(). Only the list of pieces in `msg` counts,
 * and is read only if the call is not left to the kernel. Receives part by part, and checks for a
 * reset between two parts without consuming it. Async-signal-safe and thread safe; a cancellation
 * point.
 * @param ret  result for the program, with errno; unchanged if false is returned
 * @return false: the call is left to the kernel, since `fd` is no pair end, or the flags ask for
 *         more than bytes
 */
bool wait_all_receive(int fd, const struct msghdr *msg, int flags, ssize_t *ret);

#endif
