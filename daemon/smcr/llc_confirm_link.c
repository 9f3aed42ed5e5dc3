/* SPDX-License-Identifier: MIT */
/*
 * CONFIRM LINK proves that a new link works both ways (RFC 7609 3.5.1.4, 3.5.1.5, A.3.1). Two
 * exchanges use it: first contact for link 1 (llc_first_contact.c), and ADD LINK for every other
 * link (llc_add_link.c). This file has what both have in common.
 */
#include <string.h>

#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_confirm_link.h"
#include "daemon/smcr/llc_first_contact.h"

/* ---- the message ---- */

struct smcr_llc_msg smcr_llc_confirm_link_of(const struct smcr_link *link, bool reply,
					     uint8_t max_links)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_LINK, .reply = reply };
	struct smcr_llc_confirm_link *c = &msg.confirm_link;
	memcpy(c->mac, link->local_mac, SMCR_MAC_LEN);
	memcpy(c->gid, link->local_gid, SMCR_GID_LEN);
	c->qpn = link->qpn;
	c->link_number = link->number;
	c->link_user_id = link->uid;
	c->max_links = max_links;
	if (smcr_lgr_is_v2(link->lgr) && link->lgr->release)
		c->max_conns = link->lgr->max_conns;
	if (smcr_lgr_is_v2(link->lgr) || link->lgr->dialect_policy != SMCR_DIALECT_FORCE_RFC)
		c->flags = SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER;
	return msg;
}

bool smcr_llc_right_sender(const struct smcr_link *link, const struct smcr_llc_confirm_link *c)
{
	return c->qpn == link->peer_qpn && !memcmp(c->gid, link->peer_gid, SMCR_GID_LEN) &&
	       !memcmp(c->mac, link->peer_mac, SMCR_MAC_LEN);
}

bool smcr_llc_repeat_confirm(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	bool added = smcr_llc_step_row(flow->step)->sent.on == SMCR_ON_SUBJECT;
	struct smcr_link *link = added ? flow->subject : flow->carrier;
	if (!smcr_lgr_is_v2(lgr) || flow->repeated)
		return false;
	struct smcr_llc_msg msg = smcr_llc_confirm_link_of(link, false, lgr->max_links);
	flow->repeated = 1;
	if (smcr_link_usable(link))
		smcr_llc_send(link, &msg);
	smcr_llc_await(lgr);
	return true;
}

void smcr_llc_set_active(struct smcr_link *link, const struct smcr_llc_confirm_link *peer)
{
	link->peer_uid = peer->link_user_id;
	link->state = SMCR_LINK_ACTIVE;
	link->was_active = true;
}

/* ---- the proof (A67) ---- */

bool smcr_llc_prove(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (!smcr_path_prove(link))
		return false;
	flow->proving = link;
	flow->confirm = *confirm;
	smcr_timer_stop(lgr->engine, &flow->timer);
	smcr_llc_expect_completion(lgr);
	return true;
}

static bool is_first_link(const struct smcr_link *link)
{
	return smcr_llc_exchange_of(link->lgr->llc->step) == SMCR_EXCHANGE_FIRST_LINK;
}

/** The peer's CONFIRM LINK may be acted on: go on with its exchange. */
static void proved(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm)
{
	if (is_first_link(link))
		smcr_llc_first_link_proved(link, confirm);
	else
		smcr_llc_added_link_proved(link, confirm);
}

void smcr_llc_path_proved(struct smcr_link *link)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	if (flow->proving != link || !smcr_link_usable(link))
		return;
	const struct smcr_llc_confirm_link confirm = flow->confirm;
	flow->proving = NULL;
	smcr_timer_stop(link->lgr->engine, &flow->send_timer);
	proved(link, &confirm);
}

/* ---- what comes in ---- */

void smcr_llc_on_confirm_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	if (flow->proving == link)
		smcr_llc_unexpected(link, "CONFIRM LINK once more");
	else if (!smcr_llc_awaits(link, msg))
		smcr_llc_unexpected(link, "unexpected CONFIRM LINK");
	else if (is_first_link(link))
		smcr_llc_first_link_asked(link, &msg->confirm_link);
	else
		smcr_llc_added_link_asked(link, &msg->confirm_link);
}

void smcr_llc_on_confirm_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	const struct smcr_llc_confirm_link *reply = &msg->confirm_link;
	if (!smcr_llc_awaits(link, msg) || flow->proving == link)
		smcr_llc_unexpected(link, "unexpected CONFIRM LINK reply");
	else if (!smcr_llc_right_sender(link, reply) || reply->link_number != link->number)
		/* RV-10 */
		smcr_llc_protocol_error(link, "CONFIRM LINK reply with wrong link information");
	else if (!smcr_llc_prove(link, reply))
		proved(link, reply);
}
