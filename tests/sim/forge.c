/* SPDX-License-Identifier: MIT */
#include "tests/sim/forge.h"

#include <string.h>

#include "tests/sim/obs.h"
#include "tests/sim/wire.h"

size_t forge_proposal(struct world *w, uint8_t *msg, size_t len, size_t room)
{
	struct smcr_clc_msg m;
	struct smcr_clc_proposal *p = &m.proposal;
	if (!w->set.proposals.others || smcr_clc_decode(msg, len, &m) != 0 ||
	    m.type != SMCR_CLC_PROPOSAL || !p->offers_r_v2)
		return len;
	if (w->set.proposals.blank) {
		p->offers_r_v1 = false;
		memset(p->peer_id, 0, sizeof(p->peer_id));
		memset(p->gid, 0, sizeof(p->gid));
		memset(p->mac, 0, sizeof(p->mac));
	}
	if (w->set.proposals.release_0)
		p->v2.release = p->v2.max_conns = p->v2.max_links = 0;
	else
		p->v2.max_conns = w->set.proposals.max_conns;
	int n = smcr_clc_encode_proposal(p, msg, room);
	return n < 0 ? len : (size_t)n;
}

void forge_add_link_notice(struct world *w, const struct device *device)
{
	struct obs_group *group;
	struct obs_link *link;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK };
	struct smcr_llc_msg request = { .type = SMCR_LLC_REQUEST_ADD_LINK,
					.request_add_link = { .num_gids = 1 } };
	uint8_t data[SMCR_LLC_LEN];
	memcpy(request.request_add_link.gid[0], device->info.gid, SMCR_GID_LEN);
	memcpy(msg.add_link.mac, device->info.mac, SMCR_MAC_LEN);
	memcpy(msg.add_link.gid, device->info.gid, SMCR_GID_LEN);
	DL_FOREACH (w->observer->groups, group) {
		if (group->host[CLIENT] != device->host || group->ended || group->shaky)
			continue;
		DL_FOREACH (group->links, link) {
			if (!link->active[CLIENT] || !link->active[SERVER] || link->gone[CLIENT] ||
			    link->gone[SERVER] || link->qp[SERVER]->state >= QP_ERR)
				continue;
			group->asked += group_is_v2(group);
			if (group_encode(group, group_is_v2(group) ? &request : &msg, NULL, data,
					 sizeof(data)) == SMCR_LLC_LEN)
				wire_inject(link->qp[SERVER], data, sizeof(data));
			break;
		}
	}
}
