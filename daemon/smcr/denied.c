/* SPDX-License-Identifier: MIT */
/*
 * Writes that the peer's RNIC denies (A69).
 *
 * CLC tells the size and the index of an element, but not the size of its RMB. So an index may lie
 * beyond the end of the RMB. Only the peer's RNIC knows: it denies the first write, and that takes
 * the QP into error, so the link is lost. A correct peer names no such index, but an attacker who
 * knows one of the peer's RTokens can name it in CLC. The attacker cannot send on the peer's links.
 * So once a write was denied, each connection for which no CDC has ever come from the peer writes
 * no data until the peer has answered a CDC with R. For a while the same holds for each new
 * connection of the group. A connection that gets no answer is reset. So the first false index
 * costs a link, and later ones cost none.
 */
#include <errno.h>
#include <syslog.h>

#include "daemon/smcr/data.h"

/** How long after a denied write new connections have to be answered for. */
#define WARY_FOR (UINT64_C(600) * 1000 * 1000)

/** Has a CDC of the peer come for the connection, or can the peer not be asked about it any
 * more? */
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
