/* SPDX-License-Identifier: MIT */
/**
 * @file data.h
 * Moves bytes between a program and the memory that it shares with smcrd: the steps of a reader and
 * a writer of docs/data-path.md.
 *
 * The functions return false if the call has to be made without the memory: this descriptor has
 * none, the call asks for something that only the kernel can do, or the kernel has to wait.
 * Otherwise `*ret` is the result for the program. errno changes only if `*ret` is -1.
 *
 * Async-signal-safe and safe in any number of threads.
 */
#ifndef SMCRD_LIB_PRELOAD_DATA_H
#define SMCRD_LIB_PRELOAD_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/** @param flags  as of recv() */
bool data_receive(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret);

/** @param flags  as of send() */
bool data_send(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret);

/** sendfile(): as its namesake. */
bool data_send_file(int fd, int file, off_t *offset, size_t len, ssize_t *ret);

/** How many bytes of the stream are in the memory, for FIONREAD. @param fd any descriptor */
size_t data_readable(int fd);

#endif
