/* SPDX-License-Identifier: MIT */
/**
 * @file promise.h
 * Was SMC-R promised to the peer of an accepted connection? Whatever was promised is served,
 * declined or reset: the peer's CLC Proposal is no business of the program.
 *
 * While the daemon that saw the handshake lives, IPC_SO_NEGOTIATED tells. Afterwards the promise is
 * found on the socket itself: by the mark of that daemon's programs (IPC_PROMISE_MARK); and where
 * the daemon died between the SYN-ACK and the end of the handshake, so that nobody could set the
 * mark, by the Proposal that such a peer sends first of all. Usable in signal handlers, by any
 * number of threads.
 */
#ifndef SMCRD_LIB_SMCR_PROMISE_H
#define SMCRD_LIB_SMCR_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

/** A daemon has answered for an accepted connection: the time in doubt, if there was one, is over.
 */
void pre_promise_answered(void);

/**
 * The same question where nobody answers for the connection. If the listener was claimed, the
 * answer came to nobody, and the peer's SYN carried the option, this waits for the peer's first
 * bytes, a second after the handshake at most. A connection that turns out to be promised is marked
 * then.
 */
bool pre_promise_stands(int listener, int fd);

/** The connection is plain TCP: its TCP_SYNCNT is the listener's again. */
void pre_promise_forget(int listener, int fd);

/**
 * Decline in the daemon's place: take the Proposal and no byte more, and send a Decline of its
 * version (RFC 7609 A.2.5). Waits for the Proposal, a second after the handshake at most.
 * @param reason  enum smcr_reason, for the peer's operator
 * @return 0: the connection is clean, and plain TCP to both sides. A negative errno: it is not, and
 *         must be reset: -ETIMEDOUT, -EBADMSG (no Proposal), -ECONNRESET (the peer is gone), ..
 */
int pre_promise_decline(int fd, uint32_t reason);

#endif
