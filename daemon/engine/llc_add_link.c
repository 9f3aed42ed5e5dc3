/* SPDX-License-Identifier: MIT */
/*
 * ADD LINK and ADD LINK CONTINUATION: one more link for a group (RFC 7609 3.5.1.6, 3.5.5.1.1,
 * A.3.2, A.3.3). In first contact the data gate stays closed until it is decided (RV-11, RV-12).
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/engine/data.h"
#include "daemon/engine/llc.h"
#include "daemon/engine/rendezvous.h"

/* ---- rules ---- */

enum smcr_add_link_answer smcr_add_link_decide(bool server_rnic_new, bool have_unused,
					       bool have_asymmetric)
{
	if (server_rnic_new && have_unused)
		return SMCR_ADD_LINK_ON_UNUSED; /* symmetric */
	if (have_asymmetric || (!server_rnic_new && !have_unused))
		return SMCR_ADD_LINK_REJECT; /* second asymmetric, or parallel */
	return have_unused ? SMCR_ADD_LINK_ON_UNUSED : SMCR_ADD_LINK_ON_USED; /* asymmetric */
}

unsigned int smcr_cont_pairs(uint8_t left)
{
	return left < 2 ? left : 2;
}

uint8_t smcr_cont_next(uint8_t left)
{
	return left > 2 ? (uint8_t)(left - 2) : 0;
}

/* ---- the end of the exchange, either side ---- */

void smcr_llc_add_link_done(struct smcr_lgr *lgr)
{
	smcr_llc_enter(lgr, SMCR_LLC_IDLE, NULL, NULL);
	/* If the only link has just failed, nothing opens: what the failure brings is on its way.
	 */
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && smcr_lgr_any_link(lgr, NULL))
		smcr_clc_first_contact_done(lgr); /* RV-12 */
}

void smcr_llc_added_link_active(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	for (unsigned int i = 0; i < flow->own_count; i++)
		if (flow->own[i]->state != SMCR_SLAB_NEW) /* withdrawn meanwhile */
			flow->own[i]->reg[flow->subject->slot].told = true;
	smcr_event_link_up(flow->subject);
	flow->subject->added = lgr->engine->now;
	smcr_command_link_active(flow->subject);
	smcr_lgr_links_changed(lgr);
	smcr_llc_add_succeeded(lgr);
	smcr_llc_add_link_done(lgr);
	smcr_lgr_rebalance(lgr);
}

/** Server: the new link must go; the client knows of it. The gate waits for its answer (ERR-22). */
static void delete_subject(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *subject = flow->subject;
	struct smcr_link *carrier = flow->carrier ? flow->carrier : smcr_lgr_any_link(lgr, subject);
	if (carrier)
		smcr_llc_delete_link(lgr, subject, carrier);
}

void smcr_llc_add_link_subject_failed(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (lgr->fc.declining)
		return; /* the first contact ends, with all links */
	switch (flow->step) {
	case SMCR_LLC_S_CONFIRM_ADDED: delete_subject(lgr); break; /* ERR-22, ERR-23 */
	case SMCR_LLC_C_AWAIT_ADD_CONT:
	case SMCR_LLC_C_AWAIT_CONFIRM_ADDED: { /* ERR-28, ERR-29 */
		struct smcr_link *subject = flow->subject;
		smcr_llc_enter(lgr, SMCR_LLC_C_AWAIT_DELETE, flow->carrier, subject);
		smcr_llc_request_delete(subject);
		break;
	}
	default: break; /* S_ADD, S_ADD_CONT: when the answer comes that is on its way */
	}
}

/* ---- an answer that does not come (deployed dialect) ---- */

static bool awaits_client(const struct smcr_llc_flow *flow)
{
	return flow->step == SMCR_LLC_S_ADD || flow->step == SMCR_LLC_S_ADD_CONT;
}

/**
 * A deployed server waits two seconds for the reply to ADD LINK, and for each reply to a
 * CONTINUATION, and then gives the new link up without a word. So the link that carries the
 * exchange need not be at fault, and is asked. Not in first contact: there nobody knows whether the
 * peer has opened the connection with one link, or is about to reset it as the RFC says.
 */
bool smcr_llc_add_link_overdue(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	bool awaits_server = flow->step == SMCR_LLC_C_AWAIT_ADD_CONT;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT || !(awaits_server || awaits_client(flow)) ||
	    !smcr_llc_carrier_may_stay(flow->carrier))
		return false;
	flow->add_overdue = true;
	return true;
}

void smcr_llc_add_link_give_up(struct smcr_link *carrier)
{
	struct smcr_lgr *lgr = carrier->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *subject = flow->subject;
	if (!flow->add_overdue || carrier != flow->carrier)
		return;
	flow->add_overdue = false;
	smcr_link_fail(subject, SMCR_LLC_DEL_LOST_PATH, "the peer does not go on with ADD LINK");
	if (lgr->role == SMCR_ROLE_SERVER) {
		delete_subject(lgr);
		return;
	}
	flow->add.given_up = subject->number;
	smcr_llc_link_agreed_gone(subject);
	smcr_llc_add_link_done(lgr);
}

/* ---- RTokens (ADDL-8..11) ---- */

/** Start of the exchange: which own RMBs the peer knows, and so must learn anew. Whether it still
 * knows one whose DELETE RKEY broke is uncertain, and it has no more use for it. */
static void list_own_rmbs(struct smcr_llc_flow *flow, const struct smcr_lgr *lgr)
{
	struct smcr_slab *slab;
	flow->own_count = flow->own_next = 0;
	flow->peer_counted = false;
	flow->peer_left = 0;
	DL_FOREACH (lgr->rmbs, slab)
		if (slab->reg[flow->carrier->slot].told && slab->state != SMCR_SLAB_DELETING)
			flow->own[flow->own_count++] = slab;
}

static void send_cont(struct smcr_lgr *lgr, bool reply)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK_CONT, .reply = reply };
	struct smcr_llc_add_link_cont *cont = &msg.add_link_cont;
	cont->link_number = flow->subject->number;
	cont->num_rtokens = (uint8_t)(flow->own_count - flow->own_next);
	for (unsigned int i = 0; i < smcr_cont_pairs(cont->num_rtokens); i++) {
		const struct smcr_slab *slab = flow->own[flow->own_next++];
		cont->pair[i].ref_rkey = slab->reg[flow->carrier->slot].rkey;
		cont->pair[i].new_rkey = slab->reg[flow->subject->slot].rkey;
		cont->pair[i].new_vaddr = slab->reg[flow->subject->slot].vaddr;
	}
	smcr_llc_send(flow->carrier, &msg);
}

static bool written_to(const struct smcr_peer_rmb *rmb)
{
	for (unsigned int i = 1; i <= SMCR_MAX_ELEMENTS && rmb->users; i++)
		if (rmb->user[i] &&
		    (rmb->user[i]->phase != SMCR_PHASE_OPEN || smcr_conn_flowing(rmb->user[i])))
			return true;
	return false;
}

/** Every RMB of the peer that connections use has an RToken on the new link (ADDL-10). Another one
 * may be missing: when the reply to its CONFIRM RKEY was lost with a link, the peer does not count
 * on it, and announces it anew; or its DELETE RKEY is on its way. */
static bool peer_complete(const struct smcr_lgr *lgr)
{
	const struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb)
		if (!rmb->withdrawn && !rmb->token[lgr->llc->subject->slot].valid &&
		    written_to(rmb))
			return false;
	return true;
}

/** Does the peer go on with as many pairs as it said were left? A deployed peer announces one for
 * each connection, and has fewer if some have no RMB yet. */
static bool count_fits(const struct smcr_lgr *lgr, uint8_t num_rtokens)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	if (!flow->peer_counted || num_rtokens == flow->peer_left)
		return true;
	return lgr->dialect == SMCR_DIALECT_DEPLOYED && num_rtokens < flow->peer_left;
}

/** Take in the peer's pairs. A deployed peer has one for each RMB in use, also for those that it
 * will tell us only when this exchange is over, for all links. @return false: they do not fit
 * (ERR-55) */
static bool take_cont(struct smcr_lgr *lgr, const struct smcr_llc_add_link_cont *cont)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (cont->link_number != flow->subject->number || !count_fits(lgr, cont->num_rtokens))
		return false;
	for (unsigned int i = 0; i < smcr_cont_pairs(cont->num_rtokens); i++) {
		const struct smcr_llc_rtoken_pair *pair = &cont->pair[i];
		struct smcr_peer_rmb *rmb = smcr_peer_rmb_find(lgr, flow->carrier, pair->ref_rkey);
		if (!rmb && lgr->dialect == SMCR_DIALECT_DEPLOYED)
			continue;
		if (!rmb || rmb->token[flow->subject->slot].valid)
			return false;
		smcr_peer_rmb_set(rmb, flow->subject, pair->new_rkey, pair->new_vaddr);
	}
	flow->peer_counted = true;
	flow->peer_left = smcr_cont_next(cont->num_rtokens);
	return flow->peer_left || peer_complete(lgr);
}

/** Version 2: those of its ADD LINK. What the peer tells of an RMB that we do not know, or know no
 * more, does not matter. @return false: an RMB in use has none (ERR-55) */
static bool take_rtokens(struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	for (unsigned int i = 0; i < flow->rtokens.count; i++) {
		const struct smcr_llc_rtoken_pair *pair = &flow->rtokens.pair[i];
		struct smcr_peer_rmb *rmb = smcr_peer_rmb_find(lgr, flow->carrier, pair->ref_rkey);
		if (rmb)
			smcr_peer_rmb_set(rmb, flow->subject, pair->new_rkey, pair->new_vaddr);
	}
	if (peer_complete(lgr))
		return true;
	smcr_row(lgr, SMCR_ROW_ERR_55);
	return false;
}

/** ERR-55. */
static void rtokens_wrong(struct smcr_link *carrier)
{
	smcr_row(carrier->lgr, SMCR_ROW_ERR_55);
	smcr_llc_protocol_error(carrier, "RTokens do not match");
}

/* ---- server ---- */

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

/** Version 2: `own` for the new link. */
static struct smcr_llc_rtokens own_rtokens(const struct smcr_llc_flow *flow)
{
	struct smcr_llc_rtokens rtokens = { .count = (uint8_t)flow->own_count };
	for (unsigned int i = 0; i < flow->own_count; i++) {
		const struct smcr_slab *slab = flow->own[i];
		rtokens.pair[i] = (struct smcr_llc_rtoken_pair){
			.ref_rkey = slab->reg[flow->carrier->slot].rkey,
			.new_rkey = slab->reg[flow->subject->slot].rkey,
			.new_vaddr = slab->reg[flow->subject->slot].vaddr,
		};
	}
	return rtokens;
}

/** ADD LINK or an accepting reply, for the link that the exchange is about. */
static void send_add_link(struct smcr_lgr *lgr, bool reply)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = add_link_of(flow->subject, reply);
	list_own_rmbs(flow, lgr);
	if (smcr_lgr_is_v2(lgr)) {
		struct smcr_llc_rtokens rtokens = own_rtokens(flow);
		flow->peer_counted = reply; /* the client has the server's */
		msg.add_link.direct = lgr->v2.direct;
		memcpy(msg.add_link.target_gid, flow->subject->local_gid, SMCR_GID_LEN);
		smcr_llc_send_rtokens(flow->carrier, &msg, &rtokens);
	} else {
		smcr_llc_send(flow->carrier, &msg);
	}
	smcr_llc_expect_completion(lgr);
}

/**
 * With one RNIC on either side the client refuses, and the group has one link. It is asked all the
 * same: a deployed client of version 2 waits three seconds for the question, whatever its release,
 * and a limit of one link, which would spare us that, holds for the life of the group, in which
 * RNICs may come.
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

/** ADDL-7: the client's end is known. @return 0 or why the new link cannot be */
static int connect_added(struct smcr_lgr *lgr, const struct smcr_llc_add_link *reply)
{
	struct smcr_link *subject = lgr->llc->subject;
	if (subject->state == SMCR_LINK_FAILED)
		return -ENETDOWN;
	memcpy(subject->peer_gid, reply->gid, SMCR_GID_LEN);
	memcpy(subject->peer_mac, reply->mac, SMCR_MAC_LEN);
	if (reply->link_number != subject->number || !smcr_mtu_valid(reply->mtu) ||
	    !smcr_lgr_topology_ok(lgr))
		return -EPROTO; /* ERR-53 */
	int rc = smcr_link_connect(subject, reply->gid, reply->mac, reply->qpn, reply->psn,
				   reply->mtu);
	return rc ? rc : smcr_link_start(subject);
}

/** Deployed clients may reject after they have accepted, when something fails on their side later.
 */
static bool late_reject(const struct smcr_llc_flow *flow, const struct smcr_link *link,
			const struct smcr_llc_add_link *reply)
{
	return reply->reject && link == flow->carrier &&
	       (flow->step == SMCR_LLC_S_ADD_CONT || flow->step == SMCR_LLC_S_CONFIRM_ADDED) &&
	       reply->link_number == flow->subject->number;
}

/** Server: the client has given the new link up, and what it had said about it before comes now, on
 *  another link than that. */
static bool overtaken(const struct smcr_llc_flow *flow, uint8_t link_number)
{
	return flow->step == SMCR_LLC_S_DELETE && flow->subject->number == link_number &&
	       flow->subject->state == SMCR_LINK_FAILED;
}

/** Server: deployed clients that have answered DELETE LINK for a new link that they could not
 * confirm refuse it too, once, when the attempt is over already or the next one has begun. */
static bool refused_once_more(struct smcr_llc_flow *flow, const struct smcr_llc_add_link *reply)
{
	if (!reply->reject || !flow->add.given_up || reply->link_number != flow->add.given_up)
		return false;
	flow->add.given_up = 0;
	return true;
}

void smcr_llc_on_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (refused_once_more(flow, &msg->add_link))
		return;
	if (late_reject(flow, link, &msg->add_link)) {
		smcr_link_fail(flow->subject, SMCR_LLC_DEL_LOST_PATH, "the peer cannot use it");
		delete_subject(lgr);
		return;
	}
	if (overtaken(flow, msg->add_link.link_number))
		return;
	if (flow->step != SMCR_LLC_S_ADD || link != flow->carrier) {
		smcr_llc_unexpected(link, "unexpected ADD LINK reply");
		return;
	}
	lgr->fc.committed = true; /* ERR-8 */
	if (!flow->subject) {     /* we have offered nothing */
		smcr_llc_add_link_done(lgr);
		return;
	}
	if (msg->add_link.reject) { /* ADDL-6 */
		smcr_llc_link_agreed_gone(flow->subject);
		smcr_llc_add_failed(lgr, msg->add_link.reject_reason == SMCR_LLC_REJECT_INVALID_MTU
						 ? "the peer refuses the path MTU"
						 : "the peer has no alternate path");
		smcr_llc_add_link_done(lgr);
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
		delete_subject(lgr);
		return;
	}
	if (!smcr_lgr_is_v2(lgr)) {
		smcr_llc_enter(lgr, SMCR_LLC_S_ADD_CONT, link, flow->subject);
		send_cont(lgr, false);
	} else if (take_rtokens(lgr)) {
		smcr_llc_confirm_added(lgr); /* ADDL-12 */
	} else {
		smcr_link_fail(flow->subject, SMCR_LLC_DEL_PROTOCOL_VIOLATION,
			       "the peer has told no RToken for an RMB in use");
		delete_subject(lgr);
	}
}

void smcr_llc_on_add_link_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (overtaken(flow, msg->add_link_cont.link_number))
		return;
	if (flow->step != SMCR_LLC_S_ADD_CONT || link != flow->carrier)
		smcr_llc_protocol_error(link, "unexpected ADD LINK CONTINUATION reply");
	else if (!take_cont(lgr, &msg->add_link_cont))
		rtokens_wrong(link);
	else if (flow->subject->state == SMCR_LINK_FAILED)
		delete_subject(lgr);
	else if (flow->own_next < flow->own_count || flow->peer_left) {
		smcr_llc_enter(lgr, SMCR_LLC_S_ADD_CONT, link, flow->subject);
		send_cont(lgr, false);
	} else {
		smcr_llc_confirm_added(lgr); /* ADDL-12 */
	}
}

/** The client has an RNIC more (ADDL-16). Nothing of the message is relied on (A29), so what comes
 *  while an exchange runs need not be kept: that something is wanted is enough (SER-4). */
void smcr_llc_on_add_link_notice(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	const struct smcr_link *odd = smcr_lgr_asymmetric_link(lgr);
	unsigned int symmetric = smcr_lgr_symmetric_links(lgr);
	bool one_client_rnic =
		odd && smcr_llc_peer_rnic_in_use(lgr, odd->peer_gid, odd->peer_mac, odd);
	(void)msg;
	if (smcr_add_link_notice_decide(symmetric + (odd ? 1 : 0), odd, one_client_rnic,
					lgr->max_links) != SMCR_NOTICE_IGNORE)
		smcr_llc_want_link(lgr, SMCR_ADD_NOTICE);
}

/* ---- client ---- */

static void reject(struct smcr_link *carrier, const struct smcr_llc_add_link *request,
		   uint8_t reason)
{
	struct smcr_lgr *lgr = carrier->lgr;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK, .reply = true };
	msg.add_link = *request;
	msg.add_link.reject = true;
	if (!smcr_lgr_is_v2(lgr)) /* there deployed peers give none */
		msg.add_link.reject_reason = reason;
	smcr_llc_send(carrier, &msg);
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && !smcr_link_usable(carrier))
		return;           /* it could not be sent: the lost link decides (ERR-18) */
	lgr->fc.committed = true; /* ERR-8: a negative reply counts when it is sent */
	smcr_llc_add_link_done(lgr);
}

/** The RNIC to accept on, or NULL (ADDL-3). The asymmetric link does not count: it goes when the
 * new one takes its place (LG-5). */
static struct smcr_device *choose_device(const struct smcr_lgr *lgr,
					 const struct smcr_llc_add_link *request)
{
	const struct smcr_link *odd = smcr_lgr_asymmetric_link(lgr);
	bool odd_again =
		odd && smcr_same_rnic(odd->peer_gid, odd->peer_mac, request->gid, request->mac);
	struct smcr_device *unused = smcr_llc_unused_device(lgr, odd_again ? NULL : odd);
	bool server_rnic_new = !smcr_llc_peer_rnic_in_use(lgr, request->gid, request->mac, odd);
	switch (smcr_add_link_decide(server_rnic_new, unused != NULL, odd != NULL)) {
	case SMCR_ADD_LINK_ON_UNUSED: return unused;
	case SMCR_ADD_LINK_ON_USED: return smcr_llc_used_device(lgr);
	case SMCR_ADD_LINK_REJECT: break;
	}
	return NULL;
}

/** ADDL-4. @return 0 or why we cannot have the link */
static int set_up(struct smcr_lgr *lgr, struct smcr_link *carrier,
		  const struct smcr_llc_add_link *request)
{
	struct smcr_device *device = choose_device(lgr, request);
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
	if (v2 && !take_rtokens(lgr)) {
		smcr_llc_link_agreed_gone(link);
		return -EPROTO;
	}
	send_add_link(lgr, true);
	return 0;
}

/** Is an own RMB being announced? Whether the server knows it should be known before RMBs are
 * listed, so the listing waits for the end of that exchange. */
static bool announcing(const struct smcr_llc_flow *flow)
{
	return flow->rkey.step == SMCR_RKEY_CONFIRM && !flow->cont_overdue;
}

/** The listing waits; not for long, as deployed servers wait two seconds. */
static void hasten_announcement(struct smcr_lgr *lgr)
{
	smcr_timer_start(lgr->engine, &lgr->llc->rkey.timer, lgr->engine->config.llc_timeout / 8);
}

/** Version 2, where the answer itself lists the RMBs. */
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
	lgr->fc.committed |= smcr_lgr_is_v2(lgr); /* as the server is that sends it */
	if (!smcr_mtu_valid(request->mtu)) {
		smcr_row(lgr, SMCR_ROW_ERR_52);
		reject(link, request, SMCR_LLC_REJECT_INVALID_MTU); /* ERR-52 */
	} else if (!request->link_number || smcr_lgr_link_by_number(lgr, request->link_number)) {
		smcr_llc_protocol_error(link, "ADD LINK with a number that is in use");
	} else if (set_up(lgr, link, request)) {
		reject(link, request, SMCR_LLC_REJECT_NO_ALT_PATH); /* ADDL-5 */
	}
}

/** More CONTINUATIONs are due from the server as long as either side has RTokens left. */
static bool more_due(const struct smcr_llc_flow *flow)
{
	return flow->peer_left || flow->own_next < flow->own_count;
}

void smcr_llc_on_add_link_cont(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow->step == SMCR_LLC_C_AWAIT_DELETE ||
	    (flow->add.given_up && msg->add_link_cont.link_number == flow->add.given_up))
		return; /* we have given the new link up */
	if (flow->step != SMCR_LLC_C_AWAIT_ADD_CONT || link != flow->carrier) {
		smcr_llc_protocol_error(link, "unexpected ADD LINK CONTINUATION");
		return;
	}
	lgr->fc.committed = true; /* ERR-8: it shows that our reply was delivered */
	if (announcing(flow) && !flow->peer_counted) {
		/* ADD LINK may have overtaken the reply, on another link. */
		flow->held_cont = msg->add_link_cont;
		flow->cont_held = true;
		hasten_announcement(lgr);
		return;
	}
	if (!flow->peer_counted)
		list_own_rmbs(flow, lgr);
	if (!take_cont(lgr, &msg->add_link_cont)) {
		rtokens_wrong(link);
		return;
	}
	send_cont(lgr, true);
	smcr_llc_enter(lgr,
		       more_due(flow) ? SMCR_LLC_C_AWAIT_ADD_CONT : SMCR_LLC_C_AWAIT_CONFIRM_ADDED,
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
