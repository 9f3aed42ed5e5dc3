/* SPDX-License-Identifier: MIT */
/*
 * ADD LINK and ADD LINK CONTINUATION: add a link to a group (RFC 7609 3.5.1.6, 3.5.5.1.1, A.3.2,
 * A.3.3). In first contact the data gate stays closed until the exchange is over (RV-11, RV-12).
 */
#include <errno.h>
#include <string.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_confirm_link.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rtokens.h"

/* ---- messages ---- */

static struct smcr_llc_msg add_link_of(const struct smcr_link *link, bool reply)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK, .reply = reply };
	struct smcr_llc_add_link *add = &msg.add_link;
	memcpy(add->mac, link->local_mac, SMCR_MAC_LEN);
	memcpy(add->gid, link->local_gid, SMCR_GID_LEN);
	add->qpn = link->qpn;
	add->link_number = link->number;
	add->mtu = link->mtu;
	add->psn = link->psn;
	return msg;
}

/** Send ADD LINK, or a reply that accepts, for the link that the exchange is about. */
static void send_add_link(struct smcr_lgr *lgr, bool reply)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = add_link_of(flow->subject, reply);
	smcr_llc_rtokens_list(lgr);
	if (smcr_lgr_is_v2(lgr)) {
		struct smcr_llc_rtokens rtokens = smcr_llc_rtokens_own(flow);
		flow->peer_counted = reply; /* a reply: the server's RTokens have come */
		msg.add_link.direct = lgr->v2.direct;
		memcpy(msg.add_link.target_gid, flow->subject->local_gid, SMCR_GID_LEN);
		smcr_llc_send_rtokens(flow->carrier, &msg, &rtokens);
	} else {
		smcr_llc_send(flow->carrier, &msg);
	}
	smcr_llc_expect_completion(lgr);
}

/** ERR-55. */
static void rtokens_wrong(struct smcr_link *carrier)
{
	smcr_row(carrier->lgr, SMCR_ROW_ERR_55);
	smcr_llc_protocol_error(carrier, "RTokens do not match");
}

/* ---- server: ADD LINK goes out ---- */

/**
 * ADDL-1, LG-9: a server makes all links but the first here. Connections on other links go on
 * meanwhile (ADDL-13).
 *
 * With one RNIC on each side the client refuses, and the group has one link. The client is asked
 * all the same: a deployed client of version 2 waits three seconds for ADD LINK, whatever its
 * release. A limit of one link would avoid that, but it holds as long as the group, and RNICs may
 * be added.
 */
int smcr_llc_add_link(struct smcr_lgr *lgr, struct smcr_device *device, struct smcr_link *carrier)
{
	struct smcr_link *link;
	int rc = smcr_link_new(lgr, device, 0, &link);
	if (rc)
		return rc;
	link->mtu = smcr_path_mtu_in_group(lgr, link->local_gid, link->mtu);
	smcr_llc_add_attempt(lgr);
	smcr_llc_enter(lgr, SMCR_LLC_S_ADD, carrier, link);
	send_add_link(lgr, false);
	return 0;
}

/* ---- server: the reply has come, then those to CONTINUATIONs ---- */

/** ADDL-7: the client's end of the new link is known: connect it. @return 0 or why that failed */
static int connect_added(struct smcr_lgr *lgr, const struct smcr_llc_add_link *reply)
{
	struct smcr_link *subject = lgr->llc->subject;
	if (subject->state == SMCR_LINK_FAILED)
		return -ENETDOWN;
	memcpy(subject->peer_gid, reply->gid, SMCR_GID_LEN);
	memcpy(subject->peer_mac, reply->mac, SMCR_MAC_LEN);
	if (reply->link_number != subject->number || !smcr_mtu_valid(reply->mtu) ||
	    !smcr_llc_topology_ok(lgr))
		return -EPROTO; /* ERR-53 */
	int rc = smcr_link_connect(subject, reply->gid, reply->mac, reply->qpn, reply->psn,
				   reply->mtu);
	return rc ? rc : smcr_link_start(subject);
}

/** Is this a rejection of an ADD LINK that the client has accepted? Deployed clients send one if
 * something fails later on their side. */
static bool late_reject(const struct smcr_llc_flow *flow, const struct smcr_link *link,
			const struct smcr_llc_add_link *reply)
{
	return reply->reject && link == flow->carrier &&
	       (flow->step == SMCR_LLC_S_ADD_CONT || flow->step == SMCR_LLC_S_CONFIRM_ADDED) &&
	       reply->link_number == flow->subject->number;
}

/** Server: the client has given up the new link. Was the message about that link sent before that,
 * and has only come late, on another link? */
static bool overtaken(const struct smcr_llc_flow *flow, uint8_t link_number)
{
	return smcr_llc_exchange_of(flow->step) == SMCR_EXCHANGE_DELETE_LINK &&
	       flow->subject->number == link_number && flow->subject->state == SMCR_LINK_FAILED;
}

/** Server: is this a late refusal? A deployed client that could not confirm a new link answers
 * DELETE LINK and then also refuses the ADD LINK. The refusal comes when the attempt is over, or
 * the next one has begun. */
static bool refused_once_more(struct smcr_llc_flow *flow, const struct smcr_llc_add_link *reply)
{
	if (!reply->reject || !flow->add.abandoned || reply->link_number != flow->add.abandoned)
		return false;
	flow->add.abandoned = 0;
	return true;
}

/** Both sides have each other's RTokens: prove the new link (ADDL-12). */
static void confirm_added(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = smcr_llc_confirm_link_of(flow->subject, false, lgr->max_links);
	smcr_llc_enter(lgr, SMCR_LLC_S_CONFIRM_ADDED, flow->carrier, flow->subject);
	smcr_llc_send(flow->subject, &msg);
	smcr_llc_expect_completion(lgr);
}

void smcr_llc_on_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (refused_once_more(flow, &msg->add_link))
		return;
	if (late_reject(flow, link, &msg->add_link)) {
		smcr_link_fail(flow->subject, SMCR_LLC_DEL_LOST_PATH, "the peer cannot use it");
		smcr_llc_delete_added(lgr);
		return;
	}
	if (overtaken(flow, msg->add_link.link_number))
		return;
	if (!smcr_llc_awaits(link, msg)) {
		smcr_llc_unexpected(link, "unexpected ADD LINK reply");
		return;
	}
	lgr->fc.committed = true; /* ERR-8 */
	if (!flow->subject) {     /* no link was offered (offer_nothing()) */
		smcr_llc_end(lgr, SMCR_LLC_FAILED, "no link could be offered");
		return;
	}
	if (msg->add_link.reject) { /* ADDL-6 */
		smcr_llc_link_agreed_gone(flow->subject);
		smcr_llc_end(lgr, SMCR_LLC_FAILED,
			     msg->add_link.reject_reason == SMCR_LLC_REJECT_INVALID_MTU
				     ? "the peer refuses the path MTU"
				     : "the peer has no alternate path");
		return;
	}
	int rc = connect_added(lgr, &msg->add_link);
	if (rc) {
		if (rc == -EPROTO)
			smcr_row(lgr, SMCR_ROW_ERR_53);
		smcr_link_fail(flow->subject,
			       rc == -EPROTO ? SMCR_LLC_DEL_PROTOCOL_VIOLATION
					     : SMCR_LLC_DEL_LOST_PATH,
			       "cannot connect it: %s", strerror(-rc));
		smcr_llc_delete_added(lgr);
		return;
	}
	if (!smcr_lgr_is_v2(lgr)) { /* ADDL-11: whatever RMBs there are */
		smcr_llc_enter(lgr, SMCR_LLC_S_ADD_CONT, link, flow->subject);
		smcr_llc_rtokens_send_cont(lgr, false);
	} else if (smcr_llc_rtokens_take_all(lgr)) {
		confirm_added(lgr); /* ADDL-12 */
	} else {
		smcr_link_fail(flow->subject, SMCR_LLC_DEL_PROTOCOL_VIOLATION,
			       "the peer has told no RToken for an RMB in use");
		smcr_llc_delete_added(lgr);
	}
}

void smcr_llc_on_add_link_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (overtaken(flow, msg->add_link_cont.link_number))
		return;
	if (!smcr_llc_awaits(link, msg))
		smcr_llc_protocol_error(link, "unexpected ADD LINK CONTINUATION reply");
	else if (!smcr_llc_rtokens_take_cont(lgr, &msg->add_link_cont))
		rtokens_wrong(link);
	else if (flow->subject->state == SMCR_LINK_FAILED)
		smcr_llc_delete_added(lgr);
	else if (smcr_llc_rtokens_left(lgr)) {
		smcr_llc_enter(lgr, SMCR_LLC_S_ADD_CONT, link, flow->subject);
		smcr_llc_rtokens_send_cont(lgr, false);
	} else {
		confirm_added(lgr); /* ADDL-12 */
	}
}

/* ---- client: ADD LINK has come, then CONTINUATIONs ---- */

static void reject(struct smcr_link *carrier, const struct smcr_llc_add_link *request,
		   uint8_t reason)
{
	struct smcr_lgr *lgr = carrier->lgr;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK, .reply = true };
	msg.add_link = *request;
	msg.add_link.reject = true;
	if (!smcr_lgr_is_v2(lgr)) /* in version 2 deployed peers give none */
		msg.add_link.reject_reason = reason;
	smcr_llc_send(carrier, &msg);
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && !smcr_link_usable(carrier))
		return; /* the reply could not be sent: the loss of the link decides (ERR-18) */
	lgr->fc.committed = true; /* ERR-8: after a negative reply once it is sent */
	smcr_llc_end(lgr, SMCR_LLC_FAILED, "we have refused the server's offer");
}

/** ADDL-4: set up our end of the new link. @return 0 or why that failed */
static int set_up(struct smcr_lgr *lgr, struct smcr_link *carrier,
		  const struct smcr_llc_add_link *request)
{
	struct smcr_device *device = smcr_llc_device_for(lgr, request);
	struct smcr_link *link;
	if (!device || !smcr_llc_room_for_link(lgr))
		return -ENODEV;
	int rc = smcr_link_new(lgr, device, request->link_number, &link);
	if (rc)
		return rc;
	uint8_t mtu = smcr_path_mtu(lgr->engine, link->local_gid, request->gid, request->mtu);
	rc = smcr_link_connect(link, request->gid, request->mac, request->qpn, request->psn, mtu);
	if (rc) {
		smcr_llc_link_agreed_gone(link);
		return rc;
	}
	bool v2 = smcr_lgr_is_v2(lgr);
	smcr_llc_add_attempt(lgr);
	smcr_llc_enter(lgr, v2 ? SMCR_LLC_C_AWAIT_CONFIRM_ADDED : SMCR_LLC_C_AWAIT_ADD_CONT,
		       carrier, link);
	if (v2 && !smcr_llc_rtokens_take_all(lgr)) {
		smcr_llc_link_agreed_gone(link);
		return -EPROTO;
	}
	send_add_link(lgr, true);
	return 0;
}

/** Is an own RMB being announced? Then the list of RMBs has to wait until it is clear whether the
 * server knows that RMB (A51). */
static bool announcing(const struct smcr_llc_flow *flow)
{
	return flow->rkey.step == SMCR_RKEY_CONFIRM && !flow->cont_overdue;
}

/** The list may not wait long: deployed servers wait two seconds for it. */
static void hasten_announcement(struct smcr_lgr *lgr)
{
	smcr_timer_start(lgr->engine, &lgr->llc->rkey.timer, lgr->engine->config.llc_timeout / 8);
}

/** Version 2: hold ADD LINK back while an own RMB is being announced, as the reply lists the
 * RMBs. */
static bool hold_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (!smcr_lgr_is_v2(lgr) || !announcing(flow))
		return false;
	flow->held_add = (struct smcr_llc_queued){ .link_ref = link->ref, .msg = *msg };
	flow->add_held = true;
	hasten_announcement(lgr);
	return true;
}

void smcr_llc_on_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	const struct smcr_llc_add_link *request = &msg->add_link;
	if (smcr_llc_collision(lgr, msg) == SMCR_GAVE_UP)
		smcr_llc_server_gave_up(lgr, NULL);
	if (hold_add_link(link, msg))
		return;
	lgr->fc.committed |= smcr_lgr_is_v2(lgr); /* so is the server that has sent ADD LINK */
	if (!smcr_mtu_valid(request->mtu)) {
		smcr_row(lgr, SMCR_ROW_ERR_52);
		reject(link, request, SMCR_LLC_REJECT_INVALID_MTU); /* ERR-52 */
	} else if (!request->link_number || smcr_lgr_link_by_number(lgr, request->link_number)) {
		smcr_llc_protocol_error(link, "ADD LINK with a number that is in use");
	} else if (set_up(lgr, link, request)) {
		reject(link, request, SMCR_LLC_REJECT_NO_ALT_PATH); /* ADDL-5 */
	}
}

void smcr_llc_on_add_link_cont(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow->step == SMCR_LLC_C_AWAIT_DELETE ||
	    (flow->add.abandoned && msg->add_link_cont.link_number == flow->add.abandoned))
		return; /* we have given up the new link */
	if (!smcr_llc_awaits(link, msg)) {
		smcr_llc_protocol_error(link, "unexpected ADD LINK CONTINUATION");
		return;
	}
	lgr->fc.committed = true; /* ERR-8: the message shows that our reply has arrived */
	if (announcing(flow) && flow->step == SMCR_LLC_C_AWAIT_ADD_CONT) {
		/* ADD LINK may have overtaken the reply to CONFIRM RKEY, which comes on another
		 * link, so wait for that. */
		flow->held_cont = msg->add_link_cont;
		flow->cont_held = true;
		hasten_announcement(lgr);
		return;
	}
	if (flow->step == SMCR_LLC_C_AWAIT_ADD_CONT)
		smcr_llc_rtokens_list(lgr);
	if (!smcr_llc_rtokens_take_cont(lgr, &msg->add_link_cont)) {
		rtokens_wrong(link);
		return;
	}
	smcr_llc_rtokens_send_cont(lgr, true);
	smcr_llc_enter(lgr,
		       smcr_llc_rtokens_left(lgr) ? SMCR_LLC_C_AWAIT_NEXT_CONT
						  : SMCR_LLC_C_AWAIT_CONFIRM_ADDED,
		       link, flow->subject);
}

static void resume_held_add(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (!flow->add_held || announcing(flow))
		return;
	flow->add_held = false;
	struct smcr_link *link = smcr_link_by_ref(lgr->engine, flow->held_add.link_ref);
	if (link && smcr_link_works(link))
		smcr_llc_on_add_link(link, &flow->held_add.msg);
}

void smcr_llc_add_link_resume(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	resume_held_add(lgr);
	if (!flow->cont_held || announcing(flow))
		return;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT,
				    .add_link_cont = flow->held_cont };
	flow->cont_held = false;
	if (flow->step == SMCR_LLC_C_AWAIT_ADD_CONT && flow->carrier)
		smcr_llc_on_add_link_cont(flow->carrier, &msg);
}

/* ---- CONFIRM LINK has come on the new link: to the client, then the reply to the server ---- */

/* Client. */
void smcr_llc_added_link_asked(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!smcr_llc_right_sender(link, request) || request->link_number != link->number) {
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
	if (!smcr_llc_prove(link, request))
		smcr_llc_added_link_proved(link, request);
}

/** Both sides have each other's RTokens for the new link, and both are in force. */
static void added_link_active(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	for (unsigned int i = 0; i < flow->own_count; i++)
		if (flow->own[i]->state != SMCR_SLAB_NEW) /* it was not withdrawn meanwhile */
			flow->own[i]->reg[flow->subject->slot].told = true;
	flow->subject->added = lgr->engine->now;
	smcr_news_of_link(flow->subject, (struct smcr_news){ .type = SMCR_NEWS_LINK_ADDED });
	smcr_llc_links_changed(lgr);
	smcr_llc_end(lgr, SMCR_LLC_SUCCEEDED, NULL);
	smcr_failover_rebalance(lgr);
}

/** Client: the link works both ways: send the reply. */
static void answer_added(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	smcr_llc_set_active(link, request);
	lgr->fc.committed = true; /* ERR-8 */
	struct smcr_llc_msg reply = smcr_llc_confirm_link_of(link, true, lgr->max_links);
	smcr_llc_send(link, &reply);
	if (smcr_link_usable(link)) /* otherwise the loss of the link decides */
		added_link_active(lgr);
}

void smcr_llc_added_link_proved(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm)
{
	if (link->lgr->role == SMCR_ROLE_CLIENT) {
		answer_added(link, confirm);
		return;
	}
	smcr_llc_set_active(link, confirm);
	added_link_active(link->lgr);
}

/* ---- the new link, or the carrier, has failed ---- */

/* Server: the client knows the new link, so it has to be deleted. The gate waits for the client's
 * answer (ERR-22). */
void smcr_llc_delete_added(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *subject = flow->subject;
	struct smcr_link *carrier = flow->carrier ? flow->carrier : smcr_lgr_any_link(lgr, subject);
	if (carrier)
		smcr_llc_order_deletion(lgr, subject, carrier);
}

/* Client (ERR-28, ERR-29). */
void smcr_llc_ask_to_delete_added(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *subject = flow->subject;
	smcr_llc_enter(lgr, SMCR_LLC_C_AWAIT_DELETE, flow->carrier, subject);
	smcr_llc_request_delete(subject);
}

/* The peer sees the carrier fail too, so no message tells it. */
void smcr_llc_add_link_carrier_lost(struct smcr_lgr *lgr)
{
	smcr_llc_link_agreed_gone(lgr->llc->subject);
	smcr_llc_end(lgr, SMCR_LLC_FAILED, "the link that carried the exchange has failed");
}

/* CONFIRM LINK comes on the new link. */
void smcr_llc_add_link_without_carrier(struct smcr_lgr *lgr)
{
	lgr->llc->carrier = NULL;
}

/* ---- an answer that does not come (deployed dialect) ---- */

/*
 * A deployed peer may be delayed (smcr_llc_carrier_may_stay()). A deployed server waits two seconds
 * for the reply to ADD LINK, and for each reply to a CONTINUATION, and then silently gives up the
 * new link. So the carrier may be sound, and is tested. Not in first contact: there the peer may
 * have opened the connection with one link, or may be about to reset it as the RFC says.
 */
bool smcr_llc_add_link_overdue(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT || !smcr_llc_carrier_may_stay(flow->carrier))
		return false;
	flow->add_overdue = true;
	return true;
}

/* The peer is alive, but has given up the new link. */
void smcr_llc_abandon_added(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *subject = flow->subject;
	if (!flow->add_overdue)
		return;
	flow->add_overdue = false;
	smcr_link_fail(subject, SMCR_LLC_DEL_LOST_PATH, "the peer does not go on with ADD LINK");
	if (lgr->role == SMCR_ROLE_SERVER) {
		smcr_llc_delete_added(lgr);
		return;
	}
	flow->add.abandoned = subject->number;
	smcr_llc_link_agreed_gone(subject);
	smcr_llc_end(lgr, SMCR_LLC_GIVEN_UP, "the server has given it up");
}
