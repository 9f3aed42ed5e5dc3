/* SPDX-License-Identifier: MIT */
/*
 * Lost wake-ups. Room on a link, a completion, the end of an exchange let others go on, and each
 * place where that happens has to wake them. One that does not is seen in the end of a run only if
 * nothing else ever wakes them; here it is seen as soon as they have waited for a while.
 */
#include "tests/sim/woken.h"

#include "daemon/engine/data.h"
#include "daemon/engine/llc.h"

/** To ask takes time: where events follow each other closely the next one would wake them. */
#define A_WHILE (1 * MSEC)

/** Other after anything was posted in the group, or a link has come or gone. */
static uint64_t said_in(const struct smcr_lgr *lgr)
{
	uint64_t sum = 0;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			sum += lgr->links[i]->ref + lgr->links[i]->tx_next;
	return sum;
}

/** The failure of a link is dealt with from the timer queue: until then it may be waited for. */
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
			   "%s: connection %08x in state %d can go on since %llu us, and was not "
			   "woken",
			   host->name, conn->token, (int)state,
			   (unsigned long long)host->engine->now);
}

/** @return false: it was not woken, and is perhaps gone by now */
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
		   "%s: group %u in step %d can go on since %llu us, and was not woken", host->name,
		   id, (int)step, (unsigned long long)engine->now);
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
		return; /* who has been woken waits for its turn */
	DL_FOREACH (engine->lgrs, lgr)
		if (lgr->state != SMCR_LGR_TERMINATING && !ask_group(host, lgr))
			return;
}
