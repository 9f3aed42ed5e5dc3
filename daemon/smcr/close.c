/* SPDX-License-Identifier: MIT */
/*
 * How an established connection ends: the state tables of RFC 7609 4.8.1 (normal, CLOSE-1) and
 * 4.8.2 (abnormal, ABORT-1). There is a function for each event, and in it a case for each row,
 * with the RFC's state names.
 *
 * A state changes when its message is posted, not when the program asks for that. While a shutdown
 * or close waits for completions ("pending close", step 3A), the state stays, and app_shutdown or
 * app_closed is set.
 *
 * The host gets RESET when a connection breaks, and CLOSED when the exchange of A is over. If the
 * program has closed before, the host gets CLOSED with tcp_reset at once, so that TCP's RST and A
 * go out in parallel (ABORT-2).
 *
 * TCP delivers what was sent before a RST, but the data of SMC-R go another way than the RST (A73).
 * If it is the program's own close that resets, CLOSED waits until A has arrived at the peer, and a
 * RST of the peer is taken a little later, when A has had time to come. Neither waits for long.
 *
 * After CLOSED the connection stays without a user until the peer is done with the own element
 * (RMB-8).
 */
#include <errno.h>
#include <syslog.h>

#include "daemon/smcr/data.h"

/* ---- telling the host ---- */

/* CLOSE-2: the host closes TCP after this. */
static void tell_closed(struct smcr_conn *conn)
{
	if (conn->told)
		return;
	conn->told = true;
	smcr_conn_unshare(conn);
	smcr_conn_raise(conn, &(struct smcr_conn_event){
				      .type = SMCR_CONN_CLOSED,
				      .tcp_reset = conn->tcp_reset,
				      .peer_first = conn->peer_first,
				      .needs = smcr_need_of(conn),
			      });
	conn->params.user = NULL;
}

/* Why the connection is reset, if the caller does not say it: something that the peer has done. */
static const char *cause(const struct smcr_conn *conn)
{
	if (conn->engine->shutting_down)
		return NULL;
	if (conn->tcp_rst)
		return "the peer has reset the TCP connection";
	if (conn->rx.aborted)
		return "the peer has ended it abnormally";
	if (conn->rx.closed)
		return "the peer has closed it before it took all that was written";
	return NULL;
}

/* C came, and with it all that the peer's program has sent. But there is more to write, which the
 * peer does not take any more. */
static bool closed_too_soon(const struct smcr_conn *conn)
{
	return conn->rx.closed && conn->tx.committed != conn->tx.written;
}

/* @param why NULL: because its group ends, or the host wants it. @return RESET was raised */
static bool tell_reset(struct smcr_conn *conn, int error, const char *why)
{
	conn->tcp_reset = true;
	if (conn->app_closed)
		tell_closed(conn);
	if (conn->app_closed || conn->reset_raised)
		return false;
	conn->tcp_rst |= smcr_timer_running(&conn->rst_timer); /* RST came first */
	conn->reset_raised = true;
	smcr_conn_raise(conn, &(struct smcr_conn_event){
				      .type = SMCR_CONN_RESET,
				      .error = error,
				      .rx_intact = conn->rx.aborted || conn->tcp_rst ||
						   closed_too_soon(conn),
				      .rx_ended = conn->rx.done || conn->rx.closed,
				      .why = why,
			      });
	return true;
}

/* ---- -> CLOSED ---- */

/* Each connection ends here, so nothing of it is left (ABORT-5). */
static void end(struct smcr_conn *conn)
{
	smcr_timer_stop(conn->engine, &conn->close_timer);
	smcr_timer_stop(conn->engine, &conn->fin_timer);
	smcr_timer_stop(conn->engine, &conn->rst_timer);
	tell_closed(conn);
	smcr_conn_free(conn);
}

/* May the connection be freed? Not while requests are outstanding, which read the send buffer, nor
 * before the last CDC has arrived: if its link fails, it has to be sent again on another link
 * (FO-9). */
static bool settled(const struct smcr_conn *conn)
{
	return conn->tx.outstanding == 0 && !smcr_failover_last_word_pending(conn);
}

/* The connection is over: free it as soon as it is settled. May free. */
static void enter_closed(struct smcr_conn *conn)
{
	conn->state = SMCR_STATE_CLOSED;
	smcr_timer_stop(conn->engine, &conn->close_timer);
	if (settled(conn))
		end(conn);
}

/* As enter_closed(), for callers that must not free. */
static void enter_closed_later(struct smcr_conn *conn)
{
	conn->state = SMCR_STATE_CLOSED;
	smcr_timer_start(conn->engine, &conn->close_timer, 0);
}

/* ---- abnormal end (RFC 7609 4.8.2; ABORT-1, TERM) ---- */

/* A has to be sent. The connection ends when the peer answers (PeerAbortWait) or when the own A
 * completes (ProcessAbort). */
static void start_abort(struct smcr_conn *conn, enum smcr_conn_state state)
{
	conn->state = state;
	conn->tx.abort_due = true;
	smcr_timer_start(conn->engine, &conn->close_timer, conn->engine->config.abort_wait_timeout);
	smcr_tx_push(conn);
}

/* Nothing may be sent any more. The own element stays in use until the peer's A comes or the time
 * is over (RMB-8, A42). */
static void await_abort(struct smcr_conn *conn)
{
	conn->state = SMCR_STATE_PEER_ABORT_WAIT;
	smcr_timer_start(conn->engine, &conn->close_timer, conn->engine->config.abort_wait_timeout);
}

static void begin_abort(struct smcr_conn *conn)
{
	if (conn->tx.closed_sent && conn->rx.closed)
		enter_closed_later(conn);
	else if (conn->tx.closed_sent)
		await_abort(conn);
	else if (conn->rx.closed) /* the peer has sent its last CDC: none to wait for (A43) */
		start_abort(conn, SMCR_STATE_PROCESS_ABORT);
	else
		start_abort(conn, SMCR_STATE_PEER_ABORT_WAIT);
}

void smcr_close_local_abort(struct smcr_conn *conn, int error, const char *why)
{
	if (!smcr_data_flowing(conn))
		return;
	if (why)
		smcr_log_peer(conn->engine, &conn->params.peer, LOG_WARNING, why,
			      "connection %08x of link group %u is aborted: %s", conn->token,
			      conn->lgr->id, why);
	tell_reset(conn, error, why ? why : cause(conn));
	begin_abort(conn);
}

/* The program has closed, and that is a reset. */
static void abort_for_program(struct smcr_conn *conn)
{
	if (!smcr_data_flowing(conn))
		return;
	conn->tcp_reset = true;
	smcr_timer_start(conn->engine, &conn->rst_timer, conn->engine->config.rst_delay);
	begin_abort(conn);
}

/* The program closed in good order, and then data came that nobody will read. With TCP its data and
 * FIN would have gone before the RST. Once C was sent, all data have arrived. */
void smcr_close_unread(struct smcr_conn *conn)
{
	if (conn->tx.closed_sent) {
		smcr_close_local_abort(conn, ECONNRESET, NULL);
		return;
	}
	conn->app_shutdown = true; /* D goes with A */
	abort_for_program(conn);
}

void smcr_close_peer_abort(struct smcr_conn *conn)
{
	conn->rx.aborted = true;
	tell_reset(conn, ECONNRESET, cause(conn));
	if (conn->tx.closed_sent)
		enter_closed(conn);
	else
		start_abort(conn, SMCR_STATE_PROCESS_ABORT);
}

void smcr_close_abort_answered(struct smcr_conn *conn)
{
	if (conn->state != SMCR_STATE_PEER_ABORT_WAIT)
		return;
	conn->rx.aborted = true;
	if (!conn->tx.usable) /* waits for our A, which cannot go: smcr_close_linger() */
		return;
	if (conn->tx.abort_due) /* aborts cross: the peer waits for our A too (ABORT-3) */
		conn->state = SMCR_STATE_PROCESS_ABORT;
	else
		enter_closed(conn);
}

void smcr_close_completed(struct smcr_conn *conn)
{
	if (!settled(conn))
		return;
	if (conn->app_closed && conn->tx.abort_sent)
		tell_closed(conn);
	if (conn->state == SMCR_STATE_CLOSED ||
	    (conn->state == SMCR_STATE_PROCESS_ABORT && conn->tx.abort_sent))
		end(conn);
}

bool smcr_close_kill(struct smcr_conn *conn, int error)
{
	bool told = false;
	if (conn->phase != SMCR_PHASE_OPEN)
		return false;
	if (conn->state != SMCR_STATE_CLOSED)
		told = tell_reset(conn, error, NULL);
	end(conn);
	return told;
}

void smcr_close_evict(struct smcr_conn *conn)
{
	smcr_peer_rmb_unclaim(conn);
	conn->tx.abort_due = false;
	if (conn->state == SMCR_STATE_PROCESS_ABORT) {
		enter_closed(conn);
		return;
	}
	/* If the own C was sent it has arrived, otherwise the peer would not be done, and the
	 * peer's C is on its way. */
	if (!smcr_data_flowing(conn) || conn->tx.closed_sent)
		return;
	smcr_log_peer(conn->engine, &conn->params.peer, LOG_NOTICE, "reused",
		      "has reused the buffer of connection %08x, which is reset", conn->token);
	tell_reset(conn, ECONNRESET, "the peer has reused its buffer");
	await_abort(conn);
}

/* ---- normal end (RFC 7609 4.8.1; CLOSE-1) ---- */

/* D was posted. */
static void done_sent(struct smcr_conn *conn)
{
	switch (conn->state) {
	case SMCR_STATE_ACTIVE:
		conn->state = SMCR_STATE_PEER_CLOSE_WAIT_1;
		smcr_timer_start(conn->engine, &conn->close_timer,
				 conn->engine->config.half_close_timeout);
		break;
	case SMCR_STATE_APP_CLOSE_WAIT_1: conn->state = SMCR_STATE_APP_CLOSE_WAIT_2; break;
	default: break;
	}
}

/* How long the peer may do nothing after the program has closed. If it has not taken all, the end
 * of that time costs its program bytes, which TCP would keep for it. A peer tells what it takes
 * while most of its element is full (WIN-1), so nobody waits for one that has taken all. */
static uint64_t patience(const struct smcr_conn *conn)
{
	const struct smcr_config *config = &conn->engine->config;
	const bool taken = conn->tx.committed - conn->tx.peer_consumed <= conn->tx.usable / 2;
	return taken ? config->close_wait_timeout : config->last_bytes_timeout;
}

/* C was posted. */
static void closed_sent(struct smcr_conn *conn)
{
	smcr_timer_start(conn->engine, &conn->close_timer, patience(conn));
	switch (conn->state) {
	case SMCR_STATE_ACTIVE: conn->state = SMCR_STATE_PEER_CLOSE_WAIT_1; break;
	case SMCR_STATE_APP_FIN_CLOSE_WAIT: enter_closed(conn); break;
	case SMCR_STATE_APP_CLOSE_WAIT_1:
	case SMCR_STATE_APP_CLOSE_WAIT_2:
		if (conn->rx.closed)
			enter_closed(conn);
		else
			conn->state = SMCR_STATE_PEER_FIN_CLOSE_WAIT;
		break;
	default: /* PeerCloseWait1/2 after shutdown(WR): no change */ break;
	}
}

static bool wants_closed(const struct smcr_conn *conn)
{
	return conn->app_closed && !conn->tx.closed_sent;
}

static bool wants_done(const struct smcr_conn *conn)
{
	return conn->app_shutdown && !conn->app_closed && !conn->tx.done_sent;
}

bool smcr_close_draining(const struct smcr_conn *conn)
{
	return (wants_closed(conn) || wants_done(conn)) && conn->tx.written == conn->tx.committed;
}

/* D or C waits for the last completions (step 3A), and the peer's program for end of file. Once for
 * each CDC is enough. */
static void want_completions(struct smcr_conn *conn)
{
	if (conn->tx.ack_wanted)
		return;
	conn->tx.ack_wanted = true;
	smcr_link_want_ack(conn->tx.link);
}

void smcr_close_step(struct smcr_conn *conn)
{
	struct smcr_wr wr[1];
	struct smcr_tx_entry entries[1];
	if (!smcr_close_draining(conn))
		return;
	if (conn->tx.outstanding > 0) {
		want_completions(conn);
		return;
	}
	if (!smcr_tx_room(conn, 1))
		return;
	if (wants_closed(conn)) {
		conn->tx.closed_sent = true;
		smcr_cdc_post(conn, wr, entries, 0);
		closed_sent(conn);
	} else {
		conn->tx.done_sent = true;
		smcr_cdc_post(conn, wr, entries, 0);
		done_sent(conn);
	}
}

static void peer_ends_first(struct smcr_conn *conn)
{
	conn->peer_first = true;
	conn->state = SMCR_STATE_APP_CLOSE_WAIT_1;
}

void smcr_close_peer_done(struct smcr_conn *conn)
{
	conn->rx.done = true;
	switch (conn->state) {
	case SMCR_STATE_ACTIVE: peer_ends_first(conn); break;
	case SMCR_STATE_PEER_CLOSE_WAIT_1: conn->state = SMCR_STATE_PEER_CLOSE_WAIT_2; break;
	default: break;
	}
}

bool smcr_close_peer_closed(struct smcr_conn *conn)
{
	conn->rx.closed = true;
	if (conn->tx.committed != conn->tx.written) {
		smcr_close_local_abort(conn, ECONNRESET, NULL);
		return false;
	}
	switch (conn->state) {
	case SMCR_STATE_ACTIVE: peer_ends_first(conn); break;
	case SMCR_STATE_PEER_CLOSE_WAIT_1:
	case SMCR_STATE_PEER_CLOSE_WAIT_2:
		if (conn->tx.closed_sent) { /* also if both have closed at once (CLOSE-3) */
			enter_closed(conn);
			return false;
		}
		/* If the program has closed too, the own C only waits for completions. */
		conn->state = SMCR_STATE_APP_FIN_CLOSE_WAIT;
		if (!conn->app_closed)
			smcr_timer_stop(conn->engine, &conn->close_timer);
		break;
	case SMCR_STATE_PEER_FIN_CLOSE_WAIT: enter_closed(conn); return false;
	default: break; /* AppCloseWait1/2: rx.closed is enough */
	}
	return true;
}

/* ---- what the program does ---- */

void smcr_conn_shutdown(struct smcr_conn *conn)
{
	if (!smcr_data_usable(conn) || conn->app_shutdown)
		return;
	conn->app_shutdown = true;
	smcr_tx_push(conn);
}

/* CLOSE-7: data in the send buffer are written before C. */
void smcr_conn_close(struct smcr_conn *conn, bool unread)
{
	if (conn->app_closed)
		return;
	conn->app_closed = true;
	if (!smcr_data_flowing(conn))
		return;
	unread |= conn->rx.produced != conn->rx.consumed;
	if (unread && !conn->rx.closed) { /* A22 */
		abort_for_program(conn);
		return;
	}
	/* The timer also bounds the wait for the last completions (ABORT-4: after it the connection
	 * is aborted). */
	smcr_timer_start(conn->engine, &conn->close_timer, patience(conn));
	smcr_tx_push(conn);
}

void smcr_conn_abort(struct smcr_conn *conn)
{
	if (conn->app_closed)
		return;
	conn->app_closed = true;
	abort_for_program(conn);
}

/* ---- timers ---- */

/* CLOSE-4, A40. */
static void close_timeout(struct smcr_engine *engine, void *arg)
{
	struct smcr_conn *conn = arg;
	(void)engine;
	switch (conn->state) {
	case SMCR_STATE_PEER_ABORT_WAIT:
	case SMCR_STATE_PROCESS_ABORT:
	case SMCR_STATE_CLOSED: enter_closed(conn); break;
	default:
		if (conn->tx.closed_sent) { /* PeerCloseWait1/2, PeerFinCloseWait: TCP reset */
			tell_reset(conn, ETIMEDOUT, "the peer did not end it in time");
			enter_closed(conn);
		} else { /* ABORT-4 */
			smcr_close_local_abort(conn, ETIMEDOUT, "its end stalled");
		}
	}
}

/* TERM-3, A28: a FIN has come, but not the CDC with D or C. Keep waiting while the program has
 * unread data: the peer may need room to write the data before its D. */
static void fin_timeout(struct smcr_engine *engine, void *arg)
{
	struct smcr_conn *conn = arg;
	if (!smcr_data_flowing(conn) || conn->rx.done || conn->rx.closed)
		return;
	if (conn->rx.produced != conn->rx.consumed)
		smcr_timer_start(engine, &conn->fin_timer, engine->config.fin_grace);
	else
		smcr_close_local_abort(conn, ECONNRESET, "TCP ended before it did");
}

/* A did not come behind the peer's RST. Or the own A did not arrive, and the own RST goes without
 * it. */
static void rst_timeout(struct smcr_engine *engine, void *arg)
{
	struct smcr_conn *conn = arg;
	(void)engine;
	if (smcr_data_flowing(conn)) {
		conn->tcp_rst = true;
		smcr_close_local_abort(conn, ECONNRESET, NULL);
	} else if (conn->app_closed) {
		tell_closed(conn);
	}
}

static void init_timers(struct smcr_conn *conn)
{
	smcr_timer_init(&conn->close_timer, close_timeout, conn);
	smcr_timer_init(&conn->fin_timer, fin_timeout, conn);
	smcr_timer_init(&conn->rst_timer, rst_timeout, conn);
}

/* After shutdown the timer measures silence, after close lack of progress (A41). */
void smcr_close_activity(struct smcr_conn *conn, bool progress)
{
	if (smcr_timer_running(&conn->fin_timer))
		smcr_timer_start(conn->engine, &conn->fin_timer, conn->engine->config.fin_grace);
	if (!smcr_timer_running(&conn->close_timer))
		return;
	if (!conn->app_closed)
		smcr_timer_start(conn->engine, &conn->close_timer,
				 conn->engine->config.half_close_timeout);
	else if (progress)
		smcr_timer_start(conn->engine, &conn->close_timer, patience(conn));
}

/* ---- TCP ---- */

void smcr_close_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event)
{
	if (!smcr_data_flowing(conn))
		return; /* ABORT-2: a RST after A, or the end of TCP after C, is nothing new */
	switch (event) {
	case SMCR_TCP_RESET:
		if (!smcr_timer_running(&conn->rst_timer))
			smcr_timer_start(conn->engine, &conn->rst_timer,
					 conn->engine->config.rst_grace);
		break;
	case SMCR_TCP_FIN:
		conn->tcp_fin = true;
		if (!conn->rx.done && !conn->rx.closed)
			smcr_timer_start(conn->engine, &conn->fin_timer,
					 conn->engine->config.fin_grace);
		break;
	}
}

/* ---- rendezvous broke after Accept of a subsequent contact ---- */

void smcr_close_linger(struct smcr_conn *conn)
{
	init_timers(conn);
	conn->phase = SMCR_PHASE_OPEN;
	conn->app_closed = true;
	conn->told = true;
	conn->params.user = NULL;
	conn->state = SMCR_STATE_PEER_ABORT_WAIT;
	smcr_timer_start(conn->engine, &conn->close_timer, conn->engine->config.abort_wait_timeout);
}

/* ---- CLOSED, rendezvous complete -> ACTIVE ---- */

void smcr_data_open(struct smcr_conn *conn)
{
	uint32_t reserved = conn->lgr->dialect == SMCR_DIALECT_RFC ? 4 : 0; /* the eye catcher */
	conn->tx.usable = conn->tx.element_size - reserved;
	conn->rx.usable = conn->rx.element.size - reserved;
	init_timers(conn);
	conn->phase = SMCR_PHASE_OPEN;
	conn->state = SMCR_STATE_ACTIVE;
	smcr_denied_open(conn);
	smcr_conn_raise(conn, &(struct smcr_conn_event){ .type = SMCR_CONN_ESTABLISHED });
	if (conn->tcp_fin)
		smcr_close_tcp_event(conn, SMCR_TCP_FIN);
	if (conn->rx.early_lost) {
		smcr_close_local_abort(conn, ECONNRESET, "data were lost with a link");
		return;
	}
	if (conn->rx.early_valid)
		smcr_cdc_input(conn, conn->rx.last_link, &conn->rx.early);
}
