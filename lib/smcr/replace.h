/* SPDX-License-Identifier: MIT */
/**
 * @file replace.h
 * Puts one file in the place of another so that the program does not notice: keeps descriptor
 * numbers, descriptor and status flags, signal owner, socket options that act on the program's end,
 * and epoll registrations.
 */
#ifndef SMCRD_LIB_SMCR_REPLACE_H
#define SMCRD_LIB_SMCR_REPLACE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

/**
 * Settings that the program has made on a socket: status flags, signal owner, and options that act
 * on the program's end. Read before a hand-over: the daemon shares the open file and changes some
 * of them.
 *
 * SO_SNDBUF and SO_RCVBUF are not among them. The daemon reads them from the TCP socket, and sets
 * those of a pair end itself, since they decide when it is writable.
 */
struct pre_file_state {
	uint64_t cookie; /* identifies the socket: pre_cookie() */
	int status;      /* F_GETFL */
	int signal;      /* F_GETSIG */
	struct f_owner_ex owner;
	struct timeval receive_timeout, send_timeout;
	int receive_low, oob_inline;
};

/** @return 0, or a negative errno: not a socket, or it has no cookie */
int pre_file_state(int fd, struct pre_file_state *ret_state);

/** Restore the program's status flags after the daemon has let go of the socket. */
void pre_restore_status(int fd, const struct pre_file_state *state);

/** What takes the place of what: pre_replace(). */
enum pre_replacement {
	/** A new pair end replaces a TCP socket that accept() has just made, and that has neither
	 * duplicates nor epoll registrations. */
	PRE_REPLACE_ACCEPTED,
	/** A new pair end replaces a TCP socket that may have both. */
	PRE_REPLACE_CONNECTED,
	/** The TCP socket replaces a pair end that may have both. */
	PRE_REPLACE_BACK,
};

/**
 * Put `new_fd` in the place of the socket at `fd` and of its duplicates that dups.h finds. `new_fd`
 * is the caller's until this call, which closes it in any case.
 * @param state  settings of the socket that is replaced
 * @return 0; -ESTALE: `fd` is another file now; or an error of dup3(2). On failure nothing has
 *         changed but the settings of `new_fd`
 */
int pre_replace(int fd, const struct pre_file_state *state, int new_fd, enum pre_replacement kind);

#endif
