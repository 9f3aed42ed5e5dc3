/* SPDX-License-Identifier: MIT */
/**
 * @file account.h
 * How much memory of RMBs and send buffers each local user and each peer holds.
 */
#ifndef SMCRD_SMCR_ACCOUNT_H
#define SMCRD_SMCR_ACCOUNT_H

#include "daemon/smcr/engine.h"

struct smcr_conn;
struct smcr_engine;

/** To be called before a connection takes memory: from now on what the connection holds is counted
 * in the accounts of its user and of its peer. @return 0 (also if its accounts are open already),
 * or -ENOMEM */
int smcr_account_open(struct smcr_conn *conn);
/** Bring the accounts up to date with what the connection holds now. */
void smcr_account_settle(struct smcr_conn *conn);
/** The connection holds nothing any more: close its accounts, if they are open. */
void smcr_account_close(struct smcr_conn *conn);
/* The following need a connection whose accounts are open. */
/** Does the connection's user, or its peer, hold little? Then the connection may use the part of
 * the budget that is set aside. */
bool smcr_account_is_small(const struct smcr_conn *conn);
/** Does the connection's user hold so much that SO_RCVBUF and SO_SNDBUF get it no larger
 * buffers? */
bool smcr_account_is_large(const struct smcr_conn *conn);
/** May the connection take memory? Not if its user and its peer hold much and only the part that is
 * set aside is free. */
bool smcr_account_allows(const struct smcr_conn *conn);
/** The connection gets no memory: count that and log it. */
void smcr_account_refused(struct smcr_conn *conn);
/** Bytes of the budget that are set aside for users and peers that hold little. */
uint64_t smcr_account_set_aside(const struct smcr_engine *engine);

#endif
