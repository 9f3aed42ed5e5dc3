/* SPDX-License-Identifier: MIT */
/**
 * @file reach.h
 * Connects to the daemon: at the path of its socket, or, if that path cannot be reached any more
 * (after chroot(), a relative path in another directory, as another user), at its address in the
 * abstract namespace. Anybody can bind such an address. So the process there is used only if it
 * runs as root, as this process's user, or as the owner of the socket file when that was seen.
 */
#ifndef SMCRD_LIB_SMCR_REACH_H
#define SMCRD_LIB_SMCR_REACH_H

#include <stdint.h>

/** Can the daemon be reached? Does not connect if the path can be reached. @param fd a Unix socket,
 * which may be connected afterwards. @return 0 or a negative errno */
int pre_reach_look(int fd);

/** Connect a Unix socket to the daemon. @param limit_ms the longest wait. @return 0 or a negative
 * errno */
int pre_reach_connect(int fd, int limit_ms);

#endif
