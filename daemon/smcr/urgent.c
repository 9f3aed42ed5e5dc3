/* SPDX-License-Identifier: MIT */
/*
 * Urgent data (RFC 7609 4.7.5, 4.7.6, A.4; group URG of the requirements).
 *
 * The writer sets P as soon as the program has sent the urgent byte, even if the send buffer has no
 * room for the byte yet. It sets U in the CDC whose producer position is just behind the byte
 * (URG-1, A26). It writes nothing further until the peer's consumer position has reached that
 * position. So there is one urgent byte at a time.
 *
 * How long P and U stay set after that depends on the dialect. RFC: in every CDC until the next
 * normal data (CDC-4, URG-7). Deployed: in one CDC, as deployed peers do. A deployed reader takes a
 * repetition without new data for the announcement of a further urgent byte and forgets the present
 * one. Only after a failover, when the CDC may not have arrived, P and U are sent again.
 */
#include <errno.h>

#include "daemon/smcr/data.h"

#define URGENT_TOLD (SMCR_CDC_URGENT_PENDING | SMCR_CDC_URGENT_PRESENT)

/* ---- sending ---- */

uint64_t smcr_urgent_limit(const struct smcr_conn *conn)
{
	return conn->tx.urgent ? conn->tx.urgent_end : conn->tx.committed;
}

uint8_t smcr_urgent_flags(const struct smcr_conn *conn)
{
	const struct smcr_conn_tx *tx = &conn->tx;
	bool repeated = conn->lgr->dialect == SMCR_DIALECT_RFC;
	if (tx->urgent && tx->written < tx->urgent_end)
		return SMCR_CDC_URGENT_PENDING;
	if (tx->urgent_soon && !tx->urgent)
		return SMCR_CDC_URGENT_PENDING;
	if (tx->urgent_told ? repeated : tx->urgent)
		return URGENT_TOLD;
	return 0;
}

/* If the written bytes include the urgent byte, the next CDC has P and U (URG-1). */
void smcr_urgent_written(struct smcr_conn *conn)
{
	conn->tx.urgent_told = false; /* URG-7 */
}

void smcr_urgent_posted(struct smcr_conn *conn, const struct smcr_cdc *cdc)
{
	if (cdc->prod_flags & SMCR_CDC_URGENT_PRESENT && !conn->tx.urgent_told) {
		conn->tx.urgent_told = true;
		conn->tx.urgent_seq = cdc->seq;
	}
	if (conn->rx.urgent && conn->rx.consumed >= conn->rx.urgent_end)
		conn->rx.urgent = false; /* acknowledged (URG-6) */
}

void smcr_urgent_moved(struct smcr_conn *conn)
{
	if (smcr_cdc_seq_newer(conn->tx.urgent_seq, conn->tx.cdc_completed))
		conn->tx.urgent_told = false;
}

void smcr_urgent_acknowledged(struct smcr_conn *conn)
{
	if (!conn->tx.urgent || conn->tx.peer_consumed < conn->tx.urgent_end)
		return;
	conn->tx.urgent = false;
	if (conn->tx.urgent_soon)
		conn->tx.cdc_due = true;
	if (!conn->app_closed && !conn->app_shutdown)
		smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_WRITABLE });
}

bool smcr_conn_tx_urgent_ready(const struct smcr_conn *conn)
{
	return smcr_data_usable(conn) && !conn->app_shutdown && !conn->tx.urgent;
}

void smcr_conn_tx_announce_urgent(struct smcr_conn *conn)
{
	struct smcr_conn_tx *tx = &conn->tx;
	if (!smcr_data_usable(conn) || conn->app_shutdown || tx->urgent_soon)
		return;
	tx->urgent_soon = true;
	if (tx->urgent)
		return; /* the earlier urgent byte comes first */
	tx->cdc_due = true;
	smcr_tx_push(conn);
}

int smcr_conn_tx_commit_urgent(struct smcr_conn *conn, size_t n)
{
	if (!n)
		return -EINVAL;
	if (!smcr_data_usable(conn) || conn->app_shutdown)
		return -EPIPE;
	if (conn->tx.urgent)
		return -EAGAIN;
	if (!conn->tx.urgent_soon)
		conn->tx.cdc_due = true; /* URG-2: P is sent even if no data can be */
	conn->tx.urgent = true;
	conn->tx.urgent_soon = false;
	conn->tx.urgent_end = conn->tx.committed + n;
	conn->engine->stats.tx.urgent++;
	smcr_conn_tx_commit(conn, n);
	return 0;
}

/* ---- receiving ---- */

static void tell(struct smcr_conn *conn)
{
	if (!conn->app_closed)
		smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_URGENT });
}

/* A CDC has U. The same position again (because flags are repeated, or in a replay after failover)
 * says nothing new. */
static void take_mark(struct smcr_conn *conn, const struct smcr_cdc *cdc)
{
	struct smcr_conn_rx *rx = &conn->rx;
	struct smcr_cdc_cursor newest = smcr_cursor_encode(smcr_rx_ring(conn), rx->produced);
	if (cdc->producer.wrap != newest.wrap || cdc->producer.offset != newest.offset ||
	    rx->urgent_end == rx->produced)
		return;
	rx->urgent_end = rx->produced; /* URG-5: the urgent byte is the one before */
	conn->engine->stats.rx.urgent++;
	rx->urgent = rx->consumed < rx->urgent_end;
	if (rx->urgent)
		tell(conn);
	else if (rx->consumed != rx->consumed_sent) /* read before it became urgent: URG-6 */
		conn->tx.cdc_due = true;
}

void smcr_urgent_input(struct smcr_conn *conn, const struct smcr_cdc *cdc)
{
	bool was_pending = conn->rx.urgent_pending;
	conn->rx.urgent_pending = (cdc->prod_flags & URGENT_TOLD) == SMCR_CDC_URGENT_PENDING;
	if (cdc->prod_flags & SMCR_CDC_URGENT_PRESENT)
		take_mark(conn, cdc);
	else if (conn->rx.urgent_pending && !was_pending)
		tell(conn); /* URG-4: the host is told even before the byte comes */
}

void smcr_urgent_keep(const struct smcr_cdc *older, struct smcr_cdc *newest)
{
	if (older->producer.wrap == newest->producer.wrap &&
	    older->producer.offset == newest->producer.offset &&
	    older->prod_flags & SMCR_CDC_URGENT_PRESENT)
		newest->prod_flags |= URGENT_TOLD;
}

enum smcr_urgent smcr_conn_rx_urgent(const struct smcr_conn *conn, size_t *ret_offset)
{
	const struct smcr_conn_rx *rx = &conn->rx;
	if (!smcr_data_usable(conn))
		return SMCR_URGENT_NONE;
	if (rx->urgent && rx->consumed < rx->urgent_end) {
		*ret_offset = (size_t)(rx->urgent_end - 1 - rx->consumed);
		return SMCR_URGENT_PRESENT;
	}
	return rx->urgent_pending ? SMCR_URGENT_PENDING : SMCR_URGENT_NONE;
}
