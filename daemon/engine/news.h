/* SPDX-License-Identifier: MIT */
/**
 * @file news.h
 * What happens to link groups and links, for whoever in the engine is interested: commands that
 * wait for an outcome (command.c), and what operators are told (events.c). The one who makes it
 * happen tells it here, once, and knows none of them.
 */
#ifndef SMCRD_ENGINE_NEWS_H
#define SMCRD_ENGINE_NEWS_H

#include "daemon/engine/engine.h"

struct smcr_lgr;
struct smcr_link;

enum smcr_news_type {
	/* Of a group. */
	SMCR_NEWS_LGR_UP,     /* its first contact has succeeded */
	SMCR_NEWS_LGR_DOWN,   /* it ends: `num_conns` connections were reset */
	SMCR_NEWS_LGR_GONE,   /* it is being freed; its links follow */
	SMCR_NEWS_ADD_FAILED, /* no link was added: `why` */
	SMCR_NEWS_CONN_MOVED, /* a connection is not moving any more, or has left the group */
	/* Of a link. */
	SMCR_NEWS_LINK_ADDED,    /* it is active, beside others */
	SMCR_NEWS_LINK_KEPT,     /* it is used again: its deletion was taken back */
	SMCR_NEWS_LINK_ANSWERED, /* TEST LINK, after `rtt` microseconds */
	SMCR_NEWS_LINK_BROKEN,   /* its last_error says why. LINK_FAILED follows, if it is there */
	SMCR_NEWS_LINK_FAILED,   /* `num_conns` connections write on others now */
	SMCR_NEWS_LINK_DELETED,  /* the same of one that goes in good order, for `reason` */
	SMCR_NEWS_LINK_GONE,     /* it is being freed */
};

/** Zero where the type says nothing of a member. */
struct smcr_news {
	enum smcr_news_type type;
	struct smcr_lgr *lgr;   /* set by smcr_news_of_*() */
	struct smcr_link *link; /* likewise; NULL: it is about the group */
	unsigned int num_conns;
	uint32_t reason; /* of DELETE LINK */
	uint64_t rtt;
	const char *why; /* in words */
};

/** Tell who is interested, at once. None of them does anything to the group or the link. */
void smcr_news_of_lgr(struct smcr_lgr *lgr, struct smcr_news news);
void smcr_news_of_link(struct smcr_link *link, struct smcr_news news);

#endif
