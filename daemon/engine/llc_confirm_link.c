/* SPDX-License-Identifier: MIT */
/* CONFIRM LINK: proof that a new link works both ways (RFC 7609 3.5.1.4, 3.5.1.5, A.3.1). */
#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/engine/llc.h"
#include "daemon/engine/rendezvous.h"

uint8_t smcr_max_links_negotiate(uint8_t server, uint8_t client)
{
	if (server < 2)
		return 2;
	if (server > SMCR_MAX_LINKS)
		server = SMCR_MAX_LINKS;
	if (client == 0 || client > server)
		return server;
	return client < 2 ? 2 : client;
}

enum smcr_dialect smcr_dialect_choose(enum smcr_dialect_policy policy, uint8_t request_flags,
				      uint8_t reply_flags)
{
	switch (policy) {
	case SMCR_DIALECT_FORCE_RFC: return SMCR_DIALECT_RFC;
	case SMCR_DIALECT_FORCE_DEPLOYED: return SMCR_DIALECT_DEPLOYED;
	case SMCR_DIALECT_AUTO: break;
	}
	return (request_flags & SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER) &&
			       (reply_flags & SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER)
		       ? SMCR_DIALECT_DEPLOYED
		       : SMCR_DIALECT_RFC;
}

static struct smcr_llc_msg confirm_link_of(const struct smcr_link *link, bool reply,
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

/** Does the message come from the far end that this link was connected to? */
static bool right_sender(const struct smcr_link *link, const struct smcr_llc_confirm_link *c)
{
	return c->qpn == link->peer_qpn && !memcmp(c->gid, link->peer_gid, SMCR_GID_LEN) &&
	       !memcmp(c->mac, link->peer_mac, SMCR_MAC_LEN);
}

void smcr_llc_first_contact(struct smcr_lgr *lgr, struct smcr_link *link)
{
	if (lgr->role == SMCR_ROLE_CLIENT) {
		smcr_llc_enter(lgr, SMCR_LLC_C_AWAIT_CONFIRM_FIRST, link, NULL); /* RV-6 */
		return;
	}
	uint8_t limit = smcr_lgr_is_v2(lgr) ? lgr->max_links : lgr->engine->config.max_links;
	struct smcr_llc_msg msg = confirm_link_of(link, false, limit);
	lgr->llc->request = msg.confirm_link;
	smcr_llc_enter(lgr, SMCR_LLC_S_CONFIRM_FIRST, link, NULL);
	smcr_llc_send(link, &msg); /* RV-8 */
	smcr_llc_expect_completion(lgr);
}

void smcr_llc_confirm_added(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = confirm_link_of(flow->subject, false, lgr->max_links);
	smcr_llc_enter(lgr, SMCR_LLC_S_CONFIRM_ADDED, flow->carrier, flow->subject);
	smcr_llc_send(flow->subject, &msg);
	smcr_llc_expect_completion(lgr);
}

bool smcr_llc_repeat_confirm(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	bool first = flow->step == SMCR_LLC_S_CONFIRM_FIRST;
	struct smcr_link *link = first ? flow->carrier : flow->subject;
	if (flow->repeated)
		return false;
	struct smcr_llc_msg msg = confirm_link_of(link, false, lgr->max_links);
	flow->repeated = 1;
	if (smcr_link_usable(link))
		smcr_llc_send(link, &msg);
	return true;
}

/** The peer has shown that the link works. */
static void set_active(struct smcr_link *link, const struct smcr_llc_confirm_link *peer)
{
	link->peer_uid = peer->link_user_id;
	link->state = SMCR_LINK_ACTIVE;
	link->was_active = true;
}

/** What the first exchange fixes for the life of the group; in version 2 CLC did. */
static void settle(struct smcr_lgr *lgr, const struct smcr_llc_confirm_link *request,
		   const struct smcr_llc_confirm_link *reply)
{
	lgr->dialect_known = true;
	if (smcr_lgr_is_v2(lgr))
		return;
	lgr->max_links = smcr_max_links_negotiate(request->max_links, reply->max_links);
	if (request->max_links < 2 || reply->max_links == 1 ||
	    reply->max_links > request->max_links)
		smcr_log_peer(lgr->engine, &lgr->peer, LOG_NOTICE, "link limits",
			      "group %u: link limits %u and %u break the rules; %u is used",
			      lgr->id, request->max_links, reply->max_links, lgr->max_links);
	lgr->dialect = smcr_dialect_choose(lgr->dialect_policy, request->flags, reply->flags);
}

/** Version 2 has the deployed dialect only: the peer says whether it agrees. */
static bool dialect_ok(struct smcr_lgr *lgr, const struct smcr_llc_confirm_link *c)
{
	if (!smcr_lgr_is_v2(lgr) || c->flags & SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER)
		return true;
	smcr_llc_first_contact_failed(lgr, SMCR_REASON_EYE_CATCHER, EPROTO);
	return false;
}

/** No second link is meant to be: the first contact is over with the first one. */
static void one_link_is_enough(struct smcr_lgr *lgr)
{
	lgr->fc.committed = true;
	smcr_llc_add_link_done(lgr);
}

/**
 * The peer's CONFIRM LINK has come, and we can send: act on it when full-size packets have passed
 * from here (A67). In first contact a timer bounds that (ERR-17). @return false: act on it now
 */
static bool prove(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm)
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

/* ---- client ---- */

static void answer_first(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	uint8_t limit = smcr_lgr_is_v2(lgr) ? lgr->max_links : lgr->engine->config.max_links;
	if (!smcr_lgr_is_v2(lgr) && request->max_links >= 2 && request->max_links < limit)
		limit = request->max_links;
	struct smcr_llc_msg reply = confirm_link_of(link, true, limit);
	settle(lgr, request, &reply.confirm_link);
	set_active(link, request);
	smcr_lgr_links_changed(lgr);
	smcr_llc_enter(lgr, SMCR_LLC_C_AWAIT_ADD, link, NULL);
	smcr_llc_send(link, &reply); /* RV-9 */
	if (lgr->max_links == 1 && smcr_link_usable(link))
		one_link_is_enough(lgr);
	else /* one that could not be sent: the lost link decides (ERR-18) */
		smcr_llc_expect_completion(lgr);
}

static void confirm_first(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!right_sender(link, request) || !request->link_number) {
		smcr_row(lgr, SMCR_ROW_ERR_51_FIRST);
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_CONFIRM_LINK_FAILED,
					      EPROTO); /* ERR-51 */
		return;
	}
	smcr_link_supersede(link);
	if (!dialect_ok(lgr, request))
		return;
	if (smcr_link_start(link)) {
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_QP_NOT_READY, ECONNRESET);
		return;
	}
	link->number = request->link_number;
	if (!prove(link, request))
		answer_first(link, request);
}

static void answer_added(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	set_active(link, request);
	lgr->fc.committed = true; /* ERR-8 */
	struct smcr_llc_msg reply = confirm_link_of(link, true, lgr->max_links);
	smcr_llc_send(link, &reply);
	if (smcr_link_usable(link)) /* else its loss decides */
		smcr_llc_added_link_active(lgr);
}

static void confirm_added(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!right_sender(link, request) || request->link_number != link->number) {
		smcr_row(lgr, SMCR_ROW_ERR_51);
		smcr_llc_protocol_error(link, "CONFIRM LINK with wrong link information");
		return; /* ERR-51: DELETE LINK follows on the carrier */
	}
	int rc = smcr_link_start(link);
	if (rc) {
		smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "cannot start the queue pair: %s",
			       strerror(-rc));
		return;
	}
	if (!prove(link, request))
		answer_added(link, request);
}

void smcr_llc_on_confirm_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	if (flow->proving == link)
		smcr_llc_unexpected(link, "CONFIRM LINK once more");
	else if (flow->step == SMCR_LLC_C_AWAIT_CONFIRM_FIRST && link == flow->carrier)
		confirm_first(link, &msg->confirm_link);
	else if (flow->step == SMCR_LLC_C_AWAIT_CONFIRM_ADDED && link == flow->subject)
		confirm_added(link, &msg->confirm_link);
	else
		smcr_llc_unexpected(link, "unexpected CONFIRM LINK");
}

/* ---- server ---- */

/** Version 2: no second link can be set up just now. The client, which waits for it, is asked in a
 *  way that any client refuses at once, by the MTU. */
static void offer_nothing(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK };
	memcpy(msg.add_link.mac, link->local_mac, SMCR_MAC_LEN);
	memcpy(msg.add_link.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(msg.add_link.target_gid, link->local_gid, SMCR_GID_LEN);
	msg.add_link.direct = lgr->v2.direct;
	smcr_llc_add_attempt(lgr); /* it will be made again later */
	smcr_llc_enter(lgr, SMCR_LLC_S_ADD, link, NULL);
	smcr_llc_send(link, &msg);
	smcr_llc_expect_completion(lgr);
}

/** Link 1 is proven; the first contact goes on with the second one (ADDL-2). */
static void first_confirmed(struct smcr_link *link, const struct smcr_llc_confirm_link *reply)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!dialect_ok(lgr, reply))
		return;
	settle(lgr, &lgr->llc->request, reply);
	set_active(link, reply);
	struct smcr_device *device = smcr_llc_add_candidate(lgr, true);
	smcr_lgr_links_changed(lgr);
	/* Deployed clients are past their point of no return now, or soon: of version 2 they go on
	 * with one link when no ADD LINK comes. */
	lgr->fc.committed |= smcr_lgr_is_v2(lgr);
	if (lgr->max_links == 1) {
		one_link_is_enough(lgr);
		return;
	}
	if (device && !smcr_llc_add_link(lgr, device, link))
		return;
	if (smcr_lgr_is_v2(lgr))
		offer_nothing(link);
	else /* A34 */
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_ADD_LINK_FAILED, ECONNRESET);
}

/** The reply is sound, and the link works both ways. */
static void confirmed(struct smcr_link *link, const struct smcr_llc_confirm_link *reply)
{
	if (link == link->lgr->llc->carrier) {
		first_confirmed(link, reply);
		return;
	}
	set_active(link, reply);
	smcr_llc_added_link_active(link->lgr);
}

void smcr_llc_on_confirm_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	const struct smcr_llc_confirm_link *reply = &msg->confirm_link;
	bool first = flow->step == SMCR_LLC_S_CONFIRM_FIRST && link == flow->carrier;
	bool added = flow->step == SMCR_LLC_S_CONFIRM_ADDED && link == flow->subject;
	if ((!first && !added) || flow->proving == link)
		smcr_llc_unexpected(link, "unexpected CONFIRM LINK reply");
	else if (!right_sender(link, reply) || reply->link_number != link->number)
		smcr_llc_protocol_error(link, "CONFIRM LINK reply with wrong link information");
	else if (!prove(link, reply))
		confirmed(link, reply);
}

/* ---- both ---- */

void smcr_llc_path_proved(struct smcr_link *link)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	if (flow->proving != link || !smcr_link_usable(link))
		return;
	const struct smcr_llc_confirm_link confirm = flow->confirm;
	flow->proving = NULL;
	smcr_timer_stop(link->lgr->engine, &flow->send_timer);
	if (link->lgr->role == SMCR_ROLE_SERVER)
		confirmed(link, &confirm);
	else if (link == flow->carrier)
		answer_first(link, &confirm);
	else
		answer_added(link, &confirm);
}
