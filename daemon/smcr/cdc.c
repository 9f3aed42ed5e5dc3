/* SPDX-License-Identifier: MIT */
/* Connection Data Control messages (RFC 7609 A.4; group CDC of the requirements). */
#include <errno.h>
#include <syslog.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/llc.h"
#include "daemon/smcr/trace.h"

/* ---- out ---- */

/* CDC-16 and A36: B is set while the window is full. Data are always written as far as the window
 * allows, so none wait while the window is open. */
static bool blocked(const struct smcr_conn *conn)
{
	return smcr_tx_window(conn) == 0;
}

/* CDC-4: each CDC has both cursors and all flags; D, C and A are repeated once sent. */
static struct smcr_cdc describe(const struct smcr_conn *conn)
{
	struct smcr_cdc cdc = {
		.seq = conn->tx.cdc_seq,
		.alert_token = conn->peer_token,
		.producer = smcr_cursor_encode(smcr_tx_ring(conn), conn->tx.written),
		.consumer = smcr_cursor_encode(smcr_rx_ring(conn), conn->rx.consumed),
	};
	cdc.prod_flags = smcr_urgent_flags(conn);
	if (conn->tx.asking)
		cdc.prod_flags |= SMCR_CDC_CONS_UPDATE_REQ;
	if (blocked(conn))
		cdc.prod_flags |= SMCR_CDC_WRITE_BLOCKED;
	if (conn->tx.done_sent)
		cdc.conn_flags |= SMCR_CDC_SENDING_DONE;
	if (conn->tx.closed_sent)
		cdc.conn_flags |= SMCR_CDC_CLOSED;
	if (conn->tx.abort_sent)
		cdc.conn_flags |= SMCR_CDC_ABORT;
	return cdc;
}

/* The round trip of one CDC at a time is measured, between the engine's times when it is posted and
 * when it completes. */
static void count_sent(struct smcr_conn *conn, uint16_t seq)
{
	struct smcr_conn_tx *tx = &conn->tx;
	conn->engine->stats.tx.cdcs++;
	tx->said = conn->engine->now;
	if (tx->timed_since)
		return;
	tx->timed_since = tx->said;
	tx->timed_seq = seq;
}

void smcr_cdc_timed(struct smcr_conn *conn)
{
	struct smcr_conn_tx *tx = &conn->tx;
	if (!tx->timed_since || smcr_cdc_seq_newer(tx->timed_seq, tx->cdc_completed))
		return;
	uint64_t took = conn->engine->now - tx->timed_since;
	tx->rtt = took < UINT32_MAX ? (uint32_t)took + !took : UINT32_MAX; /* 0: not known */
	tx->timed_since = 0;
}

void smcr_cdc_post(struct smcr_conn *conn, struct smcr_wr *wr, struct smcr_tx_entry *entries,
		   size_t n)
{
	uint8_t msg[SMCR_CDC_LEN];
	conn->tx.cdc_seq++; /* 65535 -> 0 (CDC-2) */
	struct smcr_cdc cdc = describe(conn);
	smcr_cdc_encode(&cdc, msg, sizeof(msg));
	wr[n] = (struct smcr_wr){ .addr = msg, .length = sizeof(msg) };
	entries[n] = (struct smcr_tx_entry){
		.kind = SMCR_TX_CDC,
		.conn = conn,
		.cdc_seq = cdc.seq,
	};
	count_sent(conn, cdc.seq);
	smcr_trace_cdc(conn, conn->tx.link, SMCR_TRACE_SENT, &cdc);
	conn->tx.blocked_sent = blocked(conn);
	conn->tx.cdc_due = false;
	conn->tx.ack_wanted = false;
	conn->rx.consumed_sent = conn->rx.consumed; /* WIN-2 */
	smcr_urgent_posted(conn, &cdc);
	/* CDC-6: the CDC follows the writes that it announces. */
	smcr_link_post(conn->tx.link, wr, entries, n + 1);
}

/* ---- in ---- */

/* RV-13, RS-9: the own gate is still closed: keep the newest CDC. It has the whole state, so older
 * ones are not needed.
 */
static void keep_early(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_cdc *cdc)
{
	if (conn->rx.early_valid && !smcr_cdc_seq_newer(cdc->seq, conn->rx.early.seq))
		return;
	struct smcr_cdc newest = *cdc;
	if (conn->rx.early_valid)
		smcr_urgent_keep(&conn->rx.early, &newest);
	conn->rx.early = newest;
	conn->rx.early_valid = true;
	conn->rx.last_link = link;
}

/* FO-7: the peer has moved the connection to another link. The message's number is that of the last
 * CDC which the peer knows to have arrived; nothing else in the message counts (FO-4). The host has
 * already handed in everything that arrived on the old link (FO-8). */
static void failover_validation(struct smcr_conn *conn, struct smcr_link *link,
				const struct smcr_cdc *cdc)
{
	bool lost = smcr_cdc_seq_newer(cdc->seq, conn->rx.cdc_seq); /* FO-6 */
	conn->rx.last_link = link;
	if (lost && smcr_data_flowing(conn))
		smcr_close_local_abort(conn, ECONNRESET, "data were lost with a link");
}

/* CDC-12: the producer cursor may not be beyond the window that the peer was told, and the consumer
 * cursor not beyond what was written. */
static bool take_positions(struct smcr_conn *conn, const struct smcr_cdc *cdc, uint64_t *ret_fresh,
			   uint64_t *ret_opened)
{
	uint64_t produced, consumed;
	if (smcr_cursor_decode(smcr_rx_ring(conn), cdc->producer, conn->rx.produced,
			       conn->rx.consumed_sent + conn->rx.usable, &produced) < 0) {
		smcr_close_local_abort(conn, ECONNRESET, "producer cursor outside the window");
		return false;
	}
	if (smcr_cursor_decode(smcr_tx_ring(conn), cdc->consumer, conn->tx.peer_consumed,
			       conn->tx.written, &consumed) < 0) {
		smcr_close_local_abort(conn, ECONNRESET, "consumer cursor beyond what was written");
		return false;
	}
	*ret_fresh = produced - conn->rx.produced;
	*ret_opened = consumed - conn->tx.peer_consumed;
	conn->rx.produced = produced;
	conn->tx.peer_consumed = consumed;
	return true;
}

static void take_producer_flags(struct smcr_conn *conn, uint8_t flags)
{
	conn->rx.peer_blocked = flags & SMCR_CDC_WRITE_BLOCKED;
	conn->rx.update_requested = flags & SMCR_CDC_CONS_UPDATE_REQ;
	/* WIN-4: answer R at once, even with nothing new: the peer wants to know whether we know
	 * the connection (A66). WIN-7: if the peer says that it is blocked although all was read,
	 * it knows an old position. No later consumption would tell it the new one. */
	if (conn->rx.update_requested ||
	    (conn->rx.consumed != conn->rx.consumed_sent && conn->rx.peer_blocked &&
	     conn->rx.consumed == conn->rx.produced))
		conn->tx.cdc_due = true;
	/* CDC-16: the window is open again. If no data are sent now, a CDC alone has to clear B. */
	if (conn->tx.blocked_sent && smcr_tx_window(conn) > 0)
		conn->tx.cdc_due = true;
}

/* CLOSE-6, CLOSE-8, RMB-5: may the peer send data now? If not, abort the connection. */
static bool fresh_data_ok(struct smcr_conn *conn, const struct smcr_cdc *cdc)
{
	if (conn->rx.done || conn->rx.closed) {
		smcr_close_local_abort(conn, ECONNRESET, "data after the peer's end of data");
		return false;
	}
	if (!smcr_rx_eye_catcher_ok(conn)) {
		smcr_close_local_abort(conn, ECONNRESET, "eye catcher of the element overwritten");
		return false;
	}
	/* Nobody will read the data. If the peer has closed too that does not matter, as in
	 * smcr_conn_close() (A22). */
	if (conn->tx.closed_sent || (conn->app_closed && !(cdc->conn_flags & SMCR_CDC_CLOSED))) {
		conn->rx.closed |= !!(cdc->conn_flags & SMCR_CDC_CLOSED);
		smcr_close_unread(conn);
		return false;
	}
	return true;
}

static void count_received(struct smcr_conn *conn, uint64_t fresh)
{
	struct smcr_flow_stats *stats = &conn->engine->stats.rx;
	/* Was the element full, as far as the peer knows? */
	const bool full = conn->rx.produced - conn->rx.consumed_sent == conn->rx.usable;
	conn->rx.full += full;
	stats->full += full;
	stats->bytes += fresh;
	stats->messages++;
}

/* CDC-15: process everything that a CDC says about a flowing connection. */
static void process(struct smcr_conn *conn, const struct smcr_cdc *cdc)
{
	uint64_t fresh, opened;
	if (!take_positions(conn, cdc, &fresh, &opened))
		return;
	if (fresh && !fresh_data_ok(conn, cdc))
		return;
	smcr_urgent_acknowledged(conn);
	smcr_urgent_input(conn, cdc);
	take_producer_flags(conn, cdc->prod_flags);
	if (fresh) {
		smcr_need_received(conn, conn->rx.produced - fresh);
		count_received(conn, fresh);
	}
	conn->rx.bytes += fresh;
	if (conn->rx.last_link)
		conn->rx.last_link->rx_bytes += fresh;

	bool done = cdc->conn_flags & SMCR_CDC_SENDING_DONE && !conn->rx.done;
	bool closed = cdc->conn_flags & SMCR_CDC_CLOSED && !conn->rx.closed;
	smcr_close_activity(conn, opened > 0);
	if (done)
		smcr_close_peer_done(conn);
	if (closed && !smcr_close_peer_closed(conn))
		return;
	if ((fresh || done || closed) && !conn->app_closed)
		smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_READABLE });
	smcr_tx_push(conn);
}

/* The message has A, and is the peer's last one. If D comes with A and no data are missing, the
 * peer had ended its data before. Nothing else in the message is looked at: a connection that moved
 * to another link replays no data behind A, so A may tell of data that were lost. */
static void take_abort(struct smcr_conn *conn, const struct smcr_cdc *cdc)
{
	const bool done = cdc->conn_flags & SMCR_CDC_SENDING_DONE;
	uint64_t produced;
	if (done && smcr_cursor_decode(smcr_rx_ring(conn), cdc->producer, conn->rx.produced,
				       conn->rx.produced, &produced) == 0)
		conn->rx.done = true;
	smcr_close_peer_abort(conn);
}

void smcr_cdc_input(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_cdc *cdc)
{
	bool validation = cdc->prod_flags & SMCR_CDC_FAILOVER;
	conn->rx.heard = conn->engine->now;
	conn->tx.asking = false;
	smcr_denied_heard(conn);
	if (conn->phase == SMCR_PHASE_RENDEZVOUS && validation) {
		uint16_t seen = conn->rx.early_valid ? conn->rx.early.seq : 0;
		conn->rx.early_lost |= smcr_cdc_seq_newer(cdc->seq, seen);
		return;
	}
	if (conn->phase == SMCR_PHASE_RENDEZVOUS) {
		keep_early(conn, link, cdc);
		return;
	}
	if (validation) {
		failover_validation(conn, link, cdc);
		smcr_tx_push(conn); /* data that were held back until a CDC came (A69) */
		return;
	}
	if (!smcr_cdc_seq_newer(cdc->seq, conn->rx.cdc_seq)) {
		conn->engine->count.cdc_dropped_old++; /* CDC-3 */
		return;
	}
	conn->rx.cdc_seq = cdc->seq;
	conn->rx.last_link = link;
	if (!smcr_data_flowing(conn)) {
		if (cdc->conn_flags & (SMCR_CDC_ABORT | SMCR_CDC_CLOSED))
			smcr_close_abort_answered(conn);
	} else if (cdc->conn_flags & SMCR_CDC_ABORT) {
		take_abort(conn, cdc);
	} else {
		process(conn, cdc);
	}
}

void smcr_cdc_recv(struct smcr_link *link, const uint8_t *data, size_t len)
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
	smcr_trace_cdc(conn, link, SMCR_TRACE_RECEIVED, &cdc);
	smcr_cdc_input(conn, link, &cdc);
}
