/* SPDX-License-Identifier: MIT */
/**
 * @file send_all.h
 * A long send on a pair end, part by part. When the connection is reset, the kernel gives the error
 * of a Unix socket to one call only. A send that has queued a part and waits for room takes the
 * error too, but returns the number of bytes: the next receive would find a clean end of file, and
 * what the program has of an answer would pass for the whole. After a TCP socket's reset the call
 * that comes next gets ECONNRESET.
 *
 * So each part is one buffer of the kernel, which is queued as a whole or not at all, and the wait
 * for room leaves the error where it is. If a reset comes just while a later part is queued, the
 * call fails with ECONNRESET, though it has sent something: the error could not be told otherwise.
 *
 * Thread-safe and async-signal-safe.
 */
#ifndef SMCRD_LIB_PRELOAD_SEND_ALL_H
#define SMCRD_LIB_PRELOAD_SEND_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/** What the kernel puts into one buffer of a Unix socket whose send buffer is as large as a pair's.
 */
#define SEND_ALL_PART ((size_t)32768)

/** The program's call, by which each part is sent too: the program may have forbidden itself other
 * system calls. */
enum send_all_way { SEND_ALL_SEND, SEND_ALL_SENDMSG, SEND_ALL_WRITE, SEND_ALL_WRITEV };

/**
 * A call that sends bytes which take more than one buffer.
 * @param fd     in the table of pair ends (lib/smcr/path.h), which may be out of date
 * @param flags  as of send(), 0 for write(); unusual ones are left to the kernel
 * @return false: the descriptor is no pair end, or the bytes fit into one buffer: call the kernel.
 *         Else `*ret` is the result for the program; errno changes only if that is -1
 */
bool send_all(int fd, enum send_all_way way, const struct iovec *iov, int count, int flags,
	      ssize_t *ret);

/** sendfile(), likewise. */
bool send_all_file(int out, int in, off_t *offset, size_t len, ssize_t *ret);

/**
 * Wait until another part can be queued.
 * @param deadline  when the call ends: data_deadline()
 * @param cancellable  whether this is a cancellation point
 * @return false: the call ends with what it has sent, because of an error, which the next call
 * gets, a shutdown(), a signal, or the limit
 */
bool send_all_has_room(int fd, int64_t deadline, bool cancellable);

#endif
