/* SPDX-License-Identifier: MIT */
/* Another configuration for an engine that is at work. */
#include <string.h>

#include "daemon/smcr/llc_links.h"

static void restart(struct smcr_engine *engine, struct smcr_timer *timer, uint64_t delay)
{
	if (smcr_timer_running(timer))
		smcr_timer_start(engine, timer, delay);
}

static void restart_slabs(struct smcr_engine *engine, struct smcr_slab *slabs)
{
	struct smcr_slab *slab;
	DL_FOREACH (slabs, slab) {
		restart(engine, &slab->idle, engine->config.rmb_idle_timeout);
		restart(engine, &slab->sweep, engine->config.rmb_idle_timeout);
	}
}

void smcr_engine_configure(struct smcr_engine *engine, const struct smcr_config *config)
{
	const struct smcr_config before = engine->config;
	struct smcr_config *now = &engine->config;
	struct smcr_lgr *lgr;
	*now = smcr_config_fill(config);
	memcpy(now->peer_id, before.peer_id, sizeof(now->peer_id));
	memcpy(now->host_name, before.host_name, sizeof(now->host_name));
	DL_FOREACH (engine->lgrs, lgr) {
		if (now->lgr_idle_timeout != before.lgr_idle_timeout)
			restart(engine, &lgr->idle, now->lgr_idle_timeout);
		if (now->rmb_idle_timeout != before.rmb_idle_timeout) {
			restart_slabs(engine, lgr->rmbs);
			restart_slabs(engine, lgr->sndbufs);
		}
		for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
			if (lgr->links[i] && now->test_link_interval != before.test_link_interval)
				smcr_keepalive_link_stop(lgr->links[i]);
		smcr_llc_links_changed(lgr); /* patience with links; probes begin again */
	}
}
