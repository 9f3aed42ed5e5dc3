/* SPDX-License-Identifier: MIT */
/**
 * @file passed.h
 * The descriptors that are passed with a message (SCM_RIGHTS). Async-signal-safe and thread safe.
 */
#ifndef SMCRD_LIB_PRELOAD_PASSED_H
#define SMCRD_LIB_PRELOAD_PASSED_H

#include <sys/socket.h>

/** Call `note` for each descriptor that is passed with a message, which the kernel has received or
 * taken. Another thread may have changed the message since: nothing outside of its control messages
 * is read, but any number may be noted. */
void passed_each(const struct msghdr *msg, void (*note)(int fd));

#endif
