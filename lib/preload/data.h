/* SPDX-License-Identifier: MIT */
/**
 * @file data.h
 * Moving bytes between a program and the memory that it shares with smcrd (docs/data-path.md): what
 * a reader and a writer of the library do, step by step.
 *
 * Both return false where the call is to be made as if there were no memory: it is not for this
 * descriptor, the call asks for something that only the kernel knows, or the kernel is to wait.
 * Else
 * `*ret` is what the program gets, with errno. errno is as before unless that is -1.
 *
 * Async-signal-safe and safe in any number of threads.
 */
#ifndef SMCRD_LIB_PRELOAD_DATA_H
#define SMCRD_LIB_PRELOAD_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct pre_path;
struct pre_path_spin;

/** @param flags  as of recv() */
bool data_receive(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret);

/** @param flags  as of send() */
bool data_send(int fd, const struct iovec *iov, int count, int flags, ssize_t *ret);

/** sendfile(): as its namesake. */
bool data_send_file(int fd, int file, off_t *offset, size_t len, ssize_t *ret);

/** Bytes of the stream that are in the memory, for FIONREAD. @param fd  any */
size_t data_readable(int fd);

/* ---- between the two ---- */

/** @return the sum, or 0 where the kernel is to say what is wrong */
size_t data_length(const struct iovec *iov, int count);

/** A reset that the kernel has told of, once, in a call that had moved bytes before: the next call
 *  tells the program. @param error  negative errno; others than that of a reset are told again */
void data_keep_error(struct pre_path *path, int error);
/** @return negative errno, or 0 */
int data_kept_error(struct pre_path *path);

/** Is `fd` a file on which calls do not wait? */
bool data_is_nonblocking(int fd);

/** Is it worth looking for a while, after all that came of it lately, on a file on which calls
 * wait? */
bool data_may_spin(struct pre_path_spin *spin, int fd);
/** Look, again and again, yielding the processor, until `found` says so or it took too long. */
bool data_spin(struct pre_path_spin *spin, bool (*found)(void *arg), void *arg);

#endif
