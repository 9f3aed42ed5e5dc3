/* SPDX-License-Identifier: MIT */
/*
 * LLC: what comes in goes to its exchange by type and role; what may run next is decided here; and
 * what an answer that does not come, or a failed link, means for each step (RFC 7609 C.7).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/engine/llc.h"
#include "daemon/engine/rendezvous.h"

/* ---- sending ---- */

static uint8_t number_of(const struct smcr_llc_msg *msg)
{
	switch (msg->type) {
	case SMCR_LLC_CONFIRM_LINK: return msg->confirm_link.link_number;
	case SMCR_LLC_ADD_LINK: return msg->add_link.link_number;
	case SMCR_LLC_DELETE_LINK: return msg->delete_link.link_number;
	default: return 0;
	}
}

static int encode(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg,
		  const struct smcr_llc_rtokens *rtokens, uint8_t *buf, size_t len)
{
	if (!smcr_lgr_is_v2(lgr))
		return smcr_llc_encode(msg, lgr->dialect, buf, len);
	struct smcr_llc_msg copy = *msg;
	copy.order = lgr->order;
	return smcr_llc_encode_v2(&copy, rtokens, buf, len);
}

void smcr_llc_send_rtokens(struct smcr_link *link, const struct smcr_llc_msg *msg,
			   const struct smcr_llc_rtokens *rtokens)
{
	uint8_t buf[SMCR_LLC_V2_SEND_MAX];
	struct smcr_tx_entry entry = { .kind = SMCR_TX_LLC,
				       .llc_type = msg->type,
				       .llc_reply = msg->reply,
				       .llc_number = number_of(msg) };
	int len = encode(link->lgr, msg, rtokens, buf, sizeof(buf));
	assert(len >= SMCR_LLC_LEN);
	int rc = smcr_link_post_llc(link, buf, (size_t)len, &entry);
	if (rc)
		smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "cannot queue an LLC message: %s",
			       strerror(-rc));
}

void smcr_llc_send(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	smcr_llc_send_rtokens(link, msg, NULL);
}

/** Is it the message that was posted last on the way to the next step? Completions may be seen
 * after the answer that they precede. */
static bool is_latest(const struct smcr_link *link, const struct smcr_tx_entry *entry)
{
	const struct smcr_llc_flow *flow = link->lgr->llc;
	bool add = entry->llc_type == SMCR_LLC_ADD_LINK;
	if (flow->proving)
		return false; /* its writes are */
	switch (flow->step) {
	case SMCR_LLC_S_CONFIRM_FIRST:
	case SMCR_LLC_C_AWAIT_ADD: return !add;
	case SMCR_LLC_S_ADD:
	case SMCR_LLC_C_AWAIT_ADD_CONT:
	case SMCR_LLC_C_AWAIT_CONFIRM_ADDED: return add; /* the latter: version 2 */
	case SMCR_LLC_S_CONFIRM_ADDED: return !add && link == flow->subject;
	default: return false;
	}
}

static void completion_came(struct smcr_link *link, const struct smcr_tx_entry *entry)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!lgr->fc.declining && is_latest(link, entry))
		smcr_timer_stop(lgr->engine, &lgr->llc->send_timer);
}

static void delete_link_sent(struct smcr_link *link, const struct smcr_tx_entry *entry)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_link *gone = smcr_lgr_link_by_number(lgr, entry->llc_number);
	if (lgr->llc->step == SMCR_LLC_S_DELETE_ALL && !entry->llc_number && !entry->llc_reply)
		smcr_lgr_end(lgr, lgr->end_error); /* DELL-8 */
	if (entry->llc_reply && gone && gone->delete_carrier == link)
		smcr_llc_link_agreed_gone(gone); /* DELL-2 */
}

void smcr_llc_sent(struct smcr_link *link, const struct smcr_tx_entry *entry, bool ok)
{
	struct smcr_lgr *lgr = link->lgr;
	bool server = lgr->role == SMCR_ROLE_SERVER;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && server && lgr->fc.declining &&
	    entry->llc_type == SMCR_LLC_ADD_LINK) {
		lgr->fc.committed = ok; /* ERR-8 */
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_ADD_LINK_FAILED, ECONNRESET);
		return;
	}
	if (!ok || !lgr->llc)
		return;
	switch (entry->llc_type) {
	case SMCR_LLC_CONFIRM_LINK: completion_came(link, entry); break;
	case SMCR_LLC_ADD_LINK:
		completion_came(link, entry);
		if (entry->llc_reply != server)
			lgr->fc.committed = true; /* ERR-8 */
		break;
	case SMCR_LLC_DELETE_LINK: delete_link_sent(link, entry); break;
	default: break;
	}
}

/* ---- the exchange about links ---- */

/** Version 2, server: the reply to a CONFIRM LINK that may be repeated. */
static bool awaits_confirm_reply(const struct smcr_lgr *lgr)
{
	return smcr_lgr_is_v2(lgr) && (lgr->llc->step == SMCR_LLC_S_CONFIRM_FIRST ||
				       lgr->llc->step == SMCR_LLC_S_CONFIRM_ADDED);
}

/* Version 2. */
#define REPEAT_CONFIRM_AFTER (UINT64_C(500) * 1000)      /* CONFIRM LINK */
#define ADD_LINK_WAIT        (UINT64_C(2) * 1000 * 1000) /* for the first ADD LINK */

static uint64_t answer_time(const struct smcr_lgr *lgr)
{
	uint64_t time = lgr->state == SMCR_LGR_FIRST_CONTACT ? lgr->engine->config.llc_fc_timeout
							     : lgr->engine->config.llc_timeout;
	uint64_t limit = UINT64_MAX;
	if (smcr_lgr_is_v2(lgr) && lgr->llc->step == SMCR_LLC_C_AWAIT_ADD)
		limit = ADD_LINK_WAIT;
	else if (awaits_confirm_reply(lgr) && !lgr->llc->repeated)
		limit = REPEAT_CONFIRM_AFTER;
	return time < limit ? time : limit;
}

void smcr_llc_enter(struct smcr_lgr *lgr, enum smcr_llc_step step, struct smcr_link *carrier,
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
	if (step == SMCR_LLC_IDLE) {
		smcr_timer_stop(lgr->engine, &flow->timer);
		smcr_llc_add_failed(lgr, "the exchange has failed");
		smcr_llc_kick(lgr);
	} else {
		smcr_timer_start(lgr->engine, &flow->timer, answer_time(lgr)); /* ERR-15 */
	}
}

void smcr_llc_expect_completion(struct smcr_lgr *lgr)
{
	const struct smcr_config *config = &lgr->engine->config;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT)
		smcr_timer_start(lgr->engine, &lgr->llc->send_timer,
				 lgr->role == SMCR_ROLE_SERVER ? config->fc_send_timeout_server
							       : config->fc_send_timeout_client);
}

/** Do small packets pass, as what we have said or written last was delivered?
 */
static bool something_passes(const struct smcr_llc_flow *flow)
{
	const struct smcr_link *carrier = flow->carrier;
	if (flow->proving)
		return flow->proving->passed > 0;
	if (flow->step == SMCR_LLC_C_AWAIT_CONFIRM_FIRST || !carrier)
		return false;
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

/**
 * The link of a first contact is lost. Before the own point of no return that ends in a Decline,
 * but not always at once:
 * - The server's ADD LINK may have been completed without our having seen it: then the client may
 *   be past its own point of no return and counts on the link (ERR-8). Its completion, good or
 *   flushed, tells.
 * - Both sides may see the loss at the same moment, and neither may read what comes after its own
 *   Decline: two that cross reach the programs as data. So the client gives the server's Decline
 *   the time to come before it sends its own. (The RFC leaves this open.) Not where packets are
 *   too large: small ones pass, and nothing that the server has sent is lost.
 */
static void first_contact_link_lost(struct smcr_lgr *lgr, enum smcr_reason reason)
{
	struct smcr_engine *engine = lgr->engine;
	struct smcr_llc_flow *flow = lgr->llc;
	bool server = lgr->role == SMCR_ROLE_SERVER;
	if (flow->carrier->too_large)
		reason = SMCR_REASON_PATH_MTU;
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

static void on_send_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *link =
		flow->step == SMCR_LLC_S_CONFIRM_ADDED ? flow->subject : flow->carrier;
	if (flow->proving)
		link = flow->proving;
	(void)engine;
	if (!link) /* its loss decides */
		return;
	if (lgr->fc.declining) {
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_CONFIRM_LINK_FAILED, ECONNRESET);
		return;
	}
	/* Link 1: a Decline has waited long enough. Link 2: only that goes (ERR-22). */
	lgr->fc.declining = link == flow->carrier;
	if (smcr_path_blame(link, link->tx_next - 1))
		return;
	link->path_dead = true;
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "an LLC message was not delivered in time");
}

/** A first contact in which the peer does not answer: the peer's state is unknown, so there is no
 *  fallback even before the point of no return. */
static void first_contact_timed_out(struct smcr_lgr *lgr, enum smcr_reason reason)
{
	struct smcr_conn *conn = lgr->fc.conn;
	smcr_log_peer(lgr->engine, &lgr->peer, LOG_WARNING, "first contact",
		      "does not answer in the first contact of group %u", lgr->id);
	smcr_lgr_end(lgr, ETIMEDOUT);
	if (conn)
		smcr_clc_fail(conn, ETIMEDOUT, reason);
}

/** The row of C.7.1 for the answer that did not come. */
static enum smcr_row row_of_timeout(const struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	bool first = lgr->state == SMCR_LGR_FIRST_CONTACT;
	switch (flow->step) {
	case SMCR_LLC_S_CONFIRM_FIRST: return SMCR_ROW_ERR_21;
	case SMCR_LLC_C_AWAIT_CONFIRM_FIRST: return SMCR_ROW_ERR_19;
	case SMCR_LLC_C_AWAIT_ADD: return SMCR_ROW_ERR_24;
	case SMCR_LLC_S_ADD: return first ? SMCR_ROW_ERR_25 : SMCR_ROW_ERR_26;
	case SMCR_LLC_S_ADD_CONT: return first ? SMCR_ROW_ERR_30_FIRST : SMCR_ROW_ERR_30;
	case SMCR_LLC_C_AWAIT_ADD_CONT:
		if (flow->peer_counted)
			return SMCR_ROW_ERR_32;
		return first ? SMCR_ROW_ERR_27_FIRST : SMCR_ROW_ERR_27;
	case SMCR_LLC_S_CONFIRM_ADDED: return first ? SMCR_ROW_ERR_22 : SMCR_ROW_ERR_23;
	case SMCR_LLC_C_AWAIT_CONFIRM_ADDED: return first ? SMCR_ROW_ERR_28 : SMCR_ROW_ERR_29;
	case SMCR_LLC_S_DELETE: return SMCR_ROW_ERR_36;
	case SMCR_LLC_S_DELETE_ALL: return SMCR_ROW_ERR_35;
	case SMCR_LLC_C_AWAIT_DELETE_ALL: return SMCR_ROW_ERR_34;
	case SMCR_LLC_C_AWAIT_DELETE:
	case SMCR_LLC_IDLE: break;
	}
	return SMCR_NUM_ROWS;
}

/** Version 2, client: our reply to CONFIRM LINK has arrived, so that the server counts on the link;
 *  it seems to be unable to add another one. */
static bool go_on_with_one_link(struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	if (!smcr_lgr_is_v2(lgr) || flow->step != SMCR_LLC_C_AWAIT_ADD || lgr->fc.declining ||
	    smcr_link_llc_posted(flow->carrier, SMCR_LLC_CONFIRM_LINK))
		return false;
	lgr->fc.committed = true;
	smcr_llc_add_link_done(lgr);
	return true;
}

/** The table of C.7.1: an expected answer did not come. */
static void on_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	bool first = lgr->state == SMCR_LGR_FIRST_CONTACT;
	if (awaits_confirm_reply(lgr) && smcr_llc_repeat_confirm(lgr)) {
		smcr_timer_start(engine, &flow->timer, answer_time(lgr));
		return;
	}
	if (go_on_with_one_link(lgr))
		return;
	if (flow->step == SMCR_LLC_S_DELETE && smcr_llc_repeat_delete(lgr))
		return;
	if (smcr_llc_add_link_overdue(lgr))
		return;
	enum smcr_row row = row_of_timeout(lgr);
	if (row != SMCR_NUM_ROWS)
		smcr_row(lgr, row);
	switch (flow->step) {
	case SMCR_LLC_S_CONFIRM_FIRST:       /* ERR-21 */
	case SMCR_LLC_C_AWAIT_CONFIRM_FIRST: /* ERR-19 */
	case SMCR_LLC_C_AWAIT_ADD:           /* ERR-24 */
		first_contact_timed_out(lgr, SMCR_REASON_CONFIRM_LINK_FAILED);
		break;
	case SMCR_LLC_S_ADD:            /* ERR-25, ERR-26 */
	case SMCR_LLC_S_ADD_CONT:       /* ERR-30 */
	case SMCR_LLC_C_AWAIT_ADD_CONT: /* ERR-27, ERR-31, ERR-32 */
		if (first)
			first_contact_timed_out(lgr, SMCR_REASON_ADD_LINK_FAILED);
		else
			smcr_link_fail(flow->carrier, SMCR_LLC_DEL_LOST_PATH,
				       "no answer to ADD LINK");
		break;
	case SMCR_LLC_S_CONFIRM_ADDED:       /* ERR-22, ERR-23 */
	case SMCR_LLC_C_AWAIT_CONFIRM_ADDED: /* ERR-28, ERR-29 */
		smcr_link_fail(flow->subject, SMCR_LLC_DEL_LOST_PATH, "CONFIRM LINK was not %s",
			       lgr->role == SMCR_ROLE_SERVER ? "answered" : "received");
		break;
	case SMCR_LLC_S_DELETE: /* ERR-36 */
		smcr_link_fail(flow->carrier, SMCR_LLC_DEL_LOST_PATH, "no answer to DELETE LINK");
		break;
	case SMCR_LLC_C_AWAIT_DELETE: break; /* ERR-33: the link's own timer */
	case SMCR_LLC_S_DELETE_ALL: smcr_lgr_end(lgr, lgr->end_error); break; /* ERR-35 */
	case SMCR_LLC_C_AWAIT_DELETE_ALL:                                     /* ERR-34 */
		smcr_link_fail(flow->carrier, SMCR_LLC_DEL_LOST_PATH, "no answer to DELETE LINK");
		break;
	case SMCR_LLC_IDLE: break;
	}
}

/* ---- a failed link ---- */

/** A link that was being deleted in order, and has become the last one that works: it stays until
 * there is another one. */
static void keep_last(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	if (link->state != SMCR_LINK_DEACTIVATING || !smcr_link_usable(link) ||
	    smcr_lgr_any_link(lgr, link))
		return;
	link->state = SMCR_LINK_ACTIVE;
	smcr_event_link_up(link);
	smcr_lgr_links_changed(lgr);
	smcr_lgr_rebalance(lgr);
}

/** The link that carries the exchange about links has failed. */
static void carrier_lost(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	bool first = lgr->state == SMCR_LGR_FIRST_CONTACT;
	switch (flow->step) {
	case SMCR_LLC_S_CONFIRM_FIRST:
	case SMCR_LLC_C_AWAIT_CONFIRM_FIRST:
	case SMCR_LLC_C_AWAIT_ADD:
		first_contact_link_lost(lgr, SMCR_REASON_CONFIRM_LINK_FAILED);
		break;
	case SMCR_LLC_S_ADD:
	case SMCR_LLC_S_ADD_CONT:
	case SMCR_LLC_C_AWAIT_ADD_CONT:
		if (first) {
			first_contact_link_lost(lgr, SMCR_REASON_ADD_LINK_FAILED);
			break;
		}
		smcr_llc_link_agreed_gone(flow->subject); /* both sides see the carrier fail */
		smcr_llc_enter(lgr, SMCR_LLC_IDLE, NULL, NULL);
		break;
	case SMCR_LLC_S_CONFIRM_ADDED: /* the new link can be confirmed without the carrier */
	case SMCR_LLC_C_AWAIT_CONFIRM_ADDED:
		if (first)
			first_contact_link_lost(lgr, SMCR_REASON_ADD_LINK_FAILED);
		else
			flow->carrier = NULL;
		break;
	case SMCR_LLC_S_DELETE: /* resent on another link, with one for the carrier (ERR-36) */
		if (first) {
			first_contact_link_lost(lgr, SMCR_REASON_ADD_LINK_FAILED);
			break;
		}
		flow->subject->delete_wanted = true;
		keep_last(flow->subject);
		smcr_llc_enter(lgr, SMCR_LLC_IDLE, NULL, NULL);
		break;
	case SMCR_LLC_C_AWAIT_DELETE: /* the request is resent on another link, or all is lost */
		if (first)
			first_contact_link_lost(lgr, SMCR_REASON_ADD_LINK_FAILED);
		break;
	case SMCR_LLC_S_DELETE_ALL:
	case SMCR_LLC_C_AWAIT_DELETE_ALL: smcr_llc_send_delete_all(lgr); break;
	case SMCR_LLC_IDLE: break;
	}
}

void smcr_llc_server_gave_up(struct smcr_lgr *lgr, const struct smcr_link *keep)
{
	struct smcr_llc_flow *flow = lgr->llc;
	bool half_built = flow->step == SMCR_LLC_C_AWAIT_ADD_CONT ||
			  flow->step == SMCR_LLC_C_AWAIT_CONFIRM_ADDED;
	if (half_built && flow->subject != keep)
		smcr_llc_link_agreed_gone(flow->subject);
	smcr_llc_enter(lgr, SMCR_LLC_IDLE, NULL, NULL);
}

static bool being_deleted(const struct smcr_link *link)
{
	return link->delete_carrier || link->agreed_gone;
}

/** Client: requests to delete that went out on a link that has failed now go out again (ERR-33). */
static void resend_requests(struct smcr_link *lost)
{
	struct smcr_lgr *lgr = lost->lgr;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || link->delete_carrier != lost)
			continue;
		link->delete_carrier = NULL;
		if (link->state == SMCR_LINK_DEACTIVATING) /* our reply was on its way (DELL-2) */
			smcr_llc_link_agreed_gone(link);
		else
			smcr_llc_request_delete(link);
	}
}

static bool alive(const struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	if (smcr_lgr_any_link(lgr, NULL))
		return true;
	return (flow->step == SMCR_LLC_S_CONFIRM_ADDED ||
		flow->step == SMCR_LLC_C_AWAIT_CONFIRM_ADDED) &&
	       smcr_link_usable(flow->subject);
}

void smcr_llc_link_lost(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (smcr_timer_running(&lgr->end_work))
		return;
	lgr->path_dead = lgr->path_dead || link->path_dead;
	smcr_llc_drop_queued(link);
	if (flow->peer_rkey.link == link)
		flow->peer_rkey.link = NULL;
	if (flow->rkey.link == link)
		smcr_llc_rkey_broken(lgr);
	bool subject = flow->subject == link;
	if (flow->carrier == link)
		carrier_lost(lgr);
	else if (subject)
		smcr_llc_add_link_subject_failed(lgr);
	if (smcr_timer_running(&lgr->end_work) || lgr->fc.declining)
		return;
	if (lgr->state != SMCR_LGR_TERMINATING && !alive(lgr)) {
		smcr_lgr_why(lgr, "its last link has failed: %s", link->last_error);
		smcr_lgr_end(lgr, ECONNRESET); /* FO-13 */
		return;
	}
	resend_requests(link);
	if (subject || being_deleted(link) || lgr->state == SMCR_LGR_TERMINATING)
		return;
	if (lgr->role == SMCR_ROLE_CLIENT) {
		smcr_llc_request_delete(link);
	} else {
		link->delete_wanted = true;
		smcr_llc_kick(lgr);
	}
}

/* ---- what may run next ---- */

void smcr_llc_kick(struct smcr_lgr *lgr)
{
	if (lgr->state != SMCR_LGR_TERMINATING && !smcr_timer_running(&lgr->llc->work))
		smcr_timer_start(lgr->engine, &lgr->llc->work, 0);
}

/** One that has failed just now goes when that has been dealt with, which kicks again. */
static void free_gone_links(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->agreed_gone &&
		    !smcr_timer_running(&lgr->links[i]->fail_work))
			smcr_link_free(lgr->links[i]);
}

/** One that may be deleted now: not what has become the last one that works, another one must come
 *  first. */
static struct smcr_link *find_delete_wanted(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && smcr_llc_delete_due(link) && smcr_lgr_any_link(lgr, link))
			return link;
	}
	return NULL;
}

/** A link has failed just now: what that means comes before anything new. */
static bool failing(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && smcr_timer_running(&lgr->links[i]->fail_work))
			return true;
	return false;
}

/** Server: an exchange about links, if one is due. @return true: started */
static bool start_link_exchange(struct smcr_lgr *lgr)
{
	smcr_llc_keep_needed(lgr);
	smcr_lgr_leave_drained(lgr);
	struct smcr_link *gone = find_delete_wanted(lgr);
	struct smcr_link *carrier = smcr_lgr_any_link(lgr, gone);
	if (!carrier || lgr->llc->peer_rkey.link)
		return false;
	if (gone) {
		smcr_llc_delete_link(lgr, gone, carrier);
		return true;
	}
	if (failing(lgr) || smcr_llc_rkey_unsettled(lgr))
		return false; /* the peer may know other RMBs than an ADD LINK would list */
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

static void dispatch(struct smcr_link *link, const struct smcr_llc_msg *msg);

/** Handle what the peer asked for meanwhile, in order, until it starts something (SER-5). */
static void serve_queue(struct smcr_lgr *lgr)
{
	struct smcr_link *link;
	struct smcr_llc_msg msg;
	while (lgr->llc->step == SMCR_LLC_IDLE && lgr->state != SMCR_LGR_TERMINATING &&
	       smcr_llc_dequeue(lgr, &link, &msg))
		dispatch(link, &msg);
}

/** Client: a link that has failed, or is not wanted, of which the server has not been told, or no
 *  more, for want of a link to carry it (DELL-5). */
static void ask_for_deletions(struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && !being_deleted(link) && !smcr_timer_running(&link->fail_work) &&
		    (link->state == SMCR_LINK_FAILED ||
		     (link->state == SMCR_LINK_ACTIVE && link->delete_wanted)))
			smcr_llc_request_delete(link);
	}
}

static void on_work(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	(void)engine;
	if (lgr->state == SMCR_LGR_TERMINATING)
		return;
	smcr_lgr_post_waiting_llc(lgr);
	free_gone_links(lgr);
	smcr_llc_add_link_resume(lgr);
	if (lgr->state == SMCR_LGR_FIRST_CONTACT)
		return;
	if (flow->step == SMCR_LLC_IDLE && !alive(lgr)) {
		smcr_lgr_why(lgr, "its last link is gone");
		smcr_lgr_end(lgr, ECONNRESET);
		return;
	}
	if (flow->step != SMCR_LLC_IDLE)
		return;
	if (lgr->role == SMCR_ROLE_CLIENT)
		smcr_llc_send_add_link_notice(lgr);
	if (flow->rkey.step != SMCR_RKEY_IDLE)
		return;
	serve_queue(lgr);
	if (flow->step != SMCR_LLC_IDLE || lgr->state == SMCR_LGR_TERMINATING)
		return;
	if (lgr->role == SMCR_ROLE_CLIENT) {
		ask_for_deletions(lgr);
		smcr_lgr_leave_drained(lgr);
	} else if (start_link_exchange(lgr)) {
		return;
	}
	start_rkey_exchange(lgr);
}

/* ---- receiving ---- */

enum receiver {
	BY_CLIENT = 1,
	BY_SERVER = 2,
	BY_BOTH = 3,
};

static const struct {
	uint8_t type;
	bool reply;
	enum receiver receiver;
	void (*handle)(struct smcr_link *link, const struct smcr_llc_msg *msg);
} handlers[] = {
	{ SMCR_LLC_CONFIRM_LINK, false, BY_CLIENT, smcr_llc_on_confirm_link },
	{ SMCR_LLC_CONFIRM_LINK, true, BY_SERVER, smcr_llc_on_confirm_link_reply },
	{ SMCR_LLC_ADD_LINK, false, BY_CLIENT, smcr_llc_on_add_link },
	{ SMCR_LLC_ADD_LINK, false, BY_SERVER, smcr_llc_on_add_link_notice },
	{ SMCR_LLC_ADD_LINK, true, BY_SERVER, smcr_llc_on_add_link_reply },
	{ SMCR_LLC_ADD_LINK_CONT, false, BY_CLIENT, smcr_llc_on_add_link_cont },
	{ SMCR_LLC_ADD_LINK_CONT, true, BY_SERVER, smcr_llc_on_add_link_cont_reply },
	{ SMCR_LLC_REQUEST_ADD_LINK, false, BY_SERVER, smcr_llc_on_request_add_link },
	{ SMCR_LLC_REQUEST_ADD_LINK, true, BY_CLIENT, smcr_llc_on_request_add_link_reply },
	{ SMCR_LLC_DELETE_LINK, false, BY_SERVER, smcr_llc_on_delete_link_request },
	{ SMCR_LLC_DELETE_LINK, false, BY_CLIENT, smcr_llc_on_delete_link },
	{ SMCR_LLC_DELETE_LINK, true, BY_SERVER, smcr_llc_on_delete_link_reply },
	{ SMCR_LLC_DELETE_LINK, true, BY_CLIENT, smcr_llc_on_delete_link_refused },
	{ SMCR_LLC_CONFIRM_RKEY, false, BY_BOTH, smcr_llc_on_confirm_rkey },
	{ SMCR_LLC_CONFIRM_RKEY, true, BY_BOTH, smcr_llc_on_confirm_rkey_reply },
	{ SMCR_LLC_CONFIRM_RKEY_CONT, false, BY_BOTH, smcr_llc_on_confirm_rkey_cont },
	{ SMCR_LLC_CONFIRM_RKEY_CONT, true, BY_BOTH, smcr_llc_on_confirm_rkey_cont_reply },
	{ SMCR_LLC_DELETE_RKEY, false, BY_BOTH, smcr_llc_on_delete_rkey },
	{ SMCR_LLC_DELETE_RKEY, true, BY_BOTH, smcr_llc_on_delete_rkey_reply },
	{ SMCR_LLC_TEST_LINK, false, BY_BOTH, smcr_llc_on_test_link },
	{ SMCR_LLC_TEST_LINK, true, BY_BOTH, smcr_llc_on_test_link_reply },
};

static void dispatch(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	enum receiver us = link->lgr->role == SMCR_ROLE_SERVER ? BY_SERVER : BY_CLIENT;
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].type == msg->type && handlers[i].reply == msg->reply &&
		    handlers[i].receiver & us) {
			handlers[i].handle(link, msg);
			return;
		}
	smcr_llc_protocol_error(link, "LLC message that the peer's role does not send");
}

void smcr_llc_protocol_error(struct smcr_link *link, const char *what)
{
	link->lgr->engine->count.llc_protocol_errors++;
	smcr_row(link->lgr, SMCR_ROW_ERR_63);
	smcr_link_fail(link, SMCR_LLC_DEL_PROTOCOL_VIOLATION, "protocol error: %s", what);
}

void smcr_llc_unexpected(struct smcr_link *link, const char *what)
{
	if (smcr_lgr_is_v2(link->lgr))
		link->lgr->engine->count.llc_dropped++;
	else
		smcr_llc_protocol_error(link, what);
}

static bool delete_all(const struct smcr_llc_msg *msg)
{
	return msg->type == SMCR_LLC_DELETE_LINK && !msg->reply && msg->delete_link.all;
}

/** A link carries messages of its group's version. Those of the other one are no error in version
 * 2; in version 1 they are of types that are neither defined nor optional (A.3). */
static int decode(struct smcr_lgr *lgr, const uint8_t *data, size_t len, struct smcr_llc_msg *msg,
		  struct smcr_llc_rtokens *rtokens)
{
	if (!smcr_lgr_is_v2(lgr))
		return smcr_llc_decode(data, len, lgr->dialect, msg);
	int rc = smcr_llc_decode_v2(data, len, msg, rtokens);
	if (!rc && lgr->order == SMCR_ORDER_UNKNOWN)
		lgr->order = msg->order;
	return rc;
}

static void recv_llc(struct smcr_link *link, const uint8_t *data, size_t len)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
	int rc = decode(lgr, data, len, &msg, &rtokens);
	/* The client has answered that the link goes; the server still has to hear so. */
	bool going = link->state == SMCR_LINK_DEACTIVATING && lgr->role == SMCR_ROLE_CLIENT &&
		     (rc || msg.type != SMCR_LLC_TEST_LINK);
	bool lost = link->state == SMCR_LINK_FAILED || going;
	bool own_setup = !rc && msg.type == SMCR_LLC_CONFIRM_LINK;
	/* While a server proves the path the client has confirmed the link, and may use it. */
	bool confirmed = lgr->llc->proving == link && lgr->role == SMCR_ROLE_SERVER;
	if (rc == -EOPNOTSUPP) {
		smcr_row(lgr, SMCR_ROW_ERR_61);
		lgr->engine->count.llc_dropped++;
	} else if (lost && (rc || !delete_all(&msg))) {
		smcr_row(lgr, SMCR_ROW_ERR_54);
		lgr->engine->count.llc_dropped++;
	} else if (lgr->state == SMCR_LGR_TERMINATING &&
		   (rc || (!delete_all(&msg) && msg.type != SMCR_LLC_TEST_LINK))) {
		lgr->engine->count.llc_dropped++; /* the group is over */
	} else if (rc) {
		smcr_llc_protocol_error(link, "malformed or unknown LLC message"); /* ERR-63 */
	} else if (link->state == SMCR_LINK_ACTIVATING && !own_setup && !confirmed) {
		smcr_llc_protocol_error(link, "link used before it was confirmed");
	} else {
		smcr_rows_collision(lgr, &msg);
		if (smcr_lgr_is_v2(lgr) && msg.type == SMCR_LLC_ADD_LINK)
			lgr->llc->rtokens = rtokens;
		dispatch(link, &msg);
	}
}

static void recv_cdc(struct smcr_link *link, const uint8_t *data, size_t len)
{
	struct smcr_engine *engine = link->lgr->engine;
	struct smcr_cdc cdc;
	if (smcr_cdc_decode(data, len, &cdc)) {
		smcr_llc_protocol_error(link, "malformed CDC message");
		return;
	}
	struct smcr_conn *conn = smcr_conn_by_token(engine, cdc.alert_token);
	if (!conn || conn->lgr != link->lgr) {
		engine->count.cdc_dropped_token++; /* CDC-5 */
		smcr_log(engine, LOG_DEBUG, "link %u/%u: CDC for an unknown connection dropped",
			 link->lgr->id, link->number);
		return;
	}
	conn->last_active = engine->now;
	engine->stats.rx.cdcs++;
	smcr_conn_cdc_input(conn, link, &cdc);
}

bool smcr_engine_recv_is_barrier(const uint8_t *data, size_t len)
{
	return smcr_cdc_is_failover(data, len) ||
	       (len == SMCR_LLC_LEN && (data[0] == SMCR_LLC_DELETE_LINK ||
					data[0] == SMCR_LLC_V2_TYPE + SMCR_LLC_DELETE_LINK));
}

void smcr_engine_recv(struct smcr_engine *engine, uint64_t link_ref, const uint8_t *data,
		      size_t len)
{
	struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (!link || smcr_timer_running(&link->lgr->end_work))
		return;
	link->last_active = engine->now;
	if (len && data[0] == SMCR_CDC_TYPE)
		recv_cdc(link, data, len);
	else
		recv_llc(link, data, len);
}

/* ---- life ---- */

static void on_rkey_retry(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	(void)engine;
	lgr->llc->rkey.hold = false;
	smcr_llc_kick(lgr);
}

int smcr_llc_init(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = calloc(1, sizeof(*flow));
	if (!flow)
		return -ENOMEM;
	smcr_timer_init(&flow->timer, on_timer, lgr);
	smcr_timer_init(&flow->send_timer, on_send_timer, lgr);
	smcr_timer_init(&flow->work, on_work, lgr);
	smcr_timer_init(&flow->rkey.retry, on_rkey_retry, lgr);
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
	smcr_timer_stop(lgr->engine, &flow->add.retry);
	free(flow);
	lgr->llc = NULL;
}

void smcr_llc_link_init(struct smcr_link *link)
{
	smcr_llc_delete_link_init(link);
	smcr_llc_test_link_init(link);
}

/** Nothing may point to a link that goes. */
void smcr_llc_link_free(struct smcr_link *link)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	smcr_timer_stop(lgr->engine, &link->delete_timer);
	smcr_timer_stop(lgr->engine, &link->test_timer);
	if (flow->carrier == link)
		flow->carrier = NULL;
	if (flow->subject == link)
		flow->subject = NULL;
	if (flow->proving == link)
		flow->proving = NULL;
	if (flow->rkey.link == link)
		smcr_llc_rkey_broken(lgr);
	if (flow->peer_rkey.link == link)
		flow->peer_rkey.link = NULL;
	smcr_llc_drop_queued(link);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *other = lgr->links[i];
		if (!other || other->delete_carrier != link)
			continue;
		other->delete_carrier = NULL;
		/* The server has gone on from our reply, whose completion nobody will see (DELL-2).
		 */
		if (other != link && other->state == SMCR_LINK_DEACTIVATING)
			smcr_llc_link_agreed_gone(other);
	}
}
