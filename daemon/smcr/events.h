/* SPDX-License-Identifier: MIT */
/**
 * @file events.h
 * The events of link groups and links that operators are told.
 */
#ifndef SMCRD_SMCR_EVENTS_H
#define SMCRD_SMCR_EVENTS_H

#include "daemon/smcr/engine.h"
#include "daemon/smcr/news.h"

struct smcr_lgr;

/** Hear news that operators may have to be told. */
void smcr_event_hear(const struct smcr_news *news);
/** Note why the group ends; the first reason counts. To be called before the end begins. */
void smcr_event_lgr_why(struct smcr_lgr *lgr, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same for a DELETE LINK of the peer with a reason code. */
void smcr_event_lgr_why_peer(struct smcr_lgr *lgr, const char *what, uint32_t reason);

#endif
