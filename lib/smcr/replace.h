/* SPDX-License-Identifier: MIT */
/**
 * @file replace.h
 * Putting one file in the place of another without the program's noticing: descriptor numbers,
 * descriptor and status flags, signal owner, socket options that act on the program's end, and
 * epoll registrations.
 */
#ifndef SMCRD_LIB_SMCR_REPLACE_H
#define SMCRD_LIB_SMCR_REPLACE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

/**
 * A socket as the program has arranged it: status flags, signal owner, and the options that act on
 * the program's end. Taken before a hand-over, for the daemon shares the open file and changes some
 * of this for its own use.
 *
 * SO_SNDBUF and SO_RCVBUF are not in it: the daemon reads them from the TCP socket, and a pair
 * end's own decide when it counts as writable, which is the daemon's to arrange.
 */
struct pre_file_state {
	uint64_t cookie; /* which socket this is: pre_cookie() */
	int status;      /* F_GETFL */
	int signal;      /* F_GETSIG */
	struct f_owner_ex owner;
	struct timeval receive_timeout, send_timeout;
	int receive_low, oob_inline;
};

/** @return 0, or a negative errno: not a socket, or the kernel does not tell which */
int pre_file_state(int fd, struct pre_file_state *ret_state);

/** The daemon has let go of the socket: its status flags are the program's again. */
void pre_restore_status(int fd, const struct pre_file_state *state);

/**
 * Put `new_fd` in the place of the socket at `fd`, and of its dups in this process as far as
 * pre_has_dup() sees them. `new_fd` is closed in any case.
 * @param state   of the socket that is to be replaced
 * @param shared  it may have dups and be registered with epoll: not so right after accept()
 * @param fresh   it is a pair end that the daemon has just made
 * @return 0, -ESTALE (another file is at `fd` now), or what dup3(2) said; then all is as before
 */
int pre_replace(int fd, const struct pre_file_state *state, int new_fd, bool shared, bool fresh);

/**
 * Has the socket at `fd` another descriptor in this process? Looks at the lowest numbers, where
 * dup() usually ends up, and at those around `fd`; asking for all would make each connection slower
 * the more of them there are.
 */
bool pre_has_dup(int fd, uint64_t cookie);

#endif
