/* SPDX-License-Identifier: MIT */
/*
 * Which LLC exchange may run next (RFC 7609 3.5.5.3, group SER of the requirements). To start an
 * exchange, code leaves a mark and calls smcr_llc_kick(); this file reads the marks, from the timer
 * queue. So an exchange that a failed link has broken is found again when the group is stable
 * (SER-6).
 */
#include <errno.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"

void smcr_llc_kick(struct smcr_lgr *lgr)
{
	if (lgr->state != SMCR_LGR_TERMINATING && !smcr_timer_running(&lgr->llc->work))
		smcr_timer_start(lgr->engine, &lgr->llc->work, 0);
}

/** A link that has just failed is not freed yet: its failure is handled first, which kicks
 * again. */
static void free_gone_links(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || link->deletion.state != SMCR_DELETION_AGREED ||
		    smcr_timer_running(&link->fail_work))
			continue;
		const struct smcr_device *back = link->deletion.rnic_back ? link->device : NULL;
		smcr_link_free(link);
		if (back)
			smcr_llc_rnic_back(lgr, back);
	}
}

/** Has a link just failed? Its failure is handled before anything new begins. */
static bool failing(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && smcr_timer_running(&lgr->links[i]->fail_work))
			return true;
	return false;
}

/** Server: start an exchange about links, if one is due. @return true: started */
static bool start_link_exchange(struct smcr_lgr *lgr)
{
	smcr_llc_keep_asymmetric(lgr);
	smcr_drain_leave(lgr);
	struct smcr_link *gone = smcr_llc_deletion_due(lgr);
	struct smcr_link *carrier = smcr_lgr_any_link(lgr, gone);
	if (!carrier || smcr_llc_peer_rkey_runs(lgr)) /* SER-2 */
		return false;
	if (gone) {
		smcr_llc_order_deletion(lgr, gone, carrier);
		return true;
	}
	if (failing(lgr) || smcr_llc_rkey_unsettled(lgr))
		return false; /* the peer may know RMBs that ADD LINK would not list */
	return smcr_llc_start_add_link(lgr);
}

static void start_rkey_exchange(struct smcr_lgr *lgr)
{
	struct smcr_slab *slab;
	if (!smcr_lgr_any_link(lgr, NULL))
		return;
	if (!lgr->llc->rkey.hold)
		DL_FOREACH (lgr->rmbs, slab)
			if (smcr_llc_rkey_due(slab)) {
				smcr_llc_confirm_rkey(slab);
				return;
			}
	smcr_llc_delete_rkey(lgr);
}

/** Handle the queued requests of the peer, in order, until one of them begins an exchange
 * (SER-5). */
static void serve_queue(struct smcr_lgr *lgr)
{
	struct smcr_link *link;
	struct smcr_llc_msg msg;
	while (lgr->llc->step == SMCR_LLC_IDLE && lgr->state != SMCR_LGR_TERMINATING &&
	       smcr_llc_dequeue(lgr, &link, &msg))
		smcr_llc_dispatch(link, &msg);
}

static void on_work(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	(void)engine;
	if (lgr->state == SMCR_LGR_TERMINATING)
		return;
	smcr_link_post_waiting(lgr);
	free_gone_links(lgr);
	smcr_llc_add_link_resume(lgr);
	if (lgr->state == SMCR_LGR_FIRST_CONTACT)
		return;
	if (flow->step == SMCR_LLC_IDLE && !smcr_llc_alive(lgr)) {
		smcr_event_lgr_why(lgr, "its last link is gone");
		smcr_lgr_end(lgr, ECONNRESET);
		return;
	}
	if (flow->step != SMCR_LLC_IDLE) /* SER-2 */
		return;
	if (lgr->role == SMCR_ROLE_CLIENT)
		smcr_llc_send_add_link_notice(lgr);
	if (flow->rkey.step != SMCR_RKEY_IDLE)
		return;
	serve_queue(lgr);
	if (flow->step != SMCR_LLC_IDLE || lgr->state == SMCR_LGR_TERMINATING)
		return;
	if (lgr->role == SMCR_ROLE_CLIENT) {
		smcr_llc_ask_for_deletions(lgr);
		smcr_drain_leave(lgr);
	} else if (start_link_exchange(lgr)) {
		return;
	}
	start_rkey_exchange(lgr);
}

static void on_rkey_retry(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	(void)engine;
	lgr->llc->rkey.hold = false;
	smcr_llc_kick(lgr);
}

void smcr_llc_schedule_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow)
{
	smcr_timer_init(&flow->work, on_work, lgr);
	smcr_timer_init(&flow->rkey.retry, on_rkey_retry, lgr);
}
