/* SPDX-License-Identifier: MIT */
/**
 * @file wait_all.h
 * MSG_WAITALL on a pair end whose bytes come through the kernel. Where a reset cuts such a call
 * short a Unix socket forgets the reset, and the next call gets an end of file; TCP tells the next
 * call of it.
 */
#ifndef SMCRD_LIB_PRELOAD_WAIT_ALL_H
#define SMCRD_LIB_PRELOAD_WAIT_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/**
 * recv() with MSG_WAITALL in `flags`, or as much of recvmsg(), part by part, with a look between
 * two parts that leaves the reset where it is. Async-signal-safe and safe in any number of threads;
 * a cancellation point.
 * @param ret  what the program gets, with errno; untouched if false is returned
 * @return false: the call is for the kernel as it is, since `fd` is no pair end or the flags ask
 * for more than bytes
 */
bool wait_all_receive(int fd, void *buf, size_t len, int flags, ssize_t *ret);

#endif
