/* SPDX-License-Identifier: MIT */
/* The events that operators are told: when link groups and links come, and when and why they go. */
#include <stdarg.h>
#include <stdio.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/probes.h"
#include "proto/smcr/text.h"

static void tell(const struct smcr_lgr *lgr, struct smcr_event event)
{
	const struct smcr_engine *engine = lgr->engine;
	if (engine->silent)
		return;
	event.lgr = lgr->id;
	event.role = lgr->role;
	event.peer = lgr->peer;
	engine->ops.event(engine->ops.event_ctx, &event);
}

static void tell_of_link(const struct smcr_link *link, struct smcr_event event)
{
	event.link = link->number;
	event.device = link->device_name;
	tell(link->lgr, event);
}

/* ---- why a group ends ---- */

void smcr_event_lgr_why(struct smcr_lgr *lgr, const char *format, ...)
{
	va_list args;
	/* A first contact may still succeed. */
	if (*lgr->why || lgr->state == SMCR_LGR_FIRST_CONTACT)
		return;
	va_start(args, format);
	vsnprintf(lgr->why, sizeof(lgr->why), format, args);
	va_end(args);
}

void smcr_event_lgr_why_peer(struct smcr_lgr *lgr, const char *what, uint32_t reason)
{
	/* A daemon that stops sends the same reason as an operator's command. */
	if (reason == SMCR_LLC_DEL_OPERATOR)
		smcr_event_lgr_why(lgr, "%s: an operator there wants it, or its SMC-R ends", what);
	else
		smcr_event_lgr_why(lgr, "%s: %s", what, smcr_llc_delete_text(reason));
}

/* ---- links ---- */

/* The link is told of as up only after its group, and not at all with a group that ends. */
static void link_up(struct smcr_link *link)
{
	if (!link->lgr->told_up || link->told == SMCR_TOLD_UP)
		return;
	link->told = SMCR_TOLD_UP;
	link->lgr->engine->stats.links_up++;
	tell_of_link(link, (struct smcr_event){ .type = SMCR_EVENT_LINK_UP, .text = "" });
}

static void link_down(struct smcr_link *link, enum smcr_event_type type, unsigned int num_moved,
		      const char *why)
{
	struct smcr_engine_stats *stats = &link->lgr->engine->stats;
	const bool failed = type == SMCR_EVENT_LINK_FAILED;
	if (failed && link->told != SMCR_TOLD_DOWN)
		smcr_probe_link_down(link, why);
	if (link->told == SMCR_TOLD_UP && link->lgr->told_up) {
		stats->links_failed += failed;
		stats->links_deleted += !failed;
		stats->failovers += failed && num_moved > 0;
		tell_of_link(link, (struct smcr_event){
					   .type = type, .num_conns = num_moved, .text = why });
	}
	link->told = SMCR_TOLD_DOWN;
}

static void link_failed(struct smcr_link *link, unsigned int num_moved)
{
	if (link->told == SMCR_TOLD_NOTHING) {
		link->lgr->engine->stats.links_refused++;
		tell_of_link(link, (struct smcr_event){ .type = SMCR_EVENT_LINK_REFUSED,
							.text = link->last_error });
	}
	link_down(link, SMCR_EVENT_LINK_FAILED, num_moved, link->last_error);
}

static void link_deleted(struct smcr_link *link, unsigned int num_moved, uint32_t reason)
{
	if (link->state == SMCR_LINK_FAILED)
		link_failed(link, num_moved);
	else
		link_down(link, SMCR_EVENT_LINK_DELETED, num_moved, smcr_llc_delete_text(reason));
}

/* ---- link groups ---- */

static void lgr_up(struct smcr_lgr *lgr)
{
	lgr->told_up = true;
	lgr->engine->stats.groups_up++;
	tell(lgr, (struct smcr_event){ .type = SMCR_EVENT_LGR_UP, .text = "" });
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->state == SMCR_LINK_ACTIVE)
			link_up(lgr->links[i]);
}

static void lgr_down(struct smcr_lgr *lgr, unsigned int num_reset)
{
	if (!lgr->told_up)
		return;
	lgr->told_up = false;
	lgr->engine->stats.groups_down++;
	tell(lgr, (struct smcr_event){
			  .type = SMCR_EVENT_LGR_DOWN, .num_conns = num_reset, .text = lgr->why });
}

void smcr_event_hear(const struct smcr_news *news)
{
	switch (news->type) {
	case SMCR_NEWS_LGR_UP: lgr_up(news->lgr); break;
	case SMCR_NEWS_LGR_DOWN: lgr_down(news->lgr, news->num_conns); break;
	case SMCR_NEWS_LINK_ADDED:
	case SMCR_NEWS_LINK_KEPT: link_up(news->link); break;
	case SMCR_NEWS_LINK_FAILED: link_failed(news->link, news->num_conns); break;
	case SMCR_NEWS_LINK_DELETED: link_deleted(news->link, news->num_conns, news->reason); break;
	case SMCR_NEWS_LGR_GONE:
	case SMCR_NEWS_ADD_FAILED:
	case SMCR_NEWS_CONN_MOVED:
	case SMCR_NEWS_LINK_ANSWERED:
	case SMCR_NEWS_LINK_BROKEN:
	case SMCR_NEWS_LINK_GONE: break;
	}
}
