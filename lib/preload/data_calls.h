/* SPDX-License-Identifier: MIT */
/**
 * @file data_calls.h
 * What receive_calls.c and send_calls.c share: the interposed functions that move data. Each of
 * these tries the following ways in turn:
 *
 *     data_receive(), data_send()   through shared memory (data.h), if the descriptor may have
 *                                   some. To ask that (pre_path_concerns()) costs one load
 *     .._unshared(), .._to_pair()   through the kernel: in parts where that is needed (wait_all.h,
 *                                   send_all.h), else the program's call as it is (pre_next)
 *
 * Where the kernel's answer to a pair end is not TCP's, answers.h has TCP's.
 */
#ifndef SMCRD_LIB_PRELOAD_DATA_CALLS_H
#define SMCRD_LIB_PRELOAD_DATA_CALLS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "lib/preload/data_pieces.h"
#include "lib/smcr/path.h"

#define EXPORT __attribute__((visibility("default")))

/** Note that the kernel has moved `n` bytes, if that is positive. @return n */
static inline ssize_t moved(int fd, ssize_t n)
{
	if (n > 0)
		pre_path_moved(fd, (size_t)n);
	return n;
}

/** The list of pieces of a call that has one buffer. */
static inline struct iovec one(const void *buf, size_t len)
{
	return (struct iovec){ (void *)(uintptr_t)buf, len };
}

/** Does the message ask for bytes only? */
static inline bool is_plain(const struct msghdr *msg)
{
	return !data_is_nowhere(msg) && !msg->msg_name && msg->msg_controllen == 0;
}

#endif
