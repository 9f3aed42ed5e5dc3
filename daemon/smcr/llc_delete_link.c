/* SPDX-License-Identifier: MIT */
/*
 * DELETE LINK of one link (RFC 7609 3.5.4, 3.5.5.1.3, 3.5.5.1.4, A.3.4). DELETE LINK of all
 * links is in llc_delete_all.c.
 */
#include <errno.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"

/* ---- how far a deletion is ---- */

static void become(struct smcr_link *link, enum smcr_deletion_state state,
		   struct smcr_link *carrier)
{
	link->deletion.state = state;
	link->deletion.carrier = carrier;
}

static bool is_wanted(const struct smcr_link *link)
{
	return link->deletion.state == SMCR_DELETION_WANTED;
}

static void stop_timer(struct smcr_link *link)
{
	smcr_timer_stop(link->lgr->engine, &link->deletion.timer);
}

void smcr_llc_link_agreed_gone(struct smcr_link *link)
{
	become(link, SMCR_DELETION_AGREED, NULL);
	stop_timer(link);
	smcr_llc_kick(link->lgr);
}

/* ---- messages ---- */

struct smcr_llc_msg smcr_llc_delete_link_of(uint8_t number, uint32_t reason, bool reply)
{
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_LINK, .reply = reply };
	msg.delete_link.link_number = number;
	msg.delete_link.reason = reason;
	return msg;
}

/** How long connections may take to leave a link that is to be deleted in good order (DELL-5, A48).
 */
#define LEAVE_TIME (UINT64_C(5) * 1000 * 1000)

/** @param num_moved how many connections write on other links from now on */
static void tell_deleted(struct smcr_link *link, unsigned int num_moved, uint32_t reason)
{
	smcr_news_of_link(link, (struct smcr_news){ .type = SMCR_NEWS_LINK_DELETED,
						    .num_conns = num_moved,
						    .reason = reason });
}

/** A link that works is to be deleted: its connections move to other links, and it gets no new
 * ones. */
static void leave_in_order(struct smcr_link *link)
{
	link->disabled = true;
	tell_deleted(link, smcr_failover_move_all(link, NULL), link->deletion.reason);
}

/* ---- server: a deletion is wanted ---- */

bool smcr_llc_another_stays(const struct smcr_link *link)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *other = link->lgr->links[i];
		if (other && other != link && smcr_link_works(other) &&
		    other->deletion.state == SMCR_DELETION_NONE)
			return true;
	}
	return false;
}

/** An operator wants it, whatever it was for before: it is not taken back with that (drain.c,
 * smcr_llc_keep_asymmetric()). */
static void for_operator(struct smcr_link *link)
{
	link->deletion.reason = SMCR_LLC_DEL_OPERATOR;
	link->deletion.for_drain = false;
}

void smcr_llc_want_deletion(struct smcr_link *link, uint32_t reason)
{
	if (is_wanted(link) && reason == SMCR_LLC_DEL_OPERATOR)
		for_operator(link);
	if (is_wanted(link) || link->state != SMCR_LINK_ACTIVE)
		return;
	become(link, SMCR_DELETION_WANTED, NULL);
	link->deletion.reason = reason;
	smcr_timer_start(link->lgr->engine, &link->deletion.timer, LEAVE_TIME);
	leave_in_order(link);
	smcr_llc_kick(link->lgr);
}

void smcr_llc_cancel_deletion(struct smcr_link *link)
{
	become(link, SMCR_DELETION_NONE, NULL);
	link->disabled = link->deletion.for_drain = false;
	stop_timer(link);
	smcr_news_of_link(link, (struct smcr_news){ .type = SMCR_NEWS_LINK_KEPT });
	smcr_llc_kick(link->lgr); /* another link may be deleted now (drain.c) */
}

/** May the deletion begin, because no request of ours is outstanding on the link, or because
 * LEAVE_TIME is over? */
static bool is_due(const struct smcr_link *link)
{
	bool busy = link->num_conns || link->num_named || link->tx_done < link->tx_next;
	return is_wanted(link) && (link->state != SMCR_LINK_ACTIVE || !busy ||
				   !smcr_timer_running(&link->deletion.timer));
}

/* The last link that works stays until there is another one (A54). */
struct smcr_link *smcr_llc_deletion_due(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && is_due(link) && smcr_lgr_any_link(lgr, link))
			return link;
	}
	return NULL;
}

void smcr_llc_link_less_busy(struct smcr_link *link)
{
	if (link->state == SMCR_LINK_ACTIVE && is_due(link))
		smcr_llc_kick(link->lgr);
}

/* ---- server: the order goes out, the reply comes ---- */

void smcr_llc_order_deletion(struct smcr_lgr *lgr, struct smcr_link *link,
			     struct smcr_link *carrier)
{
	struct smcr_llc_msg msg =
		smcr_llc_delete_link_of(link->number, link->deletion.reason, false);
	msg.delete_link.orderly = link->state != SMCR_LINK_FAILED;
	bool added = smcr_llc_exchange_of(lgr->llc->step) == SMCR_EXCHANGE_ADD_LINK;
	if (added)
		lgr->llc->add.abandoned = link->number;
	become(link, SMCR_DELETION_ORDERED, NULL);
	stop_timer(link);
	if (link->state == SMCR_LINK_ACTIVE) {
		link->state = SMCR_LINK_DEACTIVATING;
		smcr_llc_links_changed(lgr);
		/* connections that have not moved in time move now */
		tell_deleted(link, smcr_failover_leave(link), link->deletion.reason);
	}
	smcr_llc_enter(lgr, added ? SMCR_LLC_S_DELETE_ADDED : SMCR_LLC_S_DELETE, carrier, link);
	smcr_llc_send(carrier, &msg);
}

/** Is this the second reply to a DELETE LINK that was repeated? Nothing waits for it. */
static bool is_spare_reply(struct smcr_link *link)
{
	if (!link->deletions_repeated)
		return false;
	link->deletions_repeated--;
	link->lgr->engine->count.llc_dropped++;
	return true;
}

/** Should another link take the place of this one (ADDL-14)? */
static bool missed(const struct smcr_link *link)
{
	return link->lgr->llc->step == SMCR_LLC_S_DELETE &&
	       link->deletion.reason != SMCR_LLC_DEL_OPERATOR &&
	       link->deletion.reason != SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED;
}

void smcr_llc_on_delete_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (!smcr_llc_awaits(link, msg) || msg->delete_link.link_number != flow->subject->number) {
		if (!is_spare_reply(link))
			smcr_llc_unexpected(link, "unexpected DELETE LINK reply");
		return;
	}
	if (missed(flow->subject))
		smcr_llc_want_link(lgr, SMCR_ADD_LOSS);
	else if (flow->subject->deletion.reason == SMCR_LLC_DEL_OPERATOR)
		smcr_llc_link_goes(flow->subject, true);
	smcr_llc_link_agreed_gone(flow->subject); /* DELL-1 */
	if (flow->step == SMCR_LLC_S_DELETE_ADDED)
		smcr_llc_end(lgr, SMCR_LLC_FAILED, "the new link could not be used");
	else
		smcr_llc_end(lgr, SMCR_LLC_SUCCEEDED, NULL);
}

/* ---- server: the reply does not come, or the carrier is lost ---- */

/** How often the pause before the next repetition doubles. DELETE LINK is first repeated after
 * twice the time for an answer, so that TEST LINK has had its time; then less and less often. */
#define MAX_DOUBLINGS 6

bool smcr_llc_repeat_delete(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *link = flow->subject;
	struct smcr_llc_msg msg =
		smcr_llc_delete_link_of(link->number, link->deletion.reason, false);
	if (lgr->state == SMCR_LGR_FIRST_CONTACT || !smcr_llc_carrier_may_stay(flow->carrier))
		return false;
	if (flow->repeated < MAX_DOUBLINGS)
		flow->repeated++;
	smcr_timer_start(lgr->engine, &flow->timer,
			 lgr->engine->config.llc_timeout << flow->repeated);
	msg.delete_link.orderly = link->state != SMCR_LINK_FAILED;
	flow->carrier->deletions_repeated++;
	smcr_llc_send(flow->carrier, &msg);
	return true;
}

/** A link that was being deleted in good order is now the last one that works: use it again until
 * there is another one. */
static void use_last_again(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	if (link->state != SMCR_LINK_DEACTIVATING || !smcr_link_usable(link) ||
	    smcr_lgr_any_link(lgr, link))
		return;
	link->state = SMCR_LINK_ACTIVE;
	smcr_news_of_link(link, (struct smcr_news){ .type = SMCR_NEWS_LINK_KEPT });
	smcr_llc_links_changed(lgr);
	smcr_failover_rebalance(lgr);
}

/* Send DELETE LINK again on another link, and one for the failed carrier (ERR-36). */
void smcr_llc_delete_link_carrier_lost(struct smcr_lgr *lgr)
{
	struct smcr_link *subject = lgr->llc->subject;
	become(subject, SMCR_DELETION_WANTED, NULL);
	use_last_again(subject);
	smcr_llc_end(lgr, SMCR_LLC_FAILED, "the link that carried the exchange has failed");
}

/* ---- server: the client asks ---- */

/** The client asks for the deletion of one link. The server answers with a DELETE LINK of its own
 * (DELL-6). */
static void delete_requested(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	const struct smcr_llc_delete_link *request = &msg->delete_link;
	struct smcr_link *target = smcr_lgr_link_by_number(lgr, request->link_number);
	bool adding = smcr_llc_exchange_of(flow->step) == SMCR_EXCHANGE_ADD_LINK;
	if (!target || target->deletion.state == SMCR_DELETION_AGREED) {
		/* the client may believe that its reply to our DELETE LINK was lost (A63) */
		smcr_row(lgr, SMCR_ROW_ERR_56); /* ERR-56 */
		struct smcr_llc_msg reply = smcr_llc_delete_link_of(
			request->link_number, SMCR_LLC_DEL_UNKNOWN_LINK, true);
		smcr_llc_send(link, &reply);
	} else if (adding && target == flow->subject) {
		/* The exchange that adds the link has failed: the client will send nothing more
		 * about the link. */
		bool works = flow->carrier && smcr_link_works(flow->carrier);
		smcr_link_fail(target, request->reason, "the peer cannot use it");
		smcr_llc_order_deletion(lgr, target, works ? flow->carrier : link);
	} else if (target->state == SMCR_LINK_FAILED || target->state == SMCR_LINK_DEACTIVATING) {
		smcr_row(lgr, SMCR_ROW_ERR_56_KNOWN); /* the link is being deleted already */
	} else if (!request->orderly && (flow->carrier == target || flow->rkey.link == target)) {
		/* The running exchange needs this link and fails with it (3.5.5.3), so the request
		 * need not wait. */
		smcr_link_fail(target, request->reason, "the peer asked to delete it");
	} else if (smcr_llc_collision(lgr, msg) == SMCR_QUEUE) {
		smcr_llc_queue(link, msg);
	} else if (request->orderly && (link != target || smcr_lgr_any_link(lgr, target))) {
		/* If the link that carries the request goes, because of an order of ours that
		 * crossed the request, the client has not asked for the end of the group: the
		 * target stays until there is another link (A54). */
		smcr_llc_want_deletion(target, request->reason);
	} else if (request->orderly) { /* on the last link: the group ends with it (A47) */
		smcr_event_lgr_why_peer(lgr, "the peer asks for the end of its last link",
					request->reason);
		smcr_llc_delete_all(lgr, request->reason, ECONNRESET);
	} else {
		smcr_link_fail(target, request->reason, "the peer asked to delete it");
	}
}

void smcr_llc_on_delete_link_request(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_first_contact *fc = &link->lgr->fc;
	if (msg->delete_link.all && fc->conn) {
		fc->committed = true; /* the client is, so it gets an answer */
		smcr_clc_fail(fc->conn, ECONNRESET, SMCR_REASON_NONE);
	} else if (msg->delete_link.all) {
		smcr_event_lgr_why_peer(link->lgr, "the peer asks for its end",
					msg->delete_link.reason);
		smcr_llc_delete_all(link->lgr, msg->delete_link.reason, ECONNRESET); /* DELL-10 */
	} else {
		delete_requested(link, msg);
	}
}

/* ---- client: the server is asked ---- */

/** The link to ask on. For the new link of an ADD LINK exchange it is the carrier of that exchange,
 * so that the request does not overtake earlier messages there. */
static struct smcr_link *request_carrier(const struct smcr_link *link)
{
	const struct smcr_llc_flow *flow = link->lgr->llc;
	if (flow->subject == link && flow->carrier && smcr_link_works(flow->carrier))
		return flow->carrier;
	return smcr_lgr_any_link(link->lgr, link);
}

void smcr_llc_request_delete(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	const struct smcr_config *config = &lgr->engine->config;
	struct smcr_link *carrier = request_carrier(link);
	become(link, carrier ? SMCR_DELETION_ASKED : SMCR_DELETION_WANTED, carrier);
	if (!carrier) /* the request follows when there is one */
		return;
	uint64_t wait =
		lgr->state == SMCR_LGR_FIRST_CONTACT ? config->llc_fc_timeout : config->llc_timeout;
	struct smcr_llc_msg msg =
		smcr_llc_delete_link_of(link->number, link->deletion.reason, false);
	msg.delete_link.orderly = link->state == SMCR_LINK_ACTIVE;
	if (msg.delete_link.orderly)
		leave_in_order(link);
	carrier->deletions_asked++;
	smcr_timer_start(lgr->engine, &link->deletion.timer,
			 wait + (msg.delete_link.orderly ? LEAVE_TIME : 0));
	smcr_llc_send(carrier, &msg);
}

/* Deletions that are WANTED: there was no link to ask on, or the link that carried the request is
 * gone (DELL-5). */
void smcr_llc_ask_for_deletions(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && !smcr_deletion_begun(&link->deletion) &&
		    !smcr_timer_running(&link->fail_work) &&
		    (link->state == SMCR_LINK_FAILED ||
		     (link->state == SMCR_LINK_ACTIVE && is_wanted(link))))
			smcr_llc_request_delete(link);
	}
}

/** The server does not know a link that we have asked it to delete, so the link is gone. This may
 * be known already, if the server's own DELETE LINK came first, on another link. */
void smcr_llc_on_delete_link_refused(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_link *target = smcr_lgr_link_by_number(lgr, msg->delete_link.link_number);
	if (!link->deletions_asked) {
		smcr_llc_unexpected(link, "unexpected DELETE LINK reply");
		return;
	}
	link->deletions_asked--;
	if (!target || target->deletion.carrier != link || target->state == SMCR_LINK_DEACTIVATING)
		return;
	if (target->state == SMCR_LINK_ACTIVE) { /* asked for in good order: it is in use */
		become(target, SMCR_DELETION_NONE, NULL);
		smcr_link_fail(target, SMCR_LLC_DEL_LOST_PATH, "the peer does not know it");
		return;
	}
	bool exchange = lgr->llc->subject == target;
	smcr_llc_link_agreed_gone(target);
	if (exchange)
		smcr_llc_end(lgr, SMCR_LLC_GIVEN_UP, "the server has given it up");
}

/* ---- client: the server orders ---- */

/** Is it for an operator, of either side, that the server deletes the link? */
static bool operator_wants(const struct smcr_link *target, const struct smcr_llc_msg *order)
{
	return target->deletion.reason == SMCR_LLC_DEL_OPERATOR ||
	       order->delete_link.reason == SMCR_LLC_DEL_OPERATOR;
}

/** The server deletes a link; a client cannot refuse (DELL-2). */
static void delete_ordered(struct smcr_link *link, struct smcr_link *target,
			   const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg reply = smcr_llc_delete_link_of(target->number, 0, true);
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && target != flow->subject) {
		smcr_llc_protocol_error(link, "DELETE LINK for the first link in first contact");
		return;
	}
	if (smcr_llc_collision(lgr, msg) == SMCR_GAVE_UP)
		smcr_llc_server_gave_up(lgr, target);
	if (target->state != SMCR_LINK_FAILED)
		target->state = SMCR_LINK_DEACTIVATING;
	smcr_llc_links_changed(lgr);
	become(target, SMCR_DELETION_ANSWERED, link);
	stop_timer(target);
	if (flow->rkey.link == target)
		smcr_llc_rkey_broken(lgr);
	smcr_llc_send(link, &reply);
	tell_deleted(target, smcr_failover_leave(target), msg->delete_link.reason);
	if (target->was_active) /* else an attempt to add it ends, and has a pause of its own */
		smcr_llc_link_goes(target, operator_wants(target, msg));
	smcr_llc_kick(lgr);               /* there may be an RNIC to tell of now (drain.c) */
	smcr_llc_first_contact_over(lgr); /* RV-12, ERR-28 */
}

void smcr_llc_on_delete_link(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	uint8_t number = msg->delete_link.link_number;
	if (msg->delete_link.all) {
		smcr_event_lgr_why_peer(lgr, "the peer ends it", msg->delete_link.reason);
		smcr_clc_group_deleted(lgr);
		smcr_lgr_end(lgr, ECONNRESET); /* DELL-9 */
		return;
	}
	struct smcr_link *target = smcr_lgr_link_by_number(lgr, number);
	if (target && target->deletion.state != SMCR_DELETION_AGREED) {
		delete_ordered(link, target, msg);
		return;
	}
	struct smcr_llc_msg reply =
		smcr_llc_delete_link_of(number, SMCR_LLC_DEL_UNKNOWN_LINK, true);
	smcr_row(lgr, SMCR_ROW_ERR_57); /* ERR-57 */
	smcr_llc_send(link, &reply);
}

void smcr_llc_delete_replied(struct smcr_link *carrier, uint8_t number)
{
	struct smcr_link *link = smcr_lgr_link_by_number(carrier->lgr, number);
	if (link && link->deletion.carrier == carrier)
		smcr_llc_link_agreed_gone(link); /* DELL-2 */
}

/* ---- client: no order comes, or the carrier is lost ---- */

/** ERR-33: the server does not act on our request, so the link that carried the request is dead
 * too. */
static void on_delete_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_link *link = arg;
	struct smcr_link *carrier = link->deletion.carrier;
	if (is_wanted(link))
		smcr_llc_kick(link->lgr); /* server: LEAVE_TIME is over */
	if (!carrier)
		return;
	if (smcr_llc_carrier_may_stay(carrier)) {
		become(link, SMCR_DELETION_DOUBTED, carrier);
		smcr_timer_start(engine, &link->deletion.timer, 2 * engine->config.llc_timeout);
		return;
	}
	smcr_row(link->lgr, SMCR_ROW_ERR_33);
	smcr_link_fail(carrier, SMCR_LLC_DEL_LOST_PATH, "no answer to DELETE LINK");
}

/** Has the server forgotten a new link that was never in use? A deployed server that has given up a
 * link does not answer a request about it (ERR-56). Not in first contact, where the connection may
 * not be established before there is an answer (ERR-28). */
static bool is_forgotten(const struct smcr_link *link, const struct smcr_link *carrier)
{
	const struct smcr_deletion *deletion = &link->deletion;
	return link->lgr->state != SMCR_LGR_FIRST_CONTACT &&
	       deletion->state == SMCR_DELETION_DOUBTED && deletion->carrier == carrier &&
	       !link->was_active;
}

void smcr_llc_forget_new_links(struct smcr_link *carrier)
{
	struct smcr_lgr *lgr = carrier->lgr;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || !is_forgotten(link, carrier))
			continue;
		bool exchange = lgr->llc->subject == link;
		smcr_llc_link_agreed_gone(link);
		if (exchange)
			smcr_llc_end(lgr, SMCR_LLC_GIVEN_UP, "the server has given it up");
	}
}

/* ERR-33. */
void smcr_llc_ask_again(struct smcr_link *lost)
{
	struct smcr_lgr *lgr = lost->lgr;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || link->deletion.carrier != lost)
			continue;
		if (link->state == SMCR_LINK_DEACTIVATING) /* our reply was on its way (DELL-2) */
			smcr_llc_link_agreed_gone(link);
		else
			smcr_llc_request_delete(link);
	}
}

/* ---- either ---- */

void smcr_llc_delete_failed(struct smcr_link *link)
{
	if (smcr_deletion_begun(&link->deletion))
		return;
	if (link->lgr->role == SMCR_ROLE_CLIENT) {
		smcr_llc_request_delete(link);
		return;
	}
	become(link, SMCR_DELETION_WANTED, NULL);
	smcr_llc_kick(link->lgr);
}

/* LG-10: the server deletes, the client asks. */
void smcr_llc_delete_in_order(struct smcr_link *link)
{
	if (link->lgr->role == SMCR_ROLE_SERVER) {
		smcr_llc_want_deletion(link, SMCR_LLC_DEL_OPERATOR);
		return;
	}
	for_operator(link);
	if (!link->deletion.carrier)
		smcr_llc_request_delete(link);
}

void smcr_llc_delete_link_init(struct smcr_link *link)
{
	smcr_timer_init(&link->deletion.timer, on_delete_timer, link);
}

void smcr_llc_delete_link_free(struct smcr_link *link)
{
	const struct smcr_lgr *lgr = link->lgr;
	stop_timer(link);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *other = lgr->links[i];
		if (!other || other->deletion.carrier != link)
			continue;
		/* The server has had our reply, whose completion will not be seen (DELL-2). */
		if (other != link && other->state == SMCR_LINK_DEACTIVATING)
			smcr_llc_link_agreed_gone(other);
		else /* our request may be lost with the link: send it again (A54) */
			become(other, SMCR_DELETION_WANTED, NULL);
	}
}
