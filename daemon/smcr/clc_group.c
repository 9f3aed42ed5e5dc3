/* SPDX-License-Identifier: MIT */
/* Rendezvous: what the link group tells its connections. Proposals that were held until a first
 * contact was over are answered here (RV-15). */
#include <errno.h>
#include <string.h>

#include "daemon/smcr/clc.h"

void smcr_clc_group_deleted(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn = lgr->fc.conn;
	if (!conn || lgr->fc.committed)
		return;
	smcr_conn_detach(conn);
	smcr_clc_await(conn, SMCR_RV_C_AWAIT_DECLINE);
}

void smcr_clc_lgr_lost(struct smcr_conn *conn)
{
	switch ((enum smcr_rv_step)conn->rv.step) {
	case SMCR_RV_S_ANNOUNCE: /* nothing has been said yet: decide anew */
		smcr_conn_detach(conn);
		smcr_clc_server_decide(conn);
		break;
	case SMCR_RV_S_AWAIT_CONFIRM:
		/* The client, whose group it is too, may be declining: its Decline is slower than
		 * what ended the group, and the TCP connection is whole then. Its Confirm is too
		 * late. */
		smcr_conn_detach(conn);
		conn->rv.give_up = true;
		conn->rv.give_up_reason = SMCR_REASON_NO_ACTIVE_LINK;
		break;
	case SMCR_RV_S_CONTESTED: /* the elements of both sides go with the group */
		smcr_conn_detach(conn);
		smcr_clc_fail(conn, ECONNRESET, SMCR_REASON_NO_ACTIVE_LINK);
		break;
	default: smcr_clc_quit(conn, SMCR_REASON_NO_ACTIVE_LINK, ECONNRESET); break;
	}
}

void smcr_clc_slab_ready(struct smcr_slab *slab)
{
	struct smcr_conn *conn, *next;
	DL_FOREACH_SAFE2 (slab->lgr->conns, conn, next, lgr_next) {
		if (conn->phase != SMCR_PHASE_RENDEZVOUS || conn->rx.element.slab != slab)
			continue;
		if (conn->rv.step == SMCR_RV_S_ANNOUNCE)
			smcr_clc_server_accept(conn);
		else if (conn->rv.step == SMCR_RV_C_ANNOUNCE)
			smcr_clc_client_confirm(conn);
	}
}

void smcr_clc_slab_refused(struct smcr_slab *slab)
{
	struct smcr_conn *conn, *next;
	DL_FOREACH_SAFE2 (slab->lgr->conns, conn, next, lgr_next)
		if (conn->phase == SMCR_PHASE_RENDEZVOUS && conn->rx.element.slab == slab)
			smcr_clc_quit(conn, SMCR_REASON_RKEY_EXCHANGE, ECONNRESET); /* RKEY-9 */
}

void smcr_clc_unhold(struct smcr_conn *conn)
{
	struct smcr_lgr *lgr = conn->rv.held_by;
	if (!lgr)
		return;
	conn->rv.held_by = NULL;
	DL_DELETE2(lgr->fc.held, conn, rv.held_prev, rv.held_next);
}

void smcr_clc_release_held(struct smcr_conn *held, bool path_dead)
{
	struct smcr_conn *conn, *next;
	DL_FOREACH2 (held, conn, rv.held_next)
		conn->rv.held_by = NULL;
	DL_FOREACH_SAFE2 (held, conn, next, rv.held_next) {
		if (path_dead) /* each would only find out the same, one after the other */
			smcr_clc_skip(conn);
		else
			smcr_clc_server_decide(conn);
	}
}

/** Who waits for another group that is being set up with this peer need not wait any longer. */
static void release_others(const struct smcr_lgr *done)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (done->engine->lgrs, lgr) {
		struct smcr_conn *held = lgr->fc.held;
		if (!held || (!smcr_same_host(&lgr->peer, &done->peer) &&
			      memcmp(lgr->peer_id, done->peer_id, SMCR_PEER_ID_LEN) != 0))
			continue;
		lgr->fc.held = NULL;
		smcr_clc_release_held(held, false);
	}
}

/* RV-11: now application data may flow. */
void smcr_clc_first_contact_done(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn = lgr->fc.conn, *held = lgr->fc.held;
	lgr->state = SMCR_LGR_ACTIVE;
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_LGR_UP });
	lgr->fc.conn = NULL;
	lgr->fc.held = NULL;
	if (conn)
		smcr_clc_open(conn, conn->rv.link ? conn->rv.link : smcr_lgr_any_link(lgr, NULL));
	smcr_clc_release_held(held, false);
	release_others(lgr);
}
