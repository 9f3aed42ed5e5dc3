/* SPDX-License-Identifier: MIT */
/**
 * @file reach.h
 * Connects to the daemon: at the path of its socket, or, if that path cannot be reached any more
 * (after chroot(), a relative path in another directory, as another user), at its address in the
 * abstract namespace, whose number the BPF programs tell. Where there are none the address has no
 * number, and anybody can bind it. So the process there is used only if it runs as root, as this
 * process's user, or as the owner of the socket file when that was seen.
 */
#ifndef SMCRD_LIB_SMCR_REACH_H
#define SMCRD_LIB_SMCR_REACH_H

#include <stdint.h>

/** Can the daemon be reached? Does not connect if the path can be reached. @param fd a Unix socket,
 * which may be connected afterwards. @return 0 or a negative errno */
int pre_reach_look(int fd);

/** Connect a Unix socket to the daemon. @param deadline  when to give up, of sys_now_ms(); if it
 * has passed, one attempt is made all the same. @return 0 or a negative errno; -EAGAIN: the
 * daemon's backlog was full until the end */
int pre_reach_connect(int fd, int64_t deadline);

#endif
