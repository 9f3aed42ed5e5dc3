/* SPDX-License-Identifier: MIT */
#include "daemon/smcr/news.h"

#include "daemon/smcr/internal.h"

/** In this order. */
static void (*const observers[])(const struct smcr_news *news) = {
	smcr_event_hear,
	smcr_command_hear,
};

static void tell(const struct smcr_news *news)
{
	for (size_t i = 0; i < sizeof(observers) / sizeof(observers[0]); i++)
		observers[i](news);
}

void smcr_news_of_lgr(struct smcr_lgr *lgr, struct smcr_news news)
{
	news.lgr = lgr;
	tell(&news);
}

void smcr_news_of_link(struct smcr_link *link, struct smcr_news news)
{
	news.lgr = link->lgr;
	news.link = link;
	tell(&news);
}
