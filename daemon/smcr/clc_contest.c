/* SPDX-License-Identifier: MIT */
/* Rendezvous: the peer's element that CLC names, and what happens if another connection uses it
 * (RMB-9, A66). */
#include <errno.h>
#include <stdlib.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"

/** RMB-9: the peer has given the element of `old` to another connection. */
static void evict(struct smcr_conn *old)
{
	if (old->phase == SMCR_PHASE_OPEN)
		smcr_close_evict(old);
	else
		smcr_clc_quit(old, SMCR_REASON_OUT_OF_SYNC, ECONNRESET);
}

/** When to check whether a contested element is free, in microseconds: soon, because most often its
 * user has just ended and a completion or a last CDC is on its way; then less and less often. */
#define FIRST_CONTEST_LOOK 250
#define LAST_CONTEST_LOOK  10000

static void begin_contest(struct smcr_conn *conn)
{
	uint64_t now = conn->engine->now, ends = now + conn->engine->config.llc_timeout / 2;
	if (conn->params.role == SMCR_ROLE_CLIENT && ends > conn->rv.answer_by)
		ends = conn->rv.answer_by; /* our message is due by then */
	conn->rv.contest_began = now;
	conn->rv.contest_ends = ends;
	conn->rv.contest_look = FIRST_CONTEST_LOOK;
}

/** Has the peer shown that it knows `old`, since CLC gave the element to another connection? */
static bool has_answered(const struct smcr_conn *conn, const struct smcr_conn *old)
{
	return !old->tx.asking && old->rx.heard >= conn->rv.contest_began;
}

/** Can the peer not be asked about `old`? It cannot when the connection is ending, or has no
 * link. */
static bool is_out_of_reach(const struct smcr_conn *old)
{
	return old->phase == SMCR_PHASE_OPEN &&
	       (!smcr_tx_may_ask(old) || !old->tx.link || old->tx.moving);
}

/** Have both sides sent their last CDC? Then only own completions are awaited. */
static bool is_over(const struct smcr_conn *old)
{
	return old->phase == SMCR_PHASE_OPEN && old->state == SMCR_STATE_CLOSED;
}

/**
 * RMB-9, A66: a CLC message, perhaps of an attacker, gives `conn` an element that `old` uses.
 * Connection `old` may be about to end. Otherwise the peer is asked on the links, where only the
 * peer can answer.
 * @param old  NULL: no connection uses the element
 * @return 0: the element is free now; -EBUSY: not known yet; -EEXIST: `old` keeps it
 */
static int take_over(struct smcr_conn *conn, struct smcr_conn *old)
{
	if (!old)
		return 0;
	if (is_over(old)) {
		evict(old);
		return 0;
	}
	if (!conn->rv.contest_ends)
		begin_contest(conn);
	else if (smcr_tx_may_ask(old) && has_answered(conn, old))
		return -EEXIST;
	smcr_tx_ask(old);
	if (conn->engine->now < conn->rv.contest_ends)
		return -EBUSY;
	if (is_out_of_reach(old))
		return -EEXIST;
	evict(old);
	return 0;
}

void smcr_clc_contest(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	bool server = conn->params.role == SMCR_ROLE_SERVER;
	if (!conn->rv.contested) {
		conn->rv.contested = malloc(sizeof(*msg));
		if (!conn->rv.contested) {
			smcr_clc_quit(conn, SMCR_REASON_NO_MEMORY, ECONNRESET);
			return;
		}
		*conn->rv.contested = *msg;
	}
	conn->rv.step = server ? SMCR_RV_S_CONTESTED : SMCR_RV_C_CONTESTED;
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, conn->rv.contest_look);
	if (conn->rv.contest_look < LAST_CONTEST_LOOK)
		conn->rv.contest_look *= 2;
}

int smcr_clc_claim_element(struct smcr_conn *conn, struct smcr_link *link,
			   const struct smcr_clc_accept *msg)
{
	struct smcr_peer_rmb *rmb =
		link ? smcr_peer_rmb_find(conn->lgr, link, msg->rkey)
		     : smcr_peer_rmb_find_gone(conn->lgr, msg->qpn, msg->rkey, msg->rmb_vaddr);
	if (!rmb || (link && rmb->token[link->slot].vaddr != msg->rmb_vaddr))
		return -ENOENT; /* RS-4, RKEY-16 */
	if (!smcr_peer_rmb_may_have(rmb, msg->rmbe_index, smcr_bsize_bytes(msg->bsize)))
		return -EEXIST; /* RMB-1 */
	int rc = take_over(conn, rmb->user[msg->rmbe_index]);
	if (!rc) /* CLC-12: what we say with its token would be meant for that one */
		rc = take_over(conn, smcr_peer_rmb_user_of_token(conn->lgr, msg->alert_token));
	if (rc)
		return rc;
	smcr_peer_rmb_claim(rmb, msg, conn);
	return 0;
}
