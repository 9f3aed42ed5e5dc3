/* SPDX-License-Identifier: MIT */
/*
 * Writes that the peer's RNIC denies (A69).
 *
 * CLC tells the size of an element and its index, but not the size of an RMB. So an index may lie
 * beyond its end, and only the peer's RNIC knows: it denies the first write, and with that the link
 * is lost. A peer that is right gives no such index, but whoever knows one of its RTokens can name
 * it in CLC. He cannot speak on its links. So once a write was denied, a connection of which the
 * peer has never said a word there writes nothing more until the peer has answered a CDC with R;
 * for a while that holds for each new connection of the group too. One that gets no answer is
 * reset. So the first costs a link, and those behind it nothing.
 */
#include <errno.h>
#include <syslog.h>

#include "daemon/engine/data.h"

/** How long new connections are asked about. */
#define WARY_FOR (UINT64_C(600) * 1000 * 1000)

/** Has the peer shown on its links that it knows the connection, or must it not any more? */
static bool is_beyond_doubt(const struct smcr_conn *conn)
{
	return conn->rx.heard || !smcr_tx_may_ask(conn);
}

static void hold_back(struct smcr_conn *conn)
{
	if (conn->tx.held_back || is_beyond_doubt(conn))
		return;
	conn->tx.held_back = true;
	smcr_timer_start(conn->engine, &conn->tx.answer_timer, conn->engine->config.clc_timeout);
	smcr_tx_ask(conn);
}

static void on_timer(struct smcr_engine *engine, void *arg)
{
	(void)engine;
	smcr_close_local_abort(arg, ECONNRESET, "the peer does not answer for its buffer");
}

void smcr_denied_init(struct smcr_conn *conn)
{
	smcr_timer_init(&conn->tx.answer_timer, on_timer, conn);
}

void smcr_denied_write(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn;
	lgr->wary_until = lgr->engine->now + WARY_FOR;
	smcr_log_peer(lgr->engine, &lgr->peer, LOG_WARNING, "denied",
		      "has denied a write into its buffers in link group %u: connections of which "
		      "it has not said anything wait until it answers for them",
		      lgr->id);
	DL_FOREACH2 (lgr->conns, conn, lgr_next)
		hold_back(conn);
}

void smcr_denied_open(struct smcr_conn *conn)
{
	if (conn->engine->now < conn->lgr->wary_until)
		hold_back(conn);
}

void smcr_denied_heard(struct smcr_conn *conn)
{
	if (!conn->tx.held_back)
		return;
	conn->tx.held_back = false;
	smcr_timer_stop(conn->engine, &conn->tx.answer_timer);
}
