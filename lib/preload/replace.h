/* SPDX-License-Identifier: MIT */
/**
 * @file replace.h
 * Putting one file in the place of another without the program's noticing: descriptor numbers,
 * descriptor and status flags, signal owner, socket options that act on the program's end, and
 * epoll registrations (design decision 5).
 */
#ifndef SMCRD_LIB_PRELOAD_REPLACE_H
#define SMCRD_LIB_PRELOAD_REPLACE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Put `new_fd` in the place of the socket at `fd` and of its dups in this process, as far as
 * pre_has_dup() sees them. `new_fd` is closed in any case.
 *
 * SO_SNDBUF and SO_RCVBUF are not copied: the daemon reads them from the TCP socket, and a pair
 * end's own decide when it counts as writable, which is the daemon's to arrange.
 * @param cookie  of the socket that is to be replaced
 * @param shared  it may have dups and be registered with epoll: not so right after accept()
 * @return 0, -ESTALE (another file is at `fd` now), or what dup3(2) said; then all is as before
 */
int pre_replace(int fd, uint64_t cookie, int new_fd, bool shared);

/**
 * Has the socket at `fd` another descriptor in this process? Looks at the lowest numbers, where
 * dup() usually ends up, and at those around `fd`; asking for all would make each connection slower
 * the more of them there are.
 */
bool pre_has_dup(int fd, uint64_t cookie);

#endif
