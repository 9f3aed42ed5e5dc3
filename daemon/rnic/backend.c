/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/backend.h"

#include <stdio.h>
#include <string.h>

int rnic_fail(const struct rnic *rnic, int error, const char *what, char *ret_error)
{
	snprintf(ret_error, RNIC_ERROR_LEN, "rnic %s: cannot %s: %s", rnic->info.name, what,
		 strerror(-error));
	return error;
}

static bool same_identity(const struct rnic_info *a, const struct rnic_info *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->netdev, b->netdev) == 0 &&
	       a->ifindex == b->ifindex && a->num_gids == b->num_gids &&
	       a->max_path_mtu == b->max_path_mtu && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0 &&
	       memcmp(a->gids, b->gids, a->num_gids * sizeof(a->gids[0])) == 0 &&
	       a->num_addrs == b->num_addrs &&
	       memcmp(a->addrs, b->addrs, a->num_addrs * sizeof(a->addrs[0])) == 0;
}

void rnic_event_due(struct rnic *rnic, enum rnic_event_type type)
{
	rnic->events |= 1u << type;
}

void rnic_changed_since(struct rnic *rnic, const struct rnic_info *before)
{
	bool active = rnic->info.state == RNIC_PORT_ACTIVE;
	if (!same_identity(before, &rnic->info))
		rnic_event_due(rnic, RNIC_EVENT_CHANGED);
	if (before->state != rnic->info.state)
		rnic_event_due(rnic, active ? RNIC_EVENT_PORT_ACTIVE : RNIC_EVENT_PORT_DOWN);
}

void rnic_tell_events(struct rnic *rnic)
{
	for (unsigned int type = 0; rnic->events && !rnic->closed; type++) {
		if (!(rnic->events & 1u << type))
			continue;
		rnic->events &= ~(1u << type);
		struct rnic_event event = { .type = (enum rnic_event_type)type };
		if (rnic->params.on_event)
			rnic->params.on_event(rnic->params.event_ctx, rnic, &event);
	}
}
