/* SPDX-License-Identifier: MIT */
/**
 * @file events.h
 * What operators are told of link groups and links.
 */
#ifndef SMCRD_ENGINE_EVENTS_H
#define SMCRD_ENGINE_EVENTS_H

#include "daemon/engine/engine.h"

struct smcr_lgr;
struct smcr_link;

/** Of a first contact that has succeeded: tell of the group and its links. */
void smcr_event_lgr_up(struct smcr_lgr *lgr);
/** Note why it ends; the first reason counts. To be called before the end begins. */
void smcr_event_lgr_why(struct smcr_lgr *lgr, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same, of a DELETE LINK of the peer with a reason code. */
void smcr_event_lgr_why_peer(struct smcr_lgr *lgr, const char *what, uint32_t reason);
void smcr_event_lgr_down(struct smcr_lgr *lgr, unsigned int num_reset);
void smcr_event_link_up(struct smcr_link *link);
/** As link->last_error says. `num_moved`: connections that write on another one from now on. */
void smcr_event_link_failed(struct smcr_link *link, unsigned int num_moved);
/** Its deletion in good order has begun. `reason`: of DELETE LINK */
void smcr_event_link_deleted(struct smcr_link *link, unsigned int num_moved, uint32_t reason);

#endif
