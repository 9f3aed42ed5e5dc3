/* SPDX-License-Identifier: MIT */
/*
 * What all exchanges about links have in common: the step and its timer, the loss of a link that
 * the exchange needs, the beginning and the end. What each step means is in the table of
 * llc_steps.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"
#include "daemon/smcr/llc_test_link.h"

/* ---- steps ---- */

static const struct smcr_llc_step_row *row_of(const struct smcr_lgr *lgr)
{
	return smcr_llc_step_row(lgr->llc->step);
}

void smcr_llc_await(struct smcr_lgr *lgr)
{
	const struct smcr_config *config = &lgr->engine->config;
	const struct smcr_llc_step_row *row = row_of(lgr);
	uint64_t time =
		lgr->state == SMCR_LGR_FIRST_CONTACT ? config->llc_fc_timeout : config->llc_timeout;
	bool limited = smcr_lgr_is_v2(lgr) && row->wait_v2 && !lgr->llc->repeated;
	if (limited && row->wait_v2 < time)
		time = row->wait_v2;
	smcr_timer_start(lgr->engine, &lgr->llc->timer, time); /* ERR-15 */
}

static void set_step(struct smcr_lgr *lgr, enum smcr_llc_step step, struct smcr_link *carrier,
		     struct smcr_link *subject)
{
	struct smcr_llc_flow *flow = lgr->llc;
	flow->step = step;
	flow->entered = lgr->engine->now;
	flow->carrier = carrier;
	flow->subject = subject;
	if (flow->proving)
		smcr_path_stop(flow->proving);
	flow->proving = NULL;
	smcr_timer_stop(lgr->engine, &flow->send_timer);
	flow->cont_held = flow->cont_overdue = flow->add_overdue = false;
	flow->repeated = 0;
}

void smcr_llc_enter(struct smcr_lgr *lgr, enum smcr_llc_step step, struct smcr_link *carrier,
		    struct smcr_link *subject)
{
	set_step(lgr, step, carrier, subject);
	smcr_llc_await(lgr);
}

/** End the exchange: tell its outcome, and go to IDLE. */
static void leave(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why)
{
	row_of(lgr)->on_end(lgr, outcome, why);
	set_step(lgr, SMCR_LLC_IDLE, NULL, NULL);
	smcr_timer_stop(lgr->engine, &lgr->llc->timer);
	smcr_llc_kick(lgr);
}

void smcr_llc_end(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why)
{
	leave(lgr, outcome, why);
	smcr_llc_first_contact_over(lgr);
}

void smcr_llc_server_gave_up(struct smcr_lgr *lgr, const struct smcr_link *keep)
{
	struct smcr_llc_flow *flow = lgr->llc;
	bool half_built = smcr_llc_exchange_of(flow->step) == SMCR_EXCHANGE_ADD_LINK;
	if (half_built && flow->subject != keep)
		smcr_llc_link_agreed_gone(flow->subject);
	leave(lgr, SMCR_LLC_GIVEN_UP, "the server has given it up");
}

/** The awaited message has not come in time (C.7.1). */
static void on_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	const struct smcr_llc_step_row *row = row_of(lgr);
	const struct smcr_llc_recovery *recovery =
		lgr->state == SMCR_LGR_FIRST_CONTACT ? &row->first : &row->later;
	(void)engine;
	if (row->spare(lgr))
		return;
	if (recovery->row != SMCR_NUM_ROWS)
		smcr_row(lgr, recovery->row);
	recovery->act(lgr);
}

/* ---- is the carrier at fault? ---- */

/*
 * ADD LINK, its CONTINUATION or DELETE LINK is not answered in time. By the RFC the carrier counts
 * as failed then (ERR-26, ERR-27, ERR-30, ERR-32, ERR-33, ERR-36). But a deployed peer may be
 * delayed: Linux holds the group's lock while it waits until nothing is outstanding on the link and
 * its queue pair is gone. With rdma_rxe that may take as long as the path or the interface is down.
 * So in the deployed dialect the carrier is tested, and stays if it answers.
 */
bool smcr_llc_carrier_may_stay(struct smcr_link *carrier)
{
	if (carrier->lgr->dialect != SMCR_DIALECT_DEPLOYED || !smcr_link_usable(carrier))
		return false;
	smcr_llc_test_link(carrier);
	return true;
}

void smcr_llc_link_answers(struct smcr_link *link)
{
	const struct smcr_lgr *lgr = link->lgr;
	if (lgr->llc->carrier == link)
		row_of(lgr)->on_carrier_answers(link->lgr);
	smcr_llc_forget_new_links(link);
}

/* ---- a failed link ---- */

/** The link that carries the exchange has failed. */
static void carrier_lost(struct smcr_lgr *lgr)
{
	if (lgr->state == SMCR_LGR_FIRST_CONTACT)
		smcr_llc_first_contact_link_lost(lgr);
	else
		row_of(lgr)->on_carrier_lost(lgr);
}

/** The link that the exchange is about has failed. */
static void subject_lost(struct smcr_lgr *lgr)
{
	if (!lgr->fc.declining) /* otherwise the first contact ends, with all links */
		row_of(lgr)->on_subject_lost(lgr);
}

bool smcr_llc_alive(const struct smcr_lgr *lgr)
{
	if (smcr_lgr_any_link(lgr, NULL))
		return true;
	/* CONFIRM LINK comes on the new link, so the carrier is not needed. */
	return row_of(lgr)->awaited.on == SMCR_ON_SUBJECT && smcr_link_usable(lgr->llc->subject);
}

void smcr_llc_link_lost(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (smcr_timer_running(&lgr->end_work))
		return;
	lgr->path_dead = lgr->path_dead || link->path_dead;
	smcr_llc_drop_queued(link);
	smcr_llc_peer_rkey_lost(link);
	if (flow->rkey.link == link)
		smcr_llc_rkey_broken(lgr);
	bool subject = flow->subject == link;
	if (flow->carrier == link)
		carrier_lost(lgr);
	else if (subject)
		subject_lost(lgr);
	if (smcr_timer_running(&lgr->end_work) || lgr->fc.declining)
		return;
	if (lgr->state != SMCR_LGR_TERMINATING && !smcr_llc_alive(lgr)) {
		smcr_event_lgr_why(lgr, "its last link has failed: %s", link->last_error);
		smcr_lgr_end(lgr, ECONNRESET); /* FO-13 */
		return;
	}
	smcr_llc_ask_again(link);
	if (!subject && lgr->state != SMCR_LGR_TERMINATING)
		smcr_llc_delete_failed(link);
}

/* ---- life ---- */

int smcr_llc_init(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = calloc(1, sizeof(*flow));
	if (!flow)
		return -ENOMEM;
	smcr_timer_init(&flow->timer, on_timer, lgr);
	smcr_llc_first_contact_init(lgr, flow);
	smcr_llc_schedule_init(lgr, flow);
	smcr_llc_rkey_init(lgr, flow);
	smcr_llc_links_init(lgr, flow);
	lgr->llc = flow;
	return 0;
}

void smcr_llc_free(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	smcr_timer_stop(lgr->engine, &flow->timer);
	smcr_timer_stop(lgr->engine, &flow->send_timer);
	smcr_timer_stop(lgr->engine, &flow->work);
	smcr_timer_stop(lgr->engine, &flow->rkey.retry);
	smcr_timer_stop(lgr->engine, &flow->rkey.timer);
	smcr_timer_stop(lgr->engine, &flow->peer_rkey.timer);
	smcr_timer_stop(lgr->engine, &flow->withdrawal.timer);
	smcr_timer_stop(lgr->engine, &flow->add.retry);
	free(flow);
	lgr->llc = NULL;
}

void smcr_llc_link_init(struct smcr_link *link)
{
	smcr_llc_delete_link_init(link);
	smcr_llc_test_link_init(link);
}

/** The link is being freed: forget all pointers to it. */
void smcr_llc_link_free(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	smcr_timer_stop(lgr->engine, &link->test_timer);
	if (flow->carrier == link)
		flow->carrier = NULL;
	if (flow->subject == link)
		flow->subject = NULL;
	if (flow->proving == link)
		flow->proving = NULL;
	if (flow->rkey.link == link)
		smcr_llc_rkey_broken(lgr);
	smcr_llc_peer_rkey_lost(link);
	smcr_llc_drop_queued(link);
	smcr_llc_delete_link_free(link);
}
