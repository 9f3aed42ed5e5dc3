/* SPDX-License-Identifier: MIT */
/**
 * @file keepalive.h
 * Probes of idle connections and links (RFC 7609 4.5.3).
 */
#ifndef SMCRD_ENGINE_KEEPALIVE_H
#define SMCRD_ENGINE_KEEPALIVE_H

#include "daemon/engine/engine.h"

struct smcr_conn;
struct smcr_link;

void smcr_keepalive_conn_init(struct smcr_conn *conn);
void smcr_keepalive_link_init(struct smcr_link *link);
/** The link is active: probe it whenever it has been idle for long. */
void smcr_keepalive_link_start(struct smcr_link *link);
/** Probe an active link from the timer queue: the caller is in the middle of something. */
void smcr_keepalive_link_probe(struct smcr_link *link);
/** Until smcr_keepalive_link_start() the link is not probed. */
void smcr_keepalive_link_stop(struct smcr_link *link);

#endif
