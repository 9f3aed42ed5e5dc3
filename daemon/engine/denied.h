/* SPDX-License-Identifier: MIT */
/**
 * @file denied.h
 * Writes that the peer's RNIC denies: who writes nothing more before the peer has said something.
 */
#ifndef SMCRD_ENGINE_DENIED_H
#define SMCRD_ENGINE_DENIED_H

struct smcr_conn;
struct smcr_lgr;

void smcr_denied_init(struct smcr_conn *conn);
/** The peer's RNIC has denied a write on a link of the group that was in use. Frees nothing. */
void smcr_denied_write(struct smcr_lgr *lgr);
/** The connection opens: may it write at once? Before anything is posted for it. */
void smcr_denied_open(struct smcr_conn *conn);
/** The peer has said something about the connection. What was held back may be written, at the next
 *  smcr_tx_push(). */
void smcr_denied_heard(struct smcr_conn *conn);

#endif
