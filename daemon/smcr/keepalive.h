/* SPDX-License-Identifier: MIT */
/**
 * @file keepalive.h
 * Probes of idle connections and links (RFC 7609 4.5.3).
 */
#ifndef SMCRD_SMCR_KEEPALIVE_H
#define SMCRD_SMCR_KEEPALIVE_H

#include "daemon/smcr/engine.h"

struct smcr_conn;
struct smcr_link;

void smcr_keepalive_conn_init(struct smcr_conn *conn);
void smcr_keepalive_link_init(struct smcr_link *link);
/** The link is active: from now on probe it whenever it has been idle for a while. */
void smcr_keepalive_link_start(struct smcr_link *link);
/** Probe an active link, from the timer queue and not inside this call. */
void smcr_keepalive_link_probe(struct smcr_link *link);
/** Stop probing the link until smcr_keepalive_link_start(). */
void smcr_keepalive_link_stop(struct smcr_link *link);

#endif
