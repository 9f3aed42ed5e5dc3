/* SPDX-License-Identifier: MIT */
/*
 * Lost wake-ups. Connections and groups wait for space on a link, a completion, or the end of an
 * exchange, and the code that brings it has to wake them. If it forgets that, something else often
 * wakes them later, and the end of a run does not show the mistake. Here it is found as soon as
 * they have waited for a while.
 */
#include "tests/sim/woken.h"

#include "daemon/smcr/data.h"
#include "daemon/smcr/llc.h"

/** Asking takes time, so it is not done between events that follow each other closely. */
#define A_WHILE (1 * MSEC)

/** A sum that changes when something is posted in the group, or a link comes or goes. */
static uint64_t said_in(const struct smcr_lgr *lgr)
{
	uint64_t sum = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			sum += lgr->links[i]->ref + lgr->links[i]->tx_next;
	return sum;
}

/** Does the connection do anything when it is asked to send? It may wait while its link is broken:
 * a timer will move it to another link. */
static void ask_connection(struct host *host, struct smcr_conn *conn)
{
	const struct smcr_link *link = conn->tx.link;
	if (conn->phase != SMCR_PHASE_OPEN || (link && !smcr_link_works(link)))
		return;
	const uint64_t said = said_in(conn->lgr);
	const enum smcr_conn_state state = conn->state;
	const bool moving = conn->tx.moving, waiting = conn->tx.waiting;
	smcr_tx_push(conn);
	if (said_in(conn->lgr) != said || conn->state != state || conn->tx.moving != moving ||
	    conn->tx.waiting != waiting)
		world_fail(host->world, "ENGINE-WAKE",
			   "%s: connection %08x in state %d could go on since %llu us, but was not "
			   "woken",
			   host->name, conn->token, (int)state,
			   (unsigned long long)host->engine->now);
}

/** Does the group do anything when it is asked to go on?
 * @return false: it does, so it was not woken; it may be gone by now */
static bool ask_group(struct host *host, struct smcr_lgr *lgr)
{
	struct smcr_engine *engine = host->engine;
	const uint32_t id = lgr->id;
	const uint64_t said = said_in(lgr);
	const enum smcr_llc_step step = lgr->llc->step;
	smcr_llc_kick(lgr);
	smcr_engine_run(engine, engine->now);
	DL_SEARCH_SCALAR(engine->lgrs, lgr, id, id);
	if (lgr && said_in(lgr) == said && lgr->llc->step == step)
		return true;
	world_fail(host->world, "ENGINE-WAKE",
		   "%s: group %u in step %d could go on since %llu us, but was not woken",
		   host->name, id, (int)step, (unsigned long long)engine->now);
	return false;
}

void woken_check(struct host *host)
{
	struct smcr_engine *engine = host->engine;
	struct smcr_conn *conn;
	struct smcr_lgr *lgr;
	if (host->world->clock.now < engine->now + A_WHILE)
		return;
	DL_FOREACH (engine->conns, conn)
		ask_connection(host, conn);
	if (smcr_engine_next_deadline(engine) <= engine->now)
		return; /* groups that were woken wait for a timer that is due */
	DL_FOREACH (engine->lgrs, lgr)
		if (lgr->state != SMCR_LGR_TERMINATING && !ask_group(host, lgr))
			return;
}
