/* SPDX-License-Identifier: MIT */
/*
 * CONFIRM RKEY (with CONTINUATION) and DELETE RKEY announce and withdraw RMBs in a running group
 * (RFC 7609 3.5.5.2, A.3.5 to A.3.7). Each side has one exchange of its own at a time; the
 * exchanges of the two sides are independent (SER-3).
 */
#include <errno.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_rkey.h"

#define RETRIES_MAX 8

unsigned int smcr_llc_rkey_specs(unsigned int left, bool continuation)
{
	unsigned int room = continuation ? 3 : 2;
	return left < room ? left : room;
}

/* ---- own CONFIRM RKEY ---- */

static bool told_everywhere(const struct smcr_slab *slab)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = slab->lgr->links[i];
		if (link && link->state == SMCR_LINK_ACTIVE && !slab->reg[i].told)
			return false;
	}
	return true;
}

/** Client: is a link being added for which the own RMBs were listed without this RMB? */
static bool left_out(const struct smcr_slab *slab)
{
	const struct smcr_llc_flow *flow = slab->lgr->llc;
	if (smcr_llc_exchange_of(flow->step) != SMCR_EXCHANGE_ADD_LINK || !flow->peer_counted)
		return false;
	for (unsigned int i = 0; i < flow->own_count; i++)
		if (flow->own[i] == slab)
			return false;
	return true;
}

bool smcr_llc_rkey_due(const struct smcr_slab *slab)
{
	if (slab->state == SMCR_SLAB_NEW)
		return slab->used > 0 || slab->doubtful;
	return slab->state == SMCR_SLAB_READY && !told_everywhere(slab);
}

/** Is the link going to be deleted? That would break an exchange on it. */
static bool is_going(const struct smcr_link *link)
{
	return link->deletion.state != SMCR_DELETION_NONE;
}

static struct smcr_link *lasting_link(const struct smcr_lgr *lgr)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && smcr_link_works(lgr->links[i]) && !is_going(lgr->links[i]))
			return lgr->links[i];
	return smcr_lgr_any_link(lgr, NULL);
}

/** The link that the first connection of the RMB will use, if there is one (RKEY-2). */
static struct smcr_link *choose_carrier(const struct smcr_slab *slab)
{
	const struct smcr_conn *conn;
	DL_FOREACH2 (slab->lgr->conns, conn, lgr_next) {
		struct smcr_link *link = conn->rv.link;
		if (conn->rx.element.slab == slab && link && link->state == SMCR_LINK_ACTIVE)
			return link;
	}
	return lasting_link(slab->lgr);
}

/** Fill in the RTokens of the next message. For a link that is gone by now, tell the old RToken. */
static void fill_specs(struct smcr_lgr *lgr, struct smcr_llc_link_rtoken *specs, unsigned int n)
{
	struct smcr_llc_flow *flow = lgr->llc;
	for (unsigned int i = 0; i < n; i++) {
		const struct smcr_llc_told *told = &flow->rkey.other[flow->rkey.sent++];
		specs[i].link_number = told->number;
		specs[i].rkey = told->rkey;
		specs[i].vaddr = told->vaddr;
	}
}

static void send_confirm_rkey(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	const struct smcr_slab *slab = flow->rkey.slab;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY };
	msg.confirm_rkey.num_tokens = (uint8_t)flow->rkey.others;
	msg.confirm_rkey.rkey = slab->reg[flow->rkey.link->slot].rkey;
	msg.confirm_rkey.vaddr = slab->reg[flow->rkey.link->slot].vaddr;
	fill_specs(lgr, msg.confirm_rkey.other, smcr_llc_rkey_specs(flow->rkey.others, false));
	smcr_timer_start(lgr->engine, &flow->rkey.timer, lgr->engine->config.llc_timeout);
	smcr_llc_send(flow->rkey.link, &msg);
}

static void send_confirm_rkey_cont(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	unsigned int left = flow->rkey.others - flow->rkey.sent;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_CONFIRM_RKEY_CONT };
	msg.confirm_rkey_cont.num_left = (uint8_t)left;
	fill_specs(lgr, msg.confirm_rkey_cont.other, smcr_llc_rkey_specs(left, true));
	flow->rkey.continued = true;
	smcr_timer_start(lgr->engine, &flow->rkey.timer, lgr->engine->config.llc_timeout);
	smcr_llc_send(flow->rkey.link, &msg);
}

void smcr_llc_confirm_rkey(struct smcr_slab *slab)
{
	struct smcr_lgr *lgr = slab->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *carrier = choose_carrier(slab);
	flow->rkey.step = SMCR_RKEY_CONFIRM; /* RKEY-3: for the carrier, then for the others */
	flow->rkey.link = carrier;
	flow->rkey.slab = slab;
	flow->rkey.others = flow->rkey.sent = 0;
	flow->rkey.continued = false;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (link && link != carrier && link->state == SMCR_LINK_ACTIVE)
			flow->rkey.other[flow->rkey.others++] =
				(struct smcr_llc_told){ .ref = link->ref,
							.number = link->number,
							.rkey = slab->reg[i].rkey,
							.vaddr = slab->reg[i].vaddr };
	}
	if (slab->state == SMCR_SLAB_NEW)
		slab->state = SMCR_SLAB_ANNOUNCING;
	send_confirm_rkey(lgr);
}

static void own_done(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	smcr_timer_stop(lgr->engine, &flow->rkey.timer);
	flow->rkey.step = SMCR_RKEY_IDLE;
	flow->rkey.link = NULL;
	flow->rkey.slab = NULL;
	flow->rkey.num_slabs = 0;
	smcr_llc_kick(lgr);
}

/** The peer has all RTokens of the RMB (RKEY-1). */
static void confirmed(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_slab *slab = flow->rkey.slab;
	slab->reg[flow->rkey.link->slot].told = true;
	for (unsigned int i = 0; i < flow->rkey.others; i++) {
		struct smcr_link *link = smcr_link_by_ref(lgr->engine, flow->rkey.other[i].ref);
		if (link)
			slab->reg[link->slot].told = true;
	}
	/* The peer may have no RToken for a link that has become active meanwhile, or is about to.
	 * Then the RMB is announced once more before a connection uses it. */
	bool complete =
		slab->state == SMCR_SLAB_READY || (told_everywhere(slab) && !left_out(slab));
	slab->state = complete ? SMCR_SLAB_READY : SMCR_SLAB_NEW;
	slab->doubtful = !complete;
	if (!slab->used)
		smcr_timer_start(lgr->engine, &slab->idle, lgr->engine->config.rmb_idle_timeout);
	flow->rkey.retries = 0;
	own_done(lgr);
	if (complete)
		smcr_clc_slab_ready(slab);
}

/** A negative reply has come (RKEY-6, RKEY-7): announce the RMB again after the exchange that is
 * under way, or not at all. */
static void refused(struct smcr_lgr *lgr, bool retry)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_slab *slab = flow->rkey.slab;
	const struct smcr_config *config = &lgr->engine->config;
	bool again = retry && flow->rkey.retries++ < RETRIES_MAX;
	bool told = slab->state == SMCR_SLAB_READY; /* it was announced again only for a new link */
	if (slab->state == SMCR_SLAB_ANNOUNCING)
		slab->state = SMCR_SLAB_NEW;
	slab->doubtful &= again;
	if (again && flow->step == SMCR_LLC_IDLE) {
		/* No exchange runs here: the peer is about to begin one. */
		flow->rkey.hold = true;
		smcr_timer_start(lgr->engine, &flow->rkey.retry, config->llc_timeout / 40);
	} else if (!again && told) {
		flow->rkey.hold = true;
		smcr_timer_start(lgr->engine, &flow->rkey.retry, config->llc_timeout);
	}
	own_done(lgr);
	if (again)
		return;
	flow->rkey.retries = 0;
	smcr_log_peer(lgr->engine, &lgr->peer, LOG_NOTICE, "RMB refused",
		      "refuses an RMB of group %u", lgr->id);
	if (!told)
		smcr_clc_slab_refused(slab);
}

void smcr_llc_on_confirm_rkey_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	const struct smcr_llc_confirm_rkey *reply = &msg->confirm_rkey;
	if (flow->rkey.step != SMCR_RKEY_CONFIRM || flow->rkey.link != link ||
	    flow->rkey.continued || reply->rkey != flow->rkey.slab->reg[link->slot].rkey)
		smcr_llc_unexpected(link, "unexpected CONFIRM RKEY reply");
	else if (reply->negative)
		refused(lgr, reply->retry);
	else if (flow->rkey.sent < flow->rkey.others)
		send_confirm_rkey_cont(lgr);
	else
		confirmed(lgr);
}

void smcr_llc_on_confirm_rkey_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow->rkey.step != SMCR_RKEY_CONFIRM || flow->rkey.link != link ||
	    !flow->rkey.continued)
		smcr_llc_protocol_error(link, "unexpected CONFIRM RKEY CONTINUATION reply");
	else if (msg->confirm_rkey_cont.negative)
		refused(lgr, false);
	else if (flow->rkey.sent < flow->rkey.others)
		send_confirm_rkey_cont(lgr);
	else
		confirmed(lgr);
}

bool smcr_llc_rkey_unsettled(const struct smcr_lgr *lgr)
{
	const struct smcr_slab *slab;
	DL_FOREACH (lgr->rmbs, slab)
		if (slab->doubtful || slab->state == SMCR_SLAB_DELETING)
			return true;
	return false;
}

/* ---- own DELETE RKEY ---- */

/** The peer has forgotten the RMB: free its memory once no ADD LINK exchange runs. */
static void withdrawn(struct smcr_slab *slab)
{
	struct smcr_lgr *lgr = slab->lgr;
	if (lgr->llc->step == SMCR_LLC_IDLE) {
		smcr_slab_free(slab);
		return;
	}
	slab->state = SMCR_SLAB_NEW;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		slab->reg[i].told = false;
	smcr_timer_start(lgr->engine, &slab->idle, lgr->engine->config.rmb_idle_timeout);
}

/** A link on which the peer has the RMB's RToken, so that the RKey means something there. */
static struct smcr_link *link_that_knows(const struct smcr_slab *slab)
{
	struct smcr_link *found = NULL;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = slab->lgr->links[i];
		if (link && smcr_link_works(link) && slab->reg[i].told &&
		    (!found || is_going(found)))
			found = link;
	}
	return found;
}

/** Has the RMB to be withdrawn? If it is DELETING already, a link failure has broken off the last
 * attempt. An RMB of which the peer has no RToken on any link is freed at once. */
static bool withdrawable(struct smcr_slab *slab)
{
	struct smcr_lgr *lgr = slab->lgr;
	if (slab->state != SMCR_SLAB_DELETING && !smcr_slab_deletable(slab))
		return false;
	slab->state = SMCR_SLAB_DELETING;
	if (link_that_knows(slab))
		return true;
	withdrawn(slab);
	smcr_llc_kick(lgr); /* ADD LINK may have waited for the end of the RMB */
	return false;
}

bool smcr_llc_delete_rkey(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_llc_msg msg = { .type = SMCR_LLC_DELETE_RKEY };
	struct smcr_link *link = NULL;
	struct smcr_slab *slab, *next;
	flow->rkey.num_slabs = 0;
	DL_FOREACH_SAFE (lgr->rmbs, slab, next) {
		if (flow->rkey.num_slabs == SMCR_RKEY_DELETE_MAX)
			break;
		if (!withdrawable(slab))
			continue;
		if (!link)
			link = link_that_knows(slab);
		if (!slab->reg[link->slot].told)
			continue; /* next time */
		msg.delete_rkey.rkey[flow->rkey.num_slabs] = slab->reg[link->slot].rkey;
		flow->rkey.slabs[flow->rkey.num_slabs++] = slab;
	}
	if (!flow->rkey.num_slabs)
		return false;
	msg.delete_rkey.count = (uint8_t)flow->rkey.num_slabs;
	flow->rkey.step = SMCR_RKEY_DELETE;
	flow->rkey.link = link;
	smcr_timer_start(lgr->engine, &flow->rkey.timer, lgr->engine->config.llc_timeout);
	smcr_llc_send(link, &msg);
	return true;
}

void smcr_llc_on_delete_rkey_reply(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow->rkey.step != SMCR_RKEY_DELETE || flow->rkey.link != link) {
		smcr_llc_unexpected(link, "unexpected DELETE RKEY reply");
		return;
	}
	if (msg->delete_rkey.negative && smcr_lgr_is_v2(lgr)) /* RKEY-15 */
		smcr_log_peer(lgr->engine, &lgr->peer, LOG_NOTICE, "RKeys",
			      "did not know %u RKeys of group %u", msg->delete_rkey.num_invalid,
			      lgr->id);
	else if (msg->delete_rkey.negative)
		smcr_log_peer(lgr->engine, &lgr->peer, LOG_NOTICE, "RKeys",
			      "did not know an RKey of group %u (0x%02x)", lgr->id,
			      msg->delete_rkey.error_mask);
	while (flow->rkey.num_slabs)
		withdrawn(flow->rkey.slabs[--flow->rkey.num_slabs]);
	own_done(lgr);
}

/* ---- either own exchange ---- */

static void on_rkey_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	struct smcr_llc_flow *flow = lgr->llc;
	bool confirm = flow->rkey.step == SMCR_RKEY_CONFIRM;
	if (flow->step != SMCR_LLC_IDLE || flow->add_held) {
		/* A16: the peer may answer only after the exchange about links */
		smcr_timer_start(engine, &flow->rkey.timer, engine->config.llc_timeout);
		flow->cont_overdue = true;
		smcr_llc_add_link_resume(lgr);
		return;
	}
	/* ERR-37, ERR-39 */
	smcr_row(lgr, !confirm               ? SMCR_ROW_ERR_39
		      : flow->rkey.continued ? SMCR_ROW_ERR_39_CONT
					     : SMCR_ROW_ERR_37);
	smcr_link_fail(flow->rkey.link, SMCR_LLC_DEL_LOST_PATH, "no answer to %s RKEY",
		       confirm ? "CONFIRM" : "DELETE");
}

/** The peer has the reply to its last message, and does not go on. Exchanges about links wait for
 * the end of the peer's, so that may not take for ever (A71). */
static void on_peer_rkey_timer(struct smcr_engine *engine, void *arg)
{
	const struct smcr_lgr *lgr = arg;
	(void)engine;
	smcr_link_fail(lgr->llc->peer_rkey.link, SMCR_LLC_DEL_LOST_PATH,
		       "CONFIRM RKEY CONTINUATION was not received");
}

static void withdrawal_over(struct smcr_lgr *lgr)
{
	lgr->llc->withdrawal.link = NULL;
	smcr_timer_stop(lgr->engine, &lgr->llc->withdrawal.timer);
	smcr_llc_kick(lgr); /* exchanges about links may have waited for this */
}

static void send_withdrawal_answer(struct smcr_lgr *lgr)
{
	struct smcr_link *link = lgr->llc->withdrawal.link;
	withdrawal_over(lgr);
	smcr_llc_send(link, &lgr->llc->withdrawal.reply);
}

/** If the answer came too late, the peer would give up the link that carries the exchange, which is
 * sound. A WRITE that is refused now costs only the link that has completed nothing for so long. */
static void on_withdrawal_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_lgr *lgr = arg;
	(void)engine;
	if (lgr->llc->withdrawal.link)
		send_withdrawal_answer(lgr);
}

void smcr_llc_rkey_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow)
{
	smcr_timer_init(&flow->rkey.timer, on_rkey_timer, lgr);
	smcr_timer_init(&flow->peer_rkey.timer, on_peer_rkey_timer, lgr);
	smcr_timer_init(&flow->withdrawal.timer, on_withdrawal_timer, lgr);
}

void smcr_llc_rkey_broken(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow->rkey.step == SMCR_RKEY_IDLE)
		return;
	if (flow->rkey.slab && flow->rkey.slab->state == SMCR_SLAB_ANNOUNCING) {
		flow->rkey.slab->state = SMCR_SLAB_NEW; /* RKEY-6: begin again */
		flow->rkey.slab->doubtful = true;
	}
	own_done(lgr);
}

void smcr_llc_forget_slab(struct smcr_lgr *lgr, struct smcr_slab *slab)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow && flow->rkey.slab == slab)
		smcr_llc_rkey_broken(lgr);
}

/* ---- the peer's CONFIRM RKEY ---- */

/* The peer's CONFIRM RKEY exchange is complete, refused, or gone with its link. */
static void peer_rkey_over(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	flow->peer_rkey.link = NULL;
	smcr_timer_stop(lgr->engine, &flow->peer_rkey.timer);
	smcr_llc_kick(lgr); /* exchanges about links may have waited for this */
}

/** The next CONTINUATION is due. */
static void await_continuation(struct smcr_lgr *lgr)
{
	smcr_timer_start(lgr->engine, &lgr->llc->peer_rkey.timer, lgr->engine->config.llc_timeout);
}

/** May the peer start an RKEY exchange now? If not, the message is answered, queued or dropped. */
static bool admit(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && smcr_lgr_is_v2(lgr)) {
		/* The request may have overtaken the last message of the first contact, which comes
		 * on another link, so keep it until then. */
		smcr_llc_queue(link, msg);
		return false;
	}
	enum smcr_collision collision = smcr_llc_collision(lgr, msg);
	bool early = lgr->state == SMCR_LGR_FIRST_CONTACT && collision != SMCR_REFUSE;
	if (early || flow->peer_rkey.link == link) {
		smcr_llc_protocol_error(link, "RKEY exchange out of turn");
		return false;
	}
	struct smcr_llc_msg reply = *msg;
	switch (collision) {
	case SMCR_HANDLE: return true;
	case SMCR_GAVE_UP: smcr_llc_server_gave_up(lgr, NULL); return true;
	case SMCR_QUEUE: smcr_llc_queue(link, msg); return false;
	case SMCR_REFUSE: break;
	}
	reply.reply = reply.confirm_rkey.negative = reply.confirm_rkey.retry = true;
	smcr_llc_send(link, &reply);
	return false;
}

/** Do the RTokens that the peer has told for one RMB fit each other and those in use? An unknown
 * link number belongs to a link that is gone by now. */
static bool consistent(struct smcr_lgr *lgr, const struct smcr_peer_rmb *known)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	const struct smcr_link *carrier = flow->peer_rkey.link;
	if (known && known->users && known->token[carrier->slot].vaddr != flow->peer_rkey.vaddr)
		return false;
	for (unsigned int i = 0; i < flow->peer_rkey.others; i++) {
		const struct smcr_llc_link_rtoken *spec = &flow->peer_rkey.other[i];
		const struct smcr_link *link = smcr_lgr_link_by_number(lgr, spec->link_number);
		struct smcr_peer_rmb *other =
			link ? smcr_peer_rmb_find(lgr, link, spec->rkey) : NULL;
		if (link == carrier || (other && other != known))
			return false;
		for (unsigned int j = 0; j < i; j++)
			if (flow->peer_rkey.other[j].link_number == spec->link_number)
				return false;
	}
	return true;
}

static bool named(const struct smcr_llc_flow *flow, const struct smcr_link *link)
{
	for (unsigned int i = 0; i < flow->peer_rkey.others; i++)
		if (flow->peer_rkey.other[i].link_number == link->number)
			return true;
	return link == flow->peer_rkey.link;
}

/** May the peer have sent this message before a link was added, so that it says nothing of that
 * link (A53)? A message may be under way for as long as its QP retries, and meanwhile a link can be
 * added by messages on another link.
 */
static bool overtaken(const struct smcr_lgr *lgr)
{
	const struct smcr_llc_flow *flow = lgr->llc;
	uint64_t longest = (uint64_t)flow->peer_rkey.link->retry_ms * 1000;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		const struct smcr_link *link = lgr->links[i];
		bool confirming = flow->step == SMCR_LLC_S_CONFIRM_ADDED && link == flow->subject;
		bool fresh = link && link->state == SMCR_LINK_ACTIVE && link->added &&
			     lgr->engine->now - link->added <= longest;
		if ((fresh || confirming) && !named(flow, link))
			return true;
	}
	return false;
}

/** ERR-58: a link for which no RToken of the RMB has come cannot be used for it, so the link counts
 * as failed. */
static void fail_links_without(struct smcr_lgr *lgr, const struct smcr_peer_rmb *rmb)
{
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = lgr->links[i];
		if (!link || link->state != SMCR_LINK_ACTIVE || rmb->token[i].valid)
			continue;
		smcr_row(lgr, SMCR_ROW_ERR_58);
		smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH,
			       "the peer has announced an RMB without an RToken for it");
	}
}

/** All RTokens have come: put them in force together (RKEY-8). @return whether they were
 * accepted */
static bool commit(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	struct smcr_link *carrier = flow->peer_rkey.link;
	struct smcr_peer_rmb *rmb = smcr_peer_rmb_find(lgr, carrier, flow->peer_rkey.rkey);
	bool ok = consistent(lgr, rmb) && (rmb || !smcr_peer_rmb_add(lgr, &rmb));
	peer_rkey_over(lgr);
	if (!ok)
		return false;
	smcr_peer_rmb_set(rmb, carrier, flow->peer_rkey.rkey, flow->peer_rkey.vaddr);
	for (unsigned int i = 0; i < flow->peer_rkey.others; i++) {
		const struct smcr_llc_link_rtoken *spec = &flow->peer_rkey.other[i];
		struct smcr_link *link = smcr_lgr_link_by_number(lgr, spec->link_number);
		if (link)
			smcr_peer_rmb_set(rmb, link, spec->rkey, spec->vaddr);
	}
	fail_links_without(lgr, rmb);
	return true;
}

static void take_specs(struct smcr_llc_flow *flow, const struct smcr_llc_link_rtoken *specs,
		       unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		flow->peer_rkey.other[flow->peer_rkey.others++] = specs[i];
	flow->peer_rkey.left -= n;
}

void smcr_llc_on_confirm_rkey(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	const struct smcr_llc_confirm_rkey *request = &msg->confirm_rkey;
	if (!admit(link, msg))
		return;
	flow->peer_rkey.link = link;
	flow->peer_rkey.rkey = request->rkey;
	flow->peer_rkey.vaddr = request->vaddr;
	flow->peer_rkey.left = request->num_tokens;
	flow->peer_rkey.others = 0;
	take_specs(flow, request->other, smcr_llc_rkey_specs(request->num_tokens, false));
	struct smcr_llc_msg reply = *msg;
	reply.reply = true;
	/* Version 2 has no CONTINUATION. */
	if (flow->peer_rkey.left ? smcr_lgr_is_v2(link->lgr) : overtaken(link->lgr)) {
		peer_rkey_over(link->lgr);
		reply.confirm_rkey.negative = reply.confirm_rkey.retry = true;
	} else if (flow->peer_rkey.left) {
		await_continuation(link->lgr);
	} else {
		reply.confirm_rkey.negative = !commit(link->lgr);
	}
	smcr_llc_send(link, &reply); /* RKEY-5 */
}

void smcr_llc_on_confirm_rkey_cont(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	const struct smcr_llc_confirm_rkey_cont *request = &msg->confirm_rkey_cont;
	if (flow->peer_rkey.link != link || request->num_left != flow->peer_rkey.left) {
		smcr_llc_protocol_error(link,
					"CONFIRM RKEY CONTINUATION does not fit"); /* ERR-63 */
		return;
	}
	take_specs(flow, request->other, smcr_llc_rkey_specs(request->num_left, true));
	struct smcr_llc_msg reply = *msg;
	reply.reply = true;
	if (flow->peer_rkey.left)
		await_continuation(link->lgr);
	else
		reply.confirm_rkey_cont.negative = !commit(link->lgr);
	smcr_llc_send(link, &reply);
}

/* ---- the peer's DELETE RKEY ---- */

bool smcr_llc_peer_rkey_runs(const struct smcr_lgr *lgr)
{
	return lgr->llc->peer_rkey.link || lgr->llc->withdrawal.link;
}

void smcr_llc_peer_rkey_lost(const struct smcr_link *link)
{
	if (link->lgr->llc->peer_rkey.link == link)
		peer_rkey_over(link->lgr);
	if (link->lgr->llc->withdrawal.link == link)
		withdrawal_over(link->lgr);
}

/* The peer gives the memory up when the answer comes (RKEY-13). The answer could overtake a WRITE
 * that was posted before on another link, and then the peer's RNIC would refuse the WRITE. */
void smcr_llc_answer_withdrawal(struct smcr_lgr *lgr)
{
	struct smcr_llc_flow *flow = lgr->llc;
	if (flow && flow->withdrawal.link && !smcr_peer_rmb_writes_late(lgr))
		send_withdrawal_answer(lgr);
}

void smcr_llc_on_delete_rkey(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_lgr *lgr = link->lgr;
	if (!admit(link, msg))
		return;
	struct smcr_llc_msg reply = *msg;
	reply.reply = true;
	uint32_t unknown[SMCR_MAX_RMBS] = { 0 };
	uint8_t mask = 0, num_unknown = 0;
	for (unsigned int i = 0; i < msg->delete_rkey.count; i++) {
		struct smcr_peer_rmb *rmb = smcr_peer_rmb_find(lgr, link, msg->delete_rkey.rkey[i]);
		if (rmb) {
			smcr_peer_rmb_withdraw(lgr, rmb); /* RKEY-14 */
			continue;
		}
		unknown[num_unknown++] = msg->delete_rkey.rkey[i];
		mask |= i < 8 ? (uint8_t)(0x80 >> i) : 0;
	}
	if (smcr_lgr_is_v2(lgr)) {
		reply.delete_rkey.num_invalid = num_unknown;
		memcpy(reply.delete_rkey.rkey, unknown, sizeof(unknown));
	} else {
		reply.delete_rkey.error_mask = mask;
	}
	reply.delete_rkey.negative = num_unknown > 0;
	if (reply.delete_rkey.negative)
		smcr_row(lgr, SMCR_ROW_ERR_59); /* ERR-59 */
	lgr->llc->withdrawal.link = link;
	lgr->llc->withdrawal.reply = reply;
	smcr_timer_start(lgr->engine, &lgr->llc->withdrawal.timer,
			 lgr->engine->config.llc_timeout / 2);
	smcr_llc_answer_withdrawal(lgr);
}
