/* SPDX-License-Identifier: MIT */
/**
 * @file news.h
 * News of link groups and links, for those in the engine that listen: commands that wait for an
 * outcome (command.c), and the events for operators (events.c). The code that makes something
 * happen tells it once, here, and does not know the listeners.
 */
#ifndef SMCRD_SMCR_NEWS_H
#define SMCRD_SMCR_NEWS_H

#include "daemon/smcr/engine.h"

struct smcr_lgr;
struct smcr_link;

enum smcr_news_type {
	/* About a group. */
	SMCR_NEWS_LGR_UP,     /* the first contact has succeeded */
	SMCR_NEWS_LGR_DOWN,   /* the group ends: `num_conns` connections were reset */
	SMCR_NEWS_LGR_GONE,   /* the group is being freed; LINK_GONE of its links follows */
	SMCR_NEWS_ADD_FAILED, /* a link could not be added: `why` */
	SMCR_NEWS_CONN_MOVED, /* a connection is not moving any more, or has left the group */
	/* About a link. */
	SMCR_NEWS_LINK_ADDED,    /* the link is active, and not the group's first */
	SMCR_NEWS_LINK_KEPT,     /* the link is used again: its deletion was taken back */
	SMCR_NEWS_LINK_ANSWERED, /* the peer has answered TEST LINK, after `rtt` microseconds */
	SMCR_NEWS_LINK_BROKEN,   /* last_error says why. LINK_FAILED follows, if it still exists */
	SMCR_NEWS_LINK_FAILED,   /* `num_conns` of its connections write on other links now */
	SMCR_NEWS_LINK_DELETED,  /* the same, but deleted in good order, for `reason` */
	SMCR_NEWS_LINK_GONE,     /* the link is being freed */
};

/** Members that the type does not mention are zero. */
struct smcr_news {
	enum smcr_news_type type;
	struct smcr_lgr *lgr;   /* set by smcr_news_of_*() */
	struct smcr_link *link; /* likewise; NULL: the news is about the group */
	unsigned int num_conns;
	uint32_t reason; /* of DELETE LINK */
	uint64_t rtt;
	const char *why; /* in words */
};

/** Tell the listeners at once. None of them changes the group or the link. */
void smcr_news_of_lgr(struct smcr_lgr *lgr, struct smcr_news news);
void smcr_news_of_link(struct smcr_link *link, struct smcr_news news);

#endif
