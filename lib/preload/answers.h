/* SPDX-License-Identifier: MIT */
/**
 * @file answers.h
 * What calls that move data answer on a pair end, where a Unix socket answers otherwise than a TCP
 * socket. Only calls that fail, or have unusual flags, come here, so that others cost nothing.
 *
 * Each function takes any descriptor, and makes sure that it is a pair end. Async-signal-safe and
 * thread safe.
 */
#ifndef SMCRD_LIB_PRELOAD_ANSWERS_H
#define SMCRD_LIB_PRELOAD_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/**
 * A call that sends has failed with EPIPE. TCP reports a reset, or a connect() that has failed,
 * once before that, without SIGPIPE, if no call has reported it yet: set errno to that error. It
 * counts as reported then.
 * @return false: there is no such error; errno is EPIPE
 */
bool answers_send_failed(int fd);

/** As answers_send_failed(), before a call that cannot be told to raise no SIGPIPE. @return false:
 * make the call; errno is unchanged */
bool answers_send_would_fail(int fd);

/** A call that receives has failed with ECONNRESET: set errno to the error of a connect() that has
 * failed, or with which TCP has ended, if no call has reported it yet. */
void answers_receive_failed(int fd);

/** A call that sends to an address has failed with EISCONN. @return true: a TCP socket would ignore
 * the address */
bool answers_ignores_address(int fd);

/**
 * A call that sends has MSG_ZEROCOPY among its flags. A pair end does not need the flag, and it is
 * taken out: TCP ignores it too, unless the program has set SO_ZEROCOPY.
 * @param flags  of the call, for the kernel
 * @return false: the program would wait for notices that do not come; errno is ENOBUFS
 */
bool answers_zerocopy(int fd, int *flags);

/**
 * A call that receives, with MSG_ERRQUEUE or MSG_TRUNC among its flags. TCP's error queue is empty.
 * MSG_TRUNC discards bytes, and the program need not have a buffer.
 * @param len  how many bytes the program wants
 * @param ret  result for the program, with errno; unchanged if false is returned
 * @return false: the call is left to the kernel
 */
bool answers_receive(int fd, size_t len, int flags, ssize_t *ret);

#endif
