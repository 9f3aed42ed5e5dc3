/* SPDX-License-Identifier: MIT */
/**
 * @file data_pieces.h
 * The pieces of memory of a call that moves data, as readv() and sendmsg() have them. The functions
 * read the program's list of pieces, never the pieces. A list that cannot be read is a fault
 * (docs/sockets.md). Callers that must not fault ask data_is_nowhere() or
 * data_message_readable() first.
 *
 * Another thread of the program may change the list during the call. So data_piece() reads each
 * element once, and a sum of lengths that was asked for before only says how much is moved at most:
 * the list may have less by now.
 *
 * Async-signal-safe and thread safe.
 */
#ifndef SMCRD_LIB_PRELOAD_DATA_PIECES_H
#define SMCRD_LIB_PRELOAD_DATA_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

/** Most pieces of memory that one part of a call has. */
#define DATA_PIECES 16

/** One element of the program's list, as it is now. */
static inline struct iovec data_piece(const struct iovec *iov, int i)
{
	const volatile struct iovec *piece = &iov[i];
	return (struct iovec){ piece->iov_base, piece->iov_len };
}

/** The pieces of memory that have the bytes after the first `at` ones.
 * @return how many bytes, at most `len`; less if they are in more than DATA_PIECES pieces, or the
 * list has no more */
size_t data_slice(const struct iovec *iov, int count, size_t at, size_t len,
		  struct iovec ret_iov[DATA_PIECES], size_t *ret_count);

/** The sum of the lengths. @return 0: there are no bytes, too many pieces, or the list is nowhere:
 * the kernel has to report what is wrong */
size_t data_length(const struct iovec *iov, int count);

/** Is this an address that no program has? To ask costs nothing, as in calls that move data. */
static inline bool data_is_nowhere(const void *at)
{
	return (uintptr_t)at < 4096 || (sizeof(at) > 4 && (intptr_t)at < 0);
}

/** Can the library read the list of pieces of a message? To ask takes system calls. */
bool data_message_readable(const struct msghdr *msg);

#endif
