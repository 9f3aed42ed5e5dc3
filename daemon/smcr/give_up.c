/* SPDX-License-Identifier: MIT */
/* May a device give up a queue pair whose peer is silent? */
#include "daemon/smcr/internal.h"

/** Has a packet of the peer come on this link lately? Assumed so if the device cannot say. */
static bool heard_lately(const struct smcr_link *link)
{
	const struct smcr_engine *engine = link->lgr->engine;
	uint64_t since = engine->ops.rdma->qp_heard(engine->ops.rdma_ctx, link->qp);
	return since == UINT64_MAX ||
	       since < (uint64_t)engine->config.retry_alternative_ms * 1000 / 2;
}

/** Has the group no other link, or another link that is alive? Silent ones are probed, as they may
 * only have been idle. */
static bool is_alone_or_has_alternative(const struct smcr_link *link)
{
	bool any = false, alive = false;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *other = link->lgr->links[i];
		if (!other || other == link || !smcr_link_works(other))
			continue;
		any = true;
		if (heard_lately(other))
			alive = true;
		else
			smcr_keepalive_link_probe(other);
	}
	return alive || !any;
}

bool smcr_engine_may_give_up(struct smcr_engine *engine, uint64_t link_ref, uint64_t silent_us)
{
	const struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	return !link || is_alone_or_has_alternative(link) ||
	       silent_us >= (uint64_t)engine->config.retry_ms * 1000;
}
