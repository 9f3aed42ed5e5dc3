/* SPDX-License-Identifier: MIT */
/* Connections: life, alert tokens, and what the host hears of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"
#include "daemon/smcr/llc_delete_link.h"

int smcr_conn_new(struct smcr_engine *engine, const struct smcr_conn_params *params,
		  struct smcr_conn **ret_conn)
{
	struct smcr_conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return -ENOMEM;
	conn->engine = engine;
	conn->params = *params;
	conn->phase = SMCR_PHASE_RENDEZVOUS;
	conn->state = SMCR_STATE_INIT;
	conn->began = engine->now;
	smcr_keepalive_conn_init(conn);
	smcr_denied_init(conn);
	DL_APPEND(engine->conns, conn);
	engine->count.num_conns++;
	*ret_conn = conn;
	return 0;
}

struct smcr_conn *smcr_conn_by_token(const struct smcr_engine *engine, uint32_t token)
{
	struct smcr_conn *conn;
	HASH_FIND(hh, engine->tokens, &token, sizeof(token), conn);
	return conn;
}

void smcr_conn_new_token(struct smcr_conn *conn)
{
	struct smcr_engine *engine = conn->engine;
	uint32_t token;
	do {
		token = smcr_random32(engine) << 16 | engine->next_token++;
	} while (!token || smcr_conn_by_token(engine, token));
	conn->token = token;
	HASH_ADD(hh, engine->tokens, token, sizeof(conn->token), conn);
}

void smcr_conn_name_link(struct smcr_conn *conn, struct smcr_link *link)
{
	struct smcr_link *left = conn->rv.link;
	conn->rv.link = link;
	if (link)
		link->num_named++;
	if (left) {
		left->num_named--;
		smcr_llc_link_less_busy(left);
	}
}

void smcr_conn_raise(struct smcr_conn *conn, const struct smcr_conn_event *event)
{
	struct smcr_engine *engine = conn->engine;
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED:
		engine->count.conns_established++;
		smcr_stats_established(conn);
		break;
	case SMCR_CONN_FALLBACK:
		engine->count.conns_fallback++;
		engine->stats.fallbacks[conn->params.role]++;
		break;
	case SMCR_CONN_FAILED:
		engine->count.conns_failed++;
		engine->stats.failed[conn->params.role]++;
		break;
	case SMCR_CONN_RESET:
		engine->count.conns_reset++;
		engine->stats.resets++;
		break;
	case SMCR_CONN_READABLE:
	case SMCR_CONN_WRITABLE:
	case SMCR_CONN_URGENT:
	case SMCR_CONN_OUTGROWN:
	case SMCR_CONN_CLOSED: break;
	}
	if (!engine->silent)
		engine->ops.conns->event(conn->params.user, event);
}

void smcr_conn_detach(struct smcr_conn *conn)
{
	struct smcr_lgr *lgr = conn->lgr;
	if (conn->token)
		HASH_DEL(conn->engine->tokens, conn);
	conn->token = 0;
	if (!lgr)
		return;
	smcr_conn_unshare(conn);
	smcr_stats_gap_end(conn, false);
	smcr_conn_name_link(conn, NULL);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			smcr_link_forget(lgr->links[i], conn);
	smcr_link_assign(conn, NULL);
	smcr_peer_rmb_unclaim(conn);
	smcr_rx_settle(conn);
	smcr_account_close(conn);
	smcr_element_release(&conn->tx.buf);
	smcr_element_release(&conn->rx.element);
	if (lgr->fc.conn == conn)
		lgr->fc.conn = NULL;
	smcr_lgr_remove_conn(conn);
}

void smcr_conn_free(struct smcr_conn *conn)
{
	struct smcr_engine *engine = conn->engine;
	smcr_clc_unhold(conn);
	smcr_conn_detach(conn);
	smcr_timer_stop(engine, &conn->rv.clc_timer);
	smcr_timer_stop(engine, &conn->rv.total_timer);
	smcr_timer_stop(engine, &conn->close_timer);
	smcr_timer_stop(engine, &conn->fin_timer);
	smcr_timer_stop(engine, &conn->rst_timer);
	smcr_timer_stop(engine, &conn->keepalive);
	smcr_timer_stop(engine, &conn->tx.answer_timer);
	DL_DELETE(engine->conns, conn);
	engine->count.num_conns--;
	free(conn->rv.contested);
	free(conn);
}

void smcr_conn_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event)
{
	if (conn->phase == SMCR_PHASE_RENDEZVOUS)
		smcr_clc_tcp_event(conn, event);
	else
		smcr_close_tcp_event(conn, event);
}

void *smcr_conn_user(const struct smcr_conn *conn)
{
	return conn->params.user;
}
