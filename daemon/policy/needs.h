/* SPDX-License-Identifier: MIT */
/**
 * @file needs.h
 * How large receive and send buffers of connections have to be, from what earlier ones have used.
 * Learnt for each TCP port of a peer that programs of this host connect to, and for each port of
 * this host's own servers; for the two directions by themselves.
 *
 * What a connection needs more than others counts at once. What all need less counts when that many
 * in a row did (NEEDS_IN_A_ROW): a service may have a few large answers among many small ones.
 *
 * No clock and no I/O.
 */
#ifndef SMCRD_POLICY_NEEDS_H
#define SMCRD_POLICY_NEEDS_H

#include "daemon/engine/engine.h"

#define NEEDS_IN_A_ROW 16

struct needs;

/** @return NULL: no memory */
struct needs *needs_new(void);
/** NULL is allowed. */
void needs_free(struct needs *needs);

/**
 * A connection has ended.
 * @param where  address and server port of the peer, or family 0 and the port of our listener
 * @param seen   what it has needed; 0: nothing is known of that direction
 */
void needs_ended(struct needs *needs, const struct smcr_addr *where, const struct smcr_needs *seen);

/** A connection that is open needs more than it has (UINT32_MAX) in one of the directions, or both.
 */
void needs_outgrown(struct needs *needs, const struct smcr_addr *where,
		    const struct smcr_needs *seen);

/** What the next one there is expected to need: twice as much as those before, so that the window
 * is told before it is closed. 0: not known. */
struct smcr_needs needs_expected(const struct needs *needs, const struct smcr_addr *where);

/** Forget what is known. @param where  family 0: a port of ours; port 0: all ports of the peer */
void needs_forget(struct needs *needs, const struct smcr_addr *where);

#endif
