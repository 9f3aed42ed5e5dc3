/* SPDX-License-Identifier: MIT */
/**
 * @file failover.h
 * Moving connections between links (RFC 7609 2.3, 4.6; requirements FO).
 */
#ifndef SMCRD_SMCR_FAILOVER_H
#define SMCRD_SMCR_FAILOVER_H

#include "daemon/smcr/engine.h"

struct smcr_conn;
struct smcr_lgr;
struct smcr_link;

/** The link has failed or is being deleted: move its connections to other links, or let them wait
 * for a link. @return how many have moved */
unsigned int smcr_failover_leave(struct smcr_link *link);
/** Let the connection write on `to` from now on (NULL: wait for a link). Once no request is
 * outstanding on another link, the validation and, if needed, the replay are posted. Phase OPEN
 * only. */
void smcr_failover_move(struct smcr_conn *conn, struct smcr_link *to);
/** Move the connections of `from` to `to`, or (NULL) spread them over the other links. Connections
 * that cannot use the new link stay. @return how many move */
unsigned int smcr_failover_move_all(struct smcr_link *from, struct smcr_link *to);
/** Is `a` better for a connection than `b` (NULL: no link)? The link with fewer connections is
 * better (LG-17); a link that the operator has disabled is the last resort. */
bool smcr_failover_is_better(const struct smcr_link *a, const struct smcr_link *b);
/** A link has become active, or is enabled again: move connections without a link to it, and its
 * share of the others (FO-12, LG-17). @return how many move */
unsigned int smcr_failover_rebalance(struct smcr_lgr *lgr);

#endif
