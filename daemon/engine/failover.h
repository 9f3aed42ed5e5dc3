/* SPDX-License-Identifier: MIT */
/**
 * @file failover.h
 * Connections move between links (RFC 7609 2.3, 4.6; FO).
 */
#ifndef SMCRD_ENGINE_FAILOVER_H
#define SMCRD_ENGINE_FAILOVER_H

#include "daemon/engine/engine.h"

struct smcr_conn;
struct smcr_lgr;
struct smcr_link;

/** The link is gone, or goes: what writes on it moves to others, or waits for one. @return how many
 *  connections have moved */
unsigned int smcr_failover_leave(struct smcr_link *link);
/** Write on `to` from now on (NULL: on none until one comes): what is outstanding elsewhere is
 * waited for, then comes the validation and, if need be, the replay. Phase OPEN only. */
void smcr_failover_move(struct smcr_conn *conn, struct smcr_link *to);
/** Move what writes on `from` to `to`, or (NULL) spread it over the others. Connections for which
 * that is not possible stay. @return how many move */
unsigned int smcr_failover_move_all(struct smcr_link *from, struct smcr_link *to);
/** Should a connection rather write on `a` than on `b` (NULL: none)? Fewer write there (LG-17); one
 * that the operator has disabled is the last resort. */
bool smcr_failover_is_better(const struct smcr_link *a, const struct smcr_link *b);
/** A link has become active, or is enabled again: it takes over those that have none, and its share
 *  of the others (FO-12, LG-17). @return how many move */
unsigned int smcr_failover_rebalance(struct smcr_lgr *lgr);

#endif
