/* SPDX-License-Identifier: MIT */
/**
 * @file events.h
 * What operators are told of link groups and links.
 */
#ifndef SMCRD_ENGINE_EVENTS_H
#define SMCRD_ENGINE_EVENTS_H

#include "daemon/engine/engine.h"
#include "daemon/engine/news.h"

struct smcr_lgr;

/** Something has happened that operators may be told of. */
void smcr_event_hear(const struct smcr_news *news);
/** Note why it ends; the first reason counts. To be called before the end begins. */
void smcr_event_lgr_why(struct smcr_lgr *lgr, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same, of a DELETE LINK of the peer with a reason code. */
void smcr_event_lgr_why_peer(struct smcr_lgr *lgr, const char *what, uint32_t reason);

#endif
