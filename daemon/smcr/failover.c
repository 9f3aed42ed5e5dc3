/* SPDX-License-Identifier: MIT */
/*
 * Moving connections between links (RFC 7609 2.3, 4.6; group FO of the requirements; GEN-8).
 *
 * Each side moves its own writes, to a link of its own choice (FO-2). A connection that moves
 * (`tx.moving`) posts nothing until all its requests on the old link have completed or were flushed
 * (FO-3), so its requests are never outstanding on two links. Then it posts one list on the new
 * link:
 *   - the validation: a CDC with F and the number of the last CDC known to have arrived (FO-4),
 *   - if anything after that CDC is not known to have arrived, one merged replay, with new data as
 *     far as the window allows (FO-9): the bytes behind the last completed WRITE, and a CDC with a
 *     new number that tells the whole state again, with D, C and A.
 * The send buffer keeps each byte until its WRITE completes, so nothing else has to be remembered.
 * If the new link fails before that list completes, the state is the same, and so is what follows
 * (FO-14).
 *
 * If no link is left, the connection waits while another one is being set up. If none comes, the
 * end of the group resets the connection (FO-13).
 */
#include <errno.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/trace.h"

/* ---- which link ---- */

/** Can the connection write on this link? Not if the peer's RMB has no RToken there yet. If the RMB
 * was withdrawn it has none on any link, but an A can be sent all the same. */
static bool suits(const struct smcr_conn *conn, const struct smcr_link *link)
{
	const struct smcr_peer_rmb *rmb = conn->tx.rmb;
	return link && smcr_link_works(link) &&
	       (!rmb || rmb->withdrawn || rmb->token[link->slot].valid);
}

bool smcr_failover_is_better(const struct smcr_link *a, const struct smcr_link *b)
{
	if (!b || a->disabled != b->disabled)
		return !b || b->disabled;
	return a->num_conns + a->num_named < b->num_conns + b->num_named;
}

/** FO-2: by what this side knows and writes, whatever the peer does. */
static struct smcr_link *choose(const struct smcr_conn *conn, const struct smcr_link *except)
{
	struct smcr_link *best = NULL;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++) {
		struct smcr_link *link = conn->lgr->links[i];
		if (link != except && suits(conn, link) && smcr_failover_is_better(link, best))
			best = link;
	}
	return best;
}

/* ---- what has to be said on the new link ---- */

bool smcr_failover_last_word_pending(const struct smcr_conn *conn)
{
	return conn->tx.rmb && (conn->tx.closed_sent || conn->tx.abort_sent) &&
	       conn->tx.cdc_completed != conn->tx.cdc_seq;
}

/** Will the connection never post anything again? */
static bool silent(const struct smcr_conn *conn)
{
	if (!conn->tx.rmb || !conn->tx.usable) /* nobody to write to: evicted, or never opened */
		return true;
	if (conn->tx.cdc_completed != conn->tx.cdc_seq || conn->tx.abort_due)
		return false;
	return conn->tx.closed_sent || conn->tx.abort_sent;
}

/** FO-10, A32: bytes that the peer has read must have arrived, whatever the completions say. */
static void skip_consumed(struct smcr_conn *conn)
{
	if (conn->tx.completed >= conn->tx.peer_consumed)
		return;
	conn->tx.completed = conn->tx.peer_consumed;
	conn->tx.freed = true;
}

static void put_validation(struct smcr_conn *conn, uint8_t msg[SMCR_CDC_LEN], struct smcr_wr *wr,
			   struct smcr_tx_entry *entry)
{
	struct smcr_cdc cdc = {
		.seq = conn->tx.cdc_completed, /* FO-5 */
		.alert_token = conn->peer_token,
		.prod_flags = SMCR_CDC_FAILOVER,
	};
	smcr_cdc_encode(&cdc, msg, SMCR_CDC_LEN);
	smcr_trace_cdc(conn, conn->tx.link, SMCR_TRACE_SENT, &cdc);
	*wr = (struct smcr_wr){ .addr = msg, .length = SMCR_CDC_LEN };
	*entry = (struct smcr_tx_entry){ .kind = SMCR_TX_CDC, .conn = conn, .cdc_seq = cdc.seq };
}

/** The position where the merged replay ends. A connection that ends abnormally replays no data. */
static uint64_t replay_end(const struct smcr_conn *conn)
{
	if (!smcr_data_flowing(conn))
		return conn->tx.completed;
	if (conn->tx.closed_sent || conn->rx.closed) /* no new data any more */
		return conn->tx.written;
	return smcr_tx_limit(conn);
}

static void moved(struct smcr_conn *conn)
{
	conn->tx.moving = false;
	smcr_stats_gap_end(conn, true);
	smcr_news_of_lgr(conn->lgr, (struct smcr_news){ .type = SMCR_NEWS_CONN_MOVED });
}

static void count_move(struct smcr_conn *conn)
{
	conn->tx.moves++;
	conn->engine->stats.moves++;
	conn->tx.timed_since = 0; /* a time that includes the move is no round trip */
}

/** The list described at the top. It is the same whether a link has failed or an operator moves the
 *  connection (FO-11). */
static void post_move(struct smcr_conn *conn)
{
	struct smcr_wr wr[1 + SMCR_MAX_WRITES + 1];
	struct smcr_tx_entry entries[1 + SMCR_MAX_WRITES + 1];
	uint8_t msg[SMCR_CDC_LEN];
	skip_consumed(conn);
	if (conn->tx.held_back) /* denied data are written, and counted, when they may be */
		conn->tx.written = conn->tx.completed;
	smcr_urgent_moved(conn);
	uint64_t from = conn->tx.completed, end = replay_end(conn);
	size_t n = 1 + smcr_tx_build_writes(conn, from, end, wr + 1, entries + 1);
	bool more = n > 1 || conn->tx.cdc_completed != conn->tx.cdc_seq || conn->tx.cdc_due ||
		    conn->tx.abort_due;
	if (!smcr_tx_link_room(conn, (uint32_t)n + more))
		return;
	put_validation(conn, msg, &wr[0], &entries[0]);
	count_move(conn);
	moved(conn);
	if (!more) {
		smcr_link_post(conn->tx.link, wr, entries, 1);
		return;
	}
	if (end > conn->tx.written) {
		uint64_t more_bytes =
			end - conn->tx.written; /* replayed bytes were counted before */
		conn->tx.written = end;
		smcr_tx_count(conn, more_bytes);
		smcr_urgent_written(conn);
	}
	conn->tx.link->tx_bytes += end - from;
	smcr_tx_take_abort(conn);
	smcr_cdc_post(conn, wr, entries, n);
}

void smcr_failover_step(struct smcr_conn *conn)
{
	if (!conn->tx.link || conn->tx.outstanding > 0) /* FO-3 */
		return;
	if (silent(conn)) {
		moved(conn);
		return;
	}
	if (smcr_data_flowing(conn) && !conn->tx.rmb->token[conn->tx.link->slot].valid) {
		smcr_close_local_abort(conn, ECONNRESET, "the peer withdrew the RMB in use");
		return; /* that has called this function again, for the A */
	}
	post_move(conn);
}

/* ---- who moves ---- */

void smcr_failover_move(struct smcr_conn *conn, struct smcr_link *to)
{
	if (conn->phase != SMCR_PHASE_OPEN || (to && to == conn->tx.link))
		return;
	smcr_link_assign(conn, to);
	conn->tx.moving = true;
	smcr_tx_push(conn);
}

unsigned int smcr_failover_leave(struct smcr_link *link)
{
	struct smcr_conn *conn, *next;
	unsigned int moved = 0;
	DL_FOREACH_SAFE2 (link->lgr->conns, conn, next, lgr_next) {
		if (conn->phase != SMCR_PHASE_OPEN || conn->tx.link != link)
			continue;
		struct smcr_link *target = choose(conn, link);
		if (link->state == SMCR_LINK_FAILED)
			smcr_stats_gap_begin(conn);
		smcr_failover_move(conn, target);
		moved += target != NULL;
	}
	return moved;
}

unsigned int smcr_failover_move_all(struct smcr_link *from, struct smcr_link *to)
{
	struct smcr_conn *conn, *next;
	unsigned int moved = 0;
	DL_FOREACH_SAFE2 (from->lgr->conns, conn, next, lgr_next) {
		if (conn->phase != SMCR_PHASE_OPEN || conn->tx.link != from)
			continue;
		struct smcr_link *target = to ? to : choose(conn, from);
		if (!suits(conn, target) || target == from)
			continue;
		smcr_failover_move(conn, target);
		moved++;
	}
	return moved;
}

/* Is a connection on `link` (NULL: none) worth moving to `to`? */
static bool worth_moving(const struct smcr_link *link, const struct smcr_link *to)
{
	if (!link || (link->disabled && !to->disabled))
		return true;
	return link->disabled == to->disabled && link->num_conns > to->num_conns + 1;
}

unsigned int smcr_failover_rebalance(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn, *next;
	unsigned int moved = 0;
	if (lgr->state != SMCR_LGR_ACTIVE)
		return 0;
	DL_FOREACH_SAFE2 (lgr->conns, conn, next, lgr_next) {
		struct smcr_link *link = conn->tx.link;
		if (conn->phase != SMCR_PHASE_OPEN || (link && conn->tx.moving))
			continue;
		struct smcr_link *to = choose(conn, link);
		if (!to || !worth_moving(link, to))
			continue;
		smcr_failover_move(conn, to);
		moved++;
	}
	return moved;
}
