/* SPDX-License-Identifier: MIT */
/**
 * @file needs.h
 * How large receive and send buffers of connections have to be, as learnt from earlier connections.
 * It is learnt for each user and each TCP port of a peer that the user's programs connect to, and
 * for each address and port of a user's servers and each peer; for each direction separately. So
 * connections that need little make buffers smaller for their own user, or peer, only. A peer of
 * which a server knows nothing is expected to need what the others have needed; what it needs
 * itself counts from its first connection on. Who has how many places is in kept.h.
 *
 * If a connection needs more than was known, that counts at once. If connections need less, that
 * counts only after NEEDS_IN_A_ROW of them in a row, because a service may have a few large answers
 * among many small ones.
 *
 * No clock and no I/O.
 */
#ifndef SMCRD_POLICY_NEEDS_H
#define SMCRD_POLICY_NEEDS_H

#include "daemon/rendezvous/option.h"
#include "daemon/smcr/engine.h"

#define NEEDS_IN_A_ROW 16

struct needs;

/** @return NULL: no memory */
struct needs *needs_new(void);
/** NULL is allowed. */
void needs_free(struct needs *needs);

/**
 * A connection has ended.
 * @param seen  what the connection has needed; 0: not known for that direction
 */
void needs_ended(struct needs *needs, const struct rdv_place *where, const struct smcr_needs *seen);

/** An open connection needs larger buffers than it has (UINT32_MAX) in one direction or both. */
void needs_outgrown(struct needs *needs, const struct rdv_place *where,
		    const struct smcr_needs *seen);

/** What the next connection there is expected to need: twice as much as earlier ones, so that the
 * peer is told of new window before the window is closed. 0: not known. */
struct smcr_needs needs_expected(const struct needs *needs, const struct rdv_place *where);

/** Forget what is known, of all users. @param where as in shorts_forget() */
void needs_forget(struct needs *needs, const struct smcr_addr *where);

#endif
