/* SPDX-License-Identifier: MIT */
/**
 * @file denied.h
 * Writes that the peer's RNIC denies, and the connections that therefore have to hear from the peer
 * before they write.
 */
#ifndef SMCRD_SMCR_DENIED_H
#define SMCRD_SMCR_DENIED_H

struct smcr_conn;
struct smcr_lgr;

void smcr_denied_init(struct smcr_conn *conn);
/** The peer's RNIC has denied a write on a link of the group that was in use. Frees nothing. */
void smcr_denied_write(struct smcr_lgr *lgr);
/** The connection opens: hold its data back if the group is wary. To be called before anything is
 * posted for the connection. */
void smcr_denied_open(struct smcr_conn *conn);
/** A CDC of the peer came for the connection. Its data may be written from the next smcr_tx_push()
 * on. */
void smcr_denied_heard(struct smcr_conn *conn);

#endif
