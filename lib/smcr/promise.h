/* SPDX-License-Identifier: MIT */
/**
 * @file promise.h
 * Was SMC-R promised to the peer of an accepted connection? If so, the connection must be served,
 * declined or reset, since the program must not see the peer's CLC Proposal.
 *
 * While the daemon that saw the handshake runs, IPC_SO_NEGOTIATED tells. Afterwards the socket
 * itself shows the promise: by the mark that the daemon's BPF programs set (IPC_PROMISE_MARK). If
 * the daemon died between the SYN-ACK and the end of the handshake, the mark was not set; then the
 * peer's first bytes are a Proposal. Usable in signal handlers, by any number of threads.
 */
#ifndef SMCRD_LIB_SMCR_PROMISE_H
#define SMCRD_LIB_SMCR_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

/** A daemon has answered for an accepted connection: promises of a dead daemon need not be looked
 * for any more.
 */
void pre_promise_answered(void);

/**
 * Was SMC-R promised, if no daemon answers for the connection? If the listener was claimed, a
 * daemon may have died during the handshake, and the peer's SYN carried the option, this waits for
 * the peer's first bytes, until a second after the handshake at most. A promised connection gets
 * the mark.
 */
bool pre_promise_stands(int listener, int fd);

/** Remove the mark from a connection that is plain TCP: its TCP_SYNCNT is the listener's again. */
void pre_promise_forget(int listener, int fd);

/**
 * Decline in place of a daemon: read the Proposal and not a byte more, and send a Decline of its
 * version (RFC 7609 A.2.5). Waits for the Proposal until a second after the handshake at most.
 * @param reason  enum smcr_reason, for the peer's operator
 * @return 0: the connection is plain TCP for both sides, with no CLC left in it. A negative errno:
 *         it must be reset: -ETIMEDOUT, -EBADMSG (no Proposal), -ECONNRESET (the peer has closed),
 *         ..
 */
int pre_promise_decline(int fd, uint32_t reason);

/**
 * The same at the client, whose handshake has promised SMC-R: a Decline in the place of the
 * Proposal (RFC 7609 A.2.5). Does not wait.
 * @return 0: the connection is plain TCP for both sides; or a negative errno
 */
int pre_promise_withdraw(int fd, uint32_t reason);

#endif
