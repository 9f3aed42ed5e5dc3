/* SPDX-License-Identifier: MIT */
/*
 * First contact: the exchange that proves link 1 (RFC 7609 3.5.1.4, 3.5.1.5, A.3.1), and how a
 * first contact fails, at any step (C.2, C.3, C.7). The ADD LINK that follows is in llc_add_link.c.
 */
#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_confirm_link.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/llc_links.h"

/* ---- rules ---- */

uint8_t smcr_llc_negotiate_max_links(uint8_t server, uint8_t client)
{
	if (server < 2)
		return 2;
	if (server > SMCR_MAX_LINKS)
		server = SMCR_MAX_LINKS;
	if (client == 0 || client > server)
		return server;
	return client < 2 ? 2 : client;
}

enum smcr_dialect smcr_llc_choose_dialect(enum smcr_dialect_policy policy, uint8_t request_flags,
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

/* ---- CONFIRM LINK on link 1 ---- */

void smcr_llc_first_contact(struct smcr_lgr *lgr, struct smcr_link *link)
{
	if (lgr->role == SMCR_ROLE_CLIENT) {
		smcr_llc_enter(lgr, SMCR_LLC_C_AWAIT_CONFIRM_FIRST, link, NULL); /* RV-6 */
		return;
	}
	uint8_t limit = smcr_lgr_is_v2(lgr) ? lgr->max_links : lgr->engine->config.max_links;
	struct smcr_llc_msg msg = smcr_llc_confirm_link_of(link, false, limit);
	lgr->llc->request = msg.confirm_link;
	smcr_llc_enter(lgr, SMCR_LLC_S_CONFIRM_FIRST, link, NULL);
	smcr_llc_send(link, &msg); /* RV-8 */
	smcr_llc_expect_completion(lgr);
}

/** Note what the first CONFIRM LINK decides for the whole life of the group. In version 2 CLC has
 * decided that. */
static void settle(struct smcr_lgr *lgr, const struct smcr_llc_confirm_link *request,
		   const struct smcr_llc_confirm_link *reply)
{
	lgr->dialect_known = true;
	if (smcr_lgr_is_v2(lgr))
		return;
	lgr->max_links = smcr_llc_negotiate_max_links(request->max_links, reply->max_links);
	if (request->max_links < 2 || reply->max_links == 1 ||
	    reply->max_links > request->max_links)
		smcr_log_peer(lgr->engine, &lgr->peer, LOG_NOTICE, "link limits",
			      "group %u: link limits %u and %u break the rules; %u is used",
			      lgr->id, request->max_links, reply->max_links, lgr->max_links);
	lgr->dialect = smcr_llc_choose_dialect(lgr->dialect_policy, request->flags, reply->flags);
}

/** Version 2 has the deployed dialect only: does the peer agree? */
static bool dialect_ok(struct smcr_lgr *lgr, const struct smcr_llc_confirm_link *c)
{
	if (!smcr_lgr_is_v2(lgr) || c->flags & SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER)
		return true;
	smcr_llc_first_contact_failed(lgr, SMCR_REASON_EYE_CATCHER, EPROTO);
	return false;
}

/** There will be no second link: the first contact is over with link 1. */
static void one_link_is_enough(struct smcr_lgr *lgr)
{
	lgr->fc.committed = true;
	smcr_llc_end(lgr, SMCR_LLC_SUCCEEDED, NULL);
}

/* ---- client: CONFIRM LINK has come ---- */

static void answer_first(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	uint8_t limit = smcr_lgr_is_v2(lgr) ? lgr->max_links : lgr->engine->config.max_links;
	if (!smcr_lgr_is_v2(lgr) && request->max_links >= 2 && request->max_links < limit)
		limit = request->max_links;
	struct smcr_llc_msg reply = smcr_llc_confirm_link_of(link, true, limit);
	settle(lgr, request, &reply.confirm_link);
	smcr_llc_set_active(link, request);
	smcr_llc_links_changed(lgr);
	smcr_llc_enter(lgr, SMCR_LLC_C_AWAIT_ADD, link, NULL);
	smcr_llc_send(link, &reply); /* RV-9 */
	if (lgr->max_links == 1 && smcr_link_usable(link))
		one_link_is_enough(lgr);
	else /* if the reply could not be sent, the loss of the link decides (ERR-18) */
		smcr_llc_expect_completion(lgr);
}

void smcr_llc_first_link_asked(struct smcr_link *link, const struct smcr_llc_confirm_link *request)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!smcr_llc_right_sender(link, request) || !request->link_number) {
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
	if (!smcr_llc_prove(link, request))
		answer_first(link, request);
}

/* Our reply to CONFIRM LINK has arrived, so the server relies on the link. It seems that the server
 * cannot add another one. */
bool smcr_llc_go_on_with_one_link(struct smcr_lgr *lgr)
{
	if (!smcr_lgr_is_v2(lgr) || lgr->fc.declining ||
	    smcr_link_llc_posted(lgr->llc->carrier, SMCR_LLC_CONFIRM_LINK))
		return false;
	one_link_is_enough(lgr);
	return true;
}

/* ---- server: the reply has come ---- */

/** Version 2: no second link can be set up now, but the client waits for ADD LINK. Send an ADD LINK
 * with an MTU that any client refuses at once. */
static void offer_nothing(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_ADD_LINK };
	memcpy(msg.add_link.mac, link->local_mac, SMCR_MAC_LEN);
	memcpy(msg.add_link.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(msg.add_link.target_gid, link->local_gid, SMCR_GID_LEN);
	msg.add_link.direct = lgr->v2.direct;
	smcr_llc_add_attempt(lgr); /* another attempt follows later */
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
	smcr_llc_set_active(link, reply);
	struct smcr_device *device = smcr_llc_add_candidate(lgr, true);
	smcr_llc_links_changed(lgr);
	/* Deployed clients of version 2 are past their point of no return now, or soon: they go on
	 * with one link if no ADD LINK comes. */
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

/* ---- the path is proven, or needs no proof ---- */

void smcr_llc_first_link_proved(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm)
{
	if (link->lgr->role == SMCR_ROLE_SERVER)
		first_confirmed(link, confirm);
	else
		answer_first(link, confirm);
}

/* ---- the first contact is over ---- */

void smcr_llc_first_contact_over(struct smcr_lgr *lgr)
{
	/* If the only link has just failed, the gate does not open: the failure is about to be
	 * handled. */
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && smcr_lgr_any_link(lgr, NULL))
		smcr_clc_first_contact_done(lgr); /* RV-12 */
}

/* ---- the first contact breaks ---- */

void smcr_llc_expect_completion(struct smcr_lgr *lgr)
{
	const struct smcr_config *config = &lgr->engine->config;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT)
		smcr_timer_start(lgr->engine, &lgr->llc->send_timer,
				 lgr->role == SMCR_ROLE_SERVER ? config->fc_send_timeout_server
							       : config->fc_send_timeout_client);
}

/** Has the last message or write of ours been delivered, so that at least small packets pass? */
static bool something_passes(const struct smcr_llc_flow *flow)
{
	const struct smcr_link *carrier = flow->carrier;
	if (flow->proving)
		return flow->proving->passed > 0;
	if (!smcr_llc_step_row(flow->step)->sent.type || !carrier)
		return false; /* no message of ours is on its way */
	return !smcr_link_llc_posted(carrier, SMCR_LLC_CONFIRM_LINK) &&
	       !smcr_link_llc_posted(carrier, SMCR_LLC_ADD_LINK);
}

bool smcr_llc_is_overdue(const struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	return lgr->state == SMCR_LGR_FIRST_CONTACT && flow->step != SMCR_LLC_IDLE &&
	       !something_passes(flow) &&
	       lgr->engine->now - flow->entered >= lgr->engine->config.fc_send_timeout_server / 2;
}

void smcr_llc_first_contact_failed(struct smcr_lgr *lgr, enum smcr_reason reason, int error)
{
	struct smcr_conn *conn = lgr->fc.conn;
	bool may_decline = !lgr->fc.committed;
	smcr_lgr_end(lgr, error);
	if (conn && may_decline) {
		smcr_row(lgr, SMCR_ROW_ERR_18);
		smcr_clc_decline(conn, reason, false);
	} else if (conn) {
		smcr_clc_fail(conn, error, reason); /* ERR-7 */
	}
}

/** The reason for CLC if the first contact fails at this step. */
static enum smcr_reason reason_of(const struct smcr_llc_flow *flow)
{
	bool first_link = smcr_llc_exchange_of(flow->step) == SMCR_EXCHANGE_FIRST_LINK;
	return first_link ? SMCR_REASON_CONFIRM_LINK_FAILED : SMCR_REASON_ADD_LINK_FAILED;
}

/*
 * The link of a first contact is lost. Before the own point of no return this ends in a Decline,
 * but not always at once:
 * - The server's ADD LINK may have arrived although its completion was not seen yet. Then the
 *   client may be past its own point of no return and rely on the link (ERR-8). The completion,
 *   good or flushed, will tell.
 * - Both sides may see the loss at the same time, and neither may read what comes after its own
 *   Decline: Declines that cross reach the programs as data. So the client waits some time for the
 *   server's Decline before it sends its own. (The RFC leaves this open.) It does not wait if
 *   packets were too large: small ones pass, so no message of the server is lost.
 */
void smcr_llc_first_contact_link_lost(struct smcr_lgr *lgr)
{
	struct smcr_engine *engine = lgr->engine;
	struct smcr_llc_flow *flow = lgr->llc;
	bool server = lgr->role == SMCR_ROLE_SERVER;
	enum smcr_reason reason = flow->carrier->too_large ? SMCR_REASON_PATH_MTU : reason_of(flow);
	if (lgr->fc.committed || lgr->fc.declining || flow->carrier->too_large ||
	    (server && !smcr_link_llc_posted(flow->carrier, SMCR_LLC_ADD_LINK))) {
		smcr_llc_first_contact_failed(lgr, reason, ECONNRESET);
		return;
	}
	lgr->fc.declining = true;
	smcr_timer_stop(engine, &flow->timer);
	smcr_timer_start(engine, &flow->send_timer,
			 server ? engine->config.fc_send_timeout_server
				: engine->config.fc_send_timeout_client);
}

/** Our last message, or a write of the proof, was not delivered in time. */
static void on_send_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	bool on_subject = smcr_llc_step_row(flow->step)->sent.on == SMCR_ON_SUBJECT;
	struct smcr_link *link = on_subject ? flow->subject : flow->carrier;
	if (flow->proving)
		link = flow->proving;
	(void)engine;
	if (!link) /* the loss of the link decides */
		return;
	if (lgr->fc.declining) {
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_CONFIRM_LINK_FAILED, ECONNRESET);
		return;
	}
	/* Link 1: decline the connection at once. Link 2: only that link fails (ERR-22). */
	lgr->fc.declining = link == flow->carrier;
	if (smcr_path_blame(link, link->tx_next - 1))
		return;
	link->path_dead = true;
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "an LLC message was not delivered in time");
}

void smcr_llc_first_contact_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow)
{
	smcr_timer_init(&flow->send_timer, on_send_timer, lgr);
}

/* The state of the peer is not known, so there is no fallback even before the point of no
 * return. */
void smcr_llc_first_contact_timed_out(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn = lgr->fc.conn;
	enum smcr_reason reason = reason_of(lgr->llc);
	smcr_log_peer(lgr->engine, &lgr->peer, LOG_WARNING, "first contact",
		      "does not answer in the first contact of group %u", lgr->id);
	smcr_lgr_end(lgr, ETIMEDOUT);
	if (conn)
		smcr_clc_fail(conn, ETIMEDOUT, reason);
}
