/* SPDX-License-Identifier: MIT */
/**
 * @file reach.h
 * Where the daemon is reached: at the path of its socket, and where that leads nowhere any more
 * (chroot(), a relative path in another directory, another user) at its address in the abstract
 * namespace, which takes no descriptor kept open. Anybody can bind such an address, so the process
 * behind it is only talked to if it is root's, our own user's, or of the user whose the socket file
 * was when it was in sight.
 */
#ifndef SMCRD_LIB_SMCR_REACH_H
#define SMCRD_LIB_SMCR_REACH_H

#include <stdint.h>

/** Can the daemon be reached, as far as can be told without a connection where the path is in
 *  sight? @param fd  a Unix socket, of no use afterwards. @return 0 or a negative errno */
int pre_reach_look(int fd);

/** Connect a Unix socket to the daemon. @param limit_ms  from now. @return 0 or a negative errno */
int pre_reach_connect(int fd, int limit_ms);

#endif
