/* SPDX-License-Identifier: MIT */
/**
 * @file need.h
 * How much of its receive buffer and of its send buffer a connection has used.
 */
#ifndef SMCRD_SMCR_NEED_H
#define SMCRD_SMCR_NEED_H

#include "daemon/smcr/engine.h"

struct smcr_conn;

/** rx.produced, or tx.committed, has moved from `before`, and rx.peer_blocked is up to date. Raises
 *  OUTGROWN. */
void smcr_need_received(struct smcr_conn *conn, uint64_t before);
void smcr_need_committed(struct smcr_conn *conn, uint64_t before);
/** What the connection has needed so far. */
struct smcr_needs smcr_need_of(const struct smcr_conn *conn);

#endif
