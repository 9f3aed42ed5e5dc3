/* SPDX-License-Identifier: MIT */
/* Writing into the peer's element (RFC 7609 sections 4.5, 4.7; CDC-17; sequences: DATA). */
#include <assert.h>
#include <errno.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/probes.h"

static uint64_t buffer_free(const struct smcr_conn *conn)
{
	return conn->tx.buf.size - (conn->tx.committed - conn->tx.completed);
}

static uint32_t buffer_offset(const struct smcr_conn *conn, uint64_t pos)
{
	return (uint32_t)(pos & (conn->tx.buf.size - 1));
}

static uint64_t min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool smcr_tx_link_room(struct smcr_conn *conn, uint32_t n)
{
	if (smcr_link_room(conn->tx.link, n))
		return true;
	smcr_link_wait(conn->tx.link, conn);
	return false;
}

bool smcr_tx_room(struct smcr_conn *conn, uint32_t n)
{
	/* A connection may take half of its link's send queue. It goes on when its own requests
	 * complete. */
	if (conn->tx.outstanding + n > conn->tx.link->tx_depth / 2)
		return false;
	return smcr_tx_link_room(conn, n);
}

/* RMB-11: positions become offsets inside the peer's element here, whatever the peer has said.
 * CDC-11: a range that crosses the end of a buffer becomes two writes. */
size_t smcr_tx_build_writes(const struct smcr_conn *conn, uint64_t from, uint64_t to,
			    struct smcr_wr *wr, struct smcr_tx_entry *entries)
{
	const struct smcr_link *link = conn->tx.link;
	const struct smcr_rtoken *token = &conn->tx.rmb->token[link->slot]; /* RMB-10 */
	const struct smcr_element *buf = &conn->tx.buf;
	struct smcr_ring ring = smcr_tx_ring(conn);
	uint64_t element = token->vaddr + (uint64_t)(conn->tx.index - 1) * ring.size;
	uint64_t pos = from;
	size_t n = 0;
	while (pos < to) {
		uint32_t at = buffer_offset(conn, pos);
		uint64_t run = min64(to - pos, min64(smcr_ring_run(ring, pos), buf->size - at));
		wr[n] = (struct smcr_wr){
			.is_write = true,
			.addr = buf->addr + at,
			.length = (uint32_t)run,
			.lkey = buf->slab->reg[link->slot].lkey,
			.rkey = token->rkey,
			.remote_addr = element + smcr_ring_offset(ring, pos),
		};
		pos += run;
		entries[n++] = (struct smcr_tx_entry){
			.kind = SMCR_TX_WRITE,
			.conn = (struct smcr_conn *)conn,
			.tx_end = pos,
		};
	}
	return n;
}

/* CDC-10: never beyond the window. */
uint64_t smcr_tx_limit(const struct smcr_conn *conn)
{
	if (conn->tx.held_back)
		return conn->tx.written;
	return min64(smcr_urgent_limit(conn), conn->tx.written + smcr_tx_window(conn));
}

void smcr_tx_count(struct smcr_conn *conn, uint64_t len)
{
	struct smcr_flow_stats *stats = &conn->engine->stats.tx;
	const bool full = smcr_tx_window(conn) == 0;
	conn->tx.bytes += len;
	conn->tx.window_full += full;
	stats->window_full += full;
	stats->bytes += len;
	stats->messages++;
}

/* WIN-5: write at once as much as the window and an urgent byte allow. @return false: there is no
 * room, or the connection is ending */
static bool push_data(struct smcr_conn *conn)
{
	uint64_t end = smcr_tx_limit(conn);
	uint64_t len = end - conn->tx.written;
	if (conn->tx.committed != conn->tx.written &&
	    conn->rx.closed) { /* the peer takes nothing any more (CLOSE) */
		smcr_close_local_abort(conn, ECONNRESET, NULL);
		return false;
	}
	if (!len)
		return true;
	if (!conn->tx.rmb->token[conn->tx.link->slot].valid) { /* RKEY-16 */
		smcr_close_local_abort(conn, ECONNRESET, "the peer withdrew the RMB in use");
		return false;
	}
	struct smcr_wr wr[SMCR_MAX_WRITES + 1];
	struct smcr_tx_entry entries[SMCR_MAX_WRITES + 1];
	size_t n = smcr_tx_build_writes(conn, conn->tx.written, end, wr, entries);
	if (!smcr_tx_room(conn, (uint32_t)n + 1))
		return false;
	conn->tx.written = end;
	smcr_urgent_written(conn);
	smcr_tx_count(conn, len);
	conn->tx.link->tx_bytes += len;
	smcr_cdc_post(conn, wr, entries, n);
	return true;
}

static void push_cdc(struct smcr_conn *conn)
{
	struct smcr_wr wr[1];
	struct smcr_tx_entry entries[1];
	if (smcr_tx_room(conn, 1))
		smcr_cdc_post(conn, wr, entries, 0);
}

/* D goes with A if the program had shut writing down: the peer's program then gets end of file
 * behind the data, as with a FIN before a RST. The writes before A arrive before A does (CDC-6),
 * or, if they were lost with a link, the peer knows that data are missing. */
void smcr_tx_take_abort(struct smcr_conn *conn)
{
	if (!conn->tx.abort_due)
		return;
	conn->tx.abort_due = false;
	conn->tx.abort_sent = true;
	conn->tx.done_sent |= conn->app_shutdown && conn->tx.written == conn->tx.committed;
}

/* A is the last request of the connection, so the connection's share of the link does not count. */
static void push_abort(struct smcr_conn *conn)
{
	struct smcr_wr wr[1];
	struct smcr_tx_entry entries[1];
	if (!smcr_tx_link_room(conn, 1))
		return;
	smcr_tx_take_abort(conn);
	smcr_cdc_post(conn, wr, entries, 0);
}

void smcr_tx_push(struct smcr_conn *conn)
{
	if (conn->phase != SMCR_PHASE_OPEN || !conn->tx.link)
		return;
	if (conn->tx.moving)
		smcr_failover_step(conn);
	if (conn->tx.moving)
		return;
	if (conn->tx.abort_due) {
		push_abort(conn);
		return;
	}
	if (!smcr_data_flowing(conn) || conn->tx.closed_sent) /* CDC-13 */
		return;
	if (!push_data(conn))
		return;
	/* If D or C waits for the last completions, its CDC will tell the present state. Another
	 * CDC now would only delay it. */
	if (conn->tx.cdc_due && !smcr_close_draining(conn))
		push_cdc(conn);
	smcr_close_step(conn);
}

bool smcr_tx_may_ask(const struct smcr_conn *conn)
{
	return smcr_data_flowing(conn) && !conn->tx.closed_sent && !conn->rx.closed;
}

void smcr_tx_ask(struct smcr_conn *conn)
{
	if (!smcr_tx_may_ask(conn) || conn->tx.asking)
		return;
	conn->tx.asking = true;
	conn->tx.cdc_due = true;
	smcr_tx_push(conn);
}

void smcr_tx_resume(struct smcr_conn *conn)
{
	smcr_tx_push(conn);
}

void smcr_tx_done(struct smcr_conn *conn, struct smcr_link *link, const struct smcr_tx_entry *entry,
		  bool ok)
{
	(void)link;
	if (ok && entry->kind == SMCR_TX_WRITE) {
		conn->tx.completed = entry->tx_end;
		conn->tx.freed = true;
	}
	if (ok && entry->kind == SMCR_TX_CDC) {
		conn->tx.cdc_completed = entry->cdc_seq;
		smcr_cdc_timed(conn);
	}
	if (conn->tx.moving)
		smcr_tx_push(conn);
	if (!smcr_data_flowing(conn)) {
		smcr_close_completed(conn);
		return;
	}
	/* The last request of each list is a CDC: go on once for each list, not for each
	 * request. */
	if (!ok || entry->kind != SMCR_TX_CDC)
		return;
	if (conn->tx.freed && !conn->app_closed && !conn->app_shutdown)
		smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_WRITABLE });
	if (conn->tx.freed)
		smcr_close_activity(conn, true);
	conn->tx.freed = false;
	smcr_tx_push(conn);
}

/* The writes of the proof read the send buffer, which the program may fill now (A67). D and C
 * promise that nothing is written into the peer's element any more, and a connection that moves or
 * ends needs its send buffer back. So both wait for these writes as for data. */
void smcr_tx_proof_over(struct smcr_conn *conn)
{
	if (conn->phase != SMCR_PHASE_OPEN || conn->tx.proofs > 0)
		return;
	if (smcr_data_usable(conn) && !conn->app_shutdown)
		smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_WRITABLE });
	smcr_tx_push(conn);
	if (conn->tx.outstanding == 0 && !smcr_data_flowing(conn))
		smcr_close_completed(conn);
}

int smcr_conn_tx_space(struct smcr_conn *conn, struct iovec iov[2])
{
	if (!smcr_data_usable(conn) || conn->app_shutdown || conn->tx.proofs > 0)
		return 0;
	uint64_t len = buffer_free(conn);
	int n = 0;
	for (uint64_t pos = conn->tx.committed; len > 0; n++) {
		uint32_t from = buffer_offset(conn, pos);
		uint64_t run = min64(len, conn->tx.buf.size - from);
		iov[n] = (struct iovec){ conn->tx.buf.addr + from, run };
		pos += run;
		len -= run;
	}
	return n;
}

static void count_request(struct smcr_conn *conn, size_t n)
{
	struct smcr_flow_stats *stats = &conn->engine->stats.tx;
	bool full = !buffer_free(conn);
	conn->tx.requests++;
	conn->tx.full += full;
	stats->requests++;
	stats->request_bytes += n;
	stats->sizes[smcr_size_class(n)]++;
	stats->full += full;
}

/* DATA-7: the program's send() may return after this. */
void smcr_conn_tx_commit(struct smcr_conn *conn, size_t n)
{
	if (!n || !smcr_data_usable(conn) || conn->app_shutdown)
		return;
	assert(n <= buffer_free(conn));
	conn->tx.committed += n;
	smcr_need_committed(conn, conn->tx.committed - n);
	count_request(conn, n);
	smcr_probe_sendmsg(conn, n);
	smcr_tx_push(conn);
}
