/* SPDX-License-Identifier: MIT */
#include "tests/sim/told.h"

#include <stdlib.h>
#include <utlist.h>

#include "tests/sim/host.h"
#include "tests/sim/world.h"

static struct told_group *find(const struct host *host, uint32_t id)
{
	struct told_group *group;
	DL_SEARCH_SCALAR(host->told, group, id, id);
	return group;
}

static void remove_group(struct host *host, struct told_group *group)
{
	DL_DELETE(host->told, group);
	free(group);
}

static bool is_up(const struct told_group *group, uint8_t link)
{
	return group && group->links[link / 8] & 1u << link % 8;
}

static void wrong(struct host *host, const struct smcr_event *event, const char *what)
{
	world_fail(host->world, "EVENT", "%s: event %d of link %u/%u: %s", host->name,
		   (int)event->type, event->lgr, event->link, what);
}

static void group_up(struct host *host, const struct smcr_event *event)
{
	struct told_group *group = calloc(1, sizeof(*group));
	if (!group)
		abort();
	host->counted.groups++;
	if (find(host, event->lgr))
		wrong(host, event, "it is up already");
	group->id = event->lgr;
	DL_APPEND(host->told, group);
}

static void link_up(struct host *host, const struct smcr_event *event, struct told_group *group)
{
	if (!group || is_up(group, event->link)) {
		wrong(host, event, group ? "it is up already" : "its group is not up");
		return;
	}
	group->links[event->link / 8] |= (uint8_t)(1u << event->link % 8);
}

static void link_down(struct host *host, const struct smcr_event *event, struct told_group *group)
{
	if (!is_up(group, event->link)) {
		wrong(host, event, "it is not up");
		return;
	}
	group->links[event->link / 8] &= (uint8_t) ~(1u << event->link % 8);
}

static void group_down(struct host *host, const struct smcr_event *event, struct told_group *group)
{
	if (group)
		remove_group(host, group);
	else
		wrong(host, event, "it is not up");
}

void told_event(struct host *host, const struct smcr_event *event)
{
	struct told_group *group = find(host, event->lgr);
	bool is_link = event->type != SMCR_EVENT_LGR_UP && event->type != SMCR_EVENT_LGR_DOWN;
	bool is_end = event->type != SMCR_EVENT_LGR_UP && event->type != SMCR_EVENT_LINK_UP;
	world_log(host->world, host->name, "event %d of link %u/%u: %s, %u connections",
		  (int)event->type, event->lgr, event->link, event->text, event->num_conns);
	if (!event->peer.family || is_link != (event->link && event->device) ||
	    is_end != (event->text[0] != '\0'))
		wrong(host, event, "peer, link, device or reason is missing or out of place");
	switch (event->type) {
	case SMCR_EVENT_LGR_UP: group_up(host, event); break;
	case SMCR_EVENT_LINK_UP: link_up(host, event, group); break;
	case SMCR_EVENT_LINK_FAILED:
	case SMCR_EVENT_LINK_DELETED: link_down(host, event, group); break;
	case SMCR_EVENT_LINK_REFUSED:
		if (is_up(group, event->link))
			wrong(host, event, "it was up");
		break;
	case SMCR_EVENT_LGR_DOWN: group_down(host, event, group); break;
	}
}

static void look_at_link(void *arg, const struct smcr_link_view *view)
{
	struct host *host = arg;
	if (view->num_conns && !find(host, view->lgr_id))
		world_fail(host->world, "EVENT", "%s: group %u has connections and is not up",
			   host->name, view->lgr_id);
}

void told_check(struct host *host)
{
	struct smcr_engine_view view;
	struct told_group *group;
	unsigned int groups = 0;
	DL_COUNT(host->told, group, groups);
	smcr_engine_get_view(host->engine, &view);
	if (groups > view.num_lgrs)
		world_fail(host->world, "EVENT", "%s: %u groups are up, of %u", host->name, groups,
			   view.num_lgrs);
	smcr_engine_each_link(host->engine, look_at_link, host);
}

void told_forget(struct host *host)
{
	while (host->told)
		remove_group(host, host->told);
}
