/* SPDX-License-Identifier: MIT */
/**
 * @file data_wait.h
 * For how long a call that moves data may wait, and polling before it does.
 *
 * Async-signal-safe and thread safe. errno may change.
 */
#ifndef SMCRD_LIB_PRELOAD_DATA_WAIT_H
#define SMCRD_LIB_PRELOAD_DATA_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct pre_path_spin;

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
