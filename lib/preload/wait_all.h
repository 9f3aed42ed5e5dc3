/* SPDX-License-Identifier: MIT */
/**
 * @file wait_all.h
 * MSG_WAITALL on a pair end without shared memory. If a reset ends such a call early, a Unix socket
 * forgets the reset, and the next call gets end of file. With TCP the next call gets the reset.
 */
#ifndef SMCRD_LIB_PRELOAD_WAIT_ALL_H
#define SMCRD_LIB_PRELOAD_WAIT_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/**
 * recvmsg() of bytes with MSG_WAITALL in `flags`. Only the list of pieces in `msg` counts, and is
 * read only if the call is not left to the kernel. Receives part by part, and checks for a reset
 * between two parts without consuming it. Async-signal-safe and thread safe; a cancellation point.
 * @param ret  result for the program, with errno; unchanged if false is returned
 * @return false: the call is left to the kernel, since `fd` is no pair end, or the flags ask for
 *         more than bytes
 */
bool wait_all_receive(int fd, const struct msghdr *msg, int flags, ssize_t *ret);

#endif
