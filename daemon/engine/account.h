/* SPDX-License-Identifier: MIT */
/**
 * @file account.h
 * Who holds how much of the memory.
 */
#ifndef SMCRD_ENGINE_ACCOUNT_H
#define SMCRD_ENGINE_ACCOUNT_H

#include "daemon/engine/engine.h"

struct smcr_conn;
struct smcr_engine;

/** Before a connection takes memory: from now on what it holds is counted with its user's and its
 *  peer's. @return 0 (also if that is so already), or -ENOMEM */
int smcr_account_open(struct smcr_conn *conn);
/** Count what it holds now. */
void smcr_account_settle(struct smcr_conn *conn);
/** It gives everything back; does nothing if no account is open. */
void smcr_account_close(struct smcr_conn *conn);
/* Of a connection whose accounts are open: */
/** Does its user, or its peer, hold little? Then it may have what is set aside. */
bool smcr_account_is_small(const struct smcr_conn *conn);
/** Does its user hold so much that it gets no larger buffers than others? */
bool smcr_account_is_large(const struct smcr_conn *conn);
/** May it take memory that is free? */
bool smcr_account_allows(const struct smcr_conn *conn);
/** It gets no memory: count that and log it. */
void smcr_account_refused(struct smcr_conn *conn);
/** Bytes of the budget for those who hold little. */
uint64_t smcr_account_set_aside(const struct smcr_engine *engine);

#endif
