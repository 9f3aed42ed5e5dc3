/* SPDX-License-Identifier: MIT */
/**
 * @file fit.h
 * TCP sockets that could be claimed, but whose connections must stay on TCP: the program has set an
 * option whose effect SMC-R does not have. Options that only say how TCP sends, such as IP_TOS, are
 * no reason (docs/sockets.md).
 *
 * Asking the kernel for each such option at each connection would cost too much. The preload
 * library sees the options that the program sets. So it asks for those that the program has set on
 * any socket before that was connected. It asks for all of them if the socket may have come from
 * another process, or a duplicate of it did: a listener once, others at each connection. A library
 * that does not see the program's calls (pre_sees_calls) always asks for all.
 */
#ifndef SMCRD_LIB_SMCR_FIT_H
#define SMCRD_LIB_SMCR_FIT_H

#include <stdbool.h>
#include <stdint.h>

/** Why a socket must stay on TCP. */
struct pre_unfit {
	const char *text; /* for the program's user; NULL: it need not */
	uint32_t reason;  /* for smcrd's operator: enum smcr_reason */
};

/** May this socket, which is about to be connected or has just been, use SMC-R? */
struct pre_unfit pre_unfit(int fd);

/**
 * As pre_unfit(), for an accepted socket, which has the options of its listener, or for a listener.
 * @param listener  the listener, which may be `fd`
 */
struct pre_unfit pre_unfit_to_accept(int fd, int listener);

/** Is there a reason to call pre_unfit() before the peer is promised anything? */
bool pre_may_be_unfit(int fd);

/** The program has set an option of a TCP socket. */
void pre_fit_note_option(int fd, int level, int name);

/** The program sends with MSG_ZEROCOPY: from now on listeners with SO_ZEROCOPY are unfit too. */
void pre_fit_note_zerocopy(void);

/** `fd` is closed, or another file now. */
void pre_fit_forget(int fd);

#endif
