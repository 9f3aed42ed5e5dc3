/* SPDX-License-Identifier: MIT */
/*
 * How much of its element and of its send buffer a connection has used. The next connection of the
 * same kind will need as much. (The buffers of this one cannot change: CLC has told their sizes.)
 *
 * The need is the number of bytes that waited in the buffer, or came into it, within ten
 * milliseconds. No round trip on a LAN takes longer, so a buffer of that size would not have held
 * the connection up. A buffer that was full did hold it up.
 */
#include "daemon/smcr/data.h"

#define WITHIN 10000 /* microseconds */

static bool was_full(const struct smcr_need *need)
{
	return need->most == UINT32_MAX;
}

static void measure(struct smcr_need *need, uint64_t now, uint64_t before, uint64_t after,
		    uint64_t waiting)
{
	if (now - need->since >= WITHIN) {
		need->since = now;
		need->mark = before;
	}
	uint64_t used = after - (need->mark < waiting ? need->mark : waiting);
	if (used > need->most)
		need->most = used < UINT32_MAX ? (uint32_t)used : UINT32_MAX - 1;
}

/* The buffer was full. The host is told if the next connection can have a larger one. */
static void full(struct smcr_conn *conn, struct smcr_need *need, const struct smcr_element *element)
{
	need->most = UINT32_MAX;
	if (conn->app_closed || element->slab->bsize >= conn->engine->config.bsize)
		return;
	smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_OUTGROWN,
							 .needs = smcr_need_of(conn) });
}

void smcr_need_received(struct smcr_conn *conn, uint64_t before)
{
	struct smcr_conn_rx *rx = &conn->rx;
	if (conn->params.rcvbuf || was_full(&rx->need))
		return;
	measure(&rx->need, conn->engine->now, before, rx->produced, rx->consumed);
	if (rx->peer_blocked || rx->produced - rx->consumed == rx->usable)
		full(conn, &rx->need, &rx->element);
}

void smcr_need_committed(struct smcr_conn *conn, uint64_t before)
{
	struct smcr_conn_tx *tx = &conn->tx;
	if (conn->params.sndbuf || was_full(&tx->need))
		return;
	measure(&tx->need, conn->engine->now, before, tx->committed, tx->completed);
	if (tx->committed - tx->completed == tx->buf.size)
		full(conn, &tx->need, &tx->buf);
}

/* At least 1: 0 would say that nothing is known. */
static uint32_t told(const struct smcr_need *need, uint32_t asked)
{
	if (asked)
		return 0;
	return need->most ? need->most : 1;
}

struct smcr_needs smcr_need_of(const struct smcr_conn *conn)
{
	return (struct smcr_needs){ .rcv = told(&conn->rx.need, conn->params.rcvbuf),
				    .snd = told(&conn->tx.need, conn->params.sndbuf) };
}
