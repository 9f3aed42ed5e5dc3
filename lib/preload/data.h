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
#include <stdint.h>
#include <sys/socket.h>
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

/** How many bytes of the stream are in the memory, for FIONREAD. @param fd any descriptor */
size_t data_readable(int fd);

/* ---- for both directions ---- */

/** Most pieces of memory that one part of a call has. */
#define DATA_PIECES 16

/** The pieces of memory that have the bytes after the first `at` ones.
 * @return how many bytes, at most `len`; less if they are in more than DATA_PIECES pieces */
size_t data_slice(const struct iovec *iov, int count, size_t at, size_t len,
		  struct iovec ret_iov[DATA_PIECES], size_t *ret_count);

/** The sum of the lengths. @return 0: the kernel has to report what is wrong */
size_t data_length(const struct iovec *iov, int count);

/** Is this an address that no program has? To ask costs nothing, as in calls that move data. */
static inline bool data_is_nowhere(const void *at)
{
	return (uintptr_t)at < 4096 || (sizeof(at) > 4 && (intptr_t)at < 0);
}

/** Can the library read the list of pieces of a message? To ask takes system calls. */
bool data_message_readable(const struct msghdr *msg);

/** Keep a reset that the kernel reported to a call which had moved bytes already. The kernel does
 * not report it again, so the next call does. @param error negative errno; any other error than
 * ECONNRESET is ignored, since the kernel reports it again */
void data_keep_error(struct pre_path *path, int error);
/** Take a kept error. @return negative errno; 0: none */
int data_kept_error(struct pre_path *path);

/** Is O_NONBLOCK set? */
bool data_is_nonblocking(int fd);
/** May a call with these flags wait? */
bool data_may_wait(int fd, int flags);
/** In place of a time: for ever. */
#define DATA_FOR_EVER INT64_MAX

/** When a call ends that waits. All its waits together last no longer than its limit, as with TCP.
 * @param began  when the call began: sys_now_ms(), which costs no system call
 * @param option  SO_SNDTIMEO or SO_RCVTIMEO
 * @return as `began`, which it is if the call may not wait; or DATA_FOR_EVER */
int64_t data_deadline(int fd, int flags, int64_t began, int option);
/** How much time is left. @return milliseconds, at least 0; -1: for ever; as poll() takes them */
int data_left_ms(int64_t deadline);

/** Is polling worth while on this descriptor, by its success lately? False if calls do not
 * block. */
bool data_may_spin(struct pre_path_spin *spin, int fd);
/** Call `found` again and again, yielding the processor in between, until it returns true or 50 us
 * have passed. */
bool data_spin(struct pre_path_spin *spin, bool (*found)(void *arg), void *arg);

#endif
