/* SPDX-License-Identifier: MIT */
/* The ways in which a connection ends, and what others learn from that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

/* ---- TCP ---- */

/* Send RST, also if other processes have descriptors of the socket. */
static void reset_tcp(struct conn *conn)
{
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	conn_free_stream(conn);
	if (conn->tcp < 0)
		return;
	(void)connect(conn->tcp, &unspec, sizeof(unspec));
	if (conn->armed)
		rdv_linger_restore(conn->tcp, &conn->linger);
	close_foreign(conn->tcp, conn->quota);
	conn->tcp = -1;
}

void tcp_finish(int tcp, struct quota *quota)
{
	const struct linger background = { 0 };
	shutdown(tcp, SHUT_WR);
	rdv_linger_restore(tcp, &background);
	close_foreign(tcp, quota); /* the program may have set SO_LINGER again */
}

void conn_close_tcp(struct conn *conn)
{
	conn_free_stream(conn);
	if (conn->tcp >= 0)
		tcp_finish(conn->tcp, conn->quota);
	conn->tcp = -1;
}

/* The same, behind the peer's FIN. */
static void close_tcp_last(struct conn *conn)
{
	conn_free_stream(conn);
	if (conn->tcp >= 0 && fins_add(conn->conns, conn->tcp, conn->quota))
		conn->tcp = -1;
	conn_close_tcp(conn);
}

void conn_let_go_of_tcp(struct conn *conn)
{
	conn_free_stream(conn);
	if (conn->armed)
		rdv_linger_restore(conn->tcp, &conn->linger);
	conn->armed = false;
}

/* ---- what others may learn ---- */

/* The port of a client is chosen for one connection, so nothing is learnt about it. */
static struct smcr_addr learnt_peer(const struct conn *conn)
{
	struct smcr_addr peer = conn->peer;
	if (conn->kind == IPC_HANDOVER_ACCEPTED)
		peer.port = 0;
	return peer;
}

void conn_note_failure(const struct conn *conn, enum conns_failure how)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	const struct smcr_addr peer = learnt_peer(conn);
	if (callbacks->failed)
		callbacks->failed(callbacks->ctx, conn->claim_uid, &peer, how);
}

void conn_note_worked(const struct conn *conn)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	const struct smcr_addr peer = learnt_peer(conn);
	if (callbacks->worked)
		callbacks->worked(callbacks->ctx, conn->claim_uid, &peer);
}

void conn_note_outgrown(const struct conn *conn, const struct smcr_needs *needs)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	const struct conns_candidate candidate = conn_candidate(conn);
	if (callbacks->outgrown)
		callbacks->outgrown(callbacks->ctx, &candidate, needs);
}

void conn_tell(const struct conn *conn, enum conns_told_kind kind, const char *why)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	const struct conns_told told = {
		.kind = kind,
		.local = &conn->local,
		.peer = &conn->peer,
		.server = conn->kind == IPC_HANDOVER_ACCEPTED,
		.uid = conn->cred.uid,
		.pid = conn->cred.pid,
		.program = conn->program,
		.reason = conn->reason,
		.peer_reason = conn->peer_reason,
		.why = why,
	};
	if (callbacks->told && !conn->conns->stopped && conn->peer.family)
		callbacks->told(callbacks->ctx, &told);
}

/* A connection that the end of smcrd cuts short teaches nothing. */
static void note_end(const struct conn *conn)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	const struct conns_ended ended = {
		.candidate = conn_candidate(conn),
		.ms = conns_now_ms() - conn->started_ms,
		.bytes = conn->pump.tx_bytes + conn->pump.rx_bytes,
		.needs = conn->needs,
	};
	bool cut_short = conn->conns->stopped || conn->conns->freeing;
	if (conn->was_smcr && callbacks->ended && !cut_short)
		callbacks->ended(callbacks->ctx, &ended);
}

/* ---- the end ---- */

static void release(struct task *task)
{
	struct conn *conn = container_of(task, struct conn, grave);
	pair_reset(&conn->pair);
	close_foreign(conn->tcp, conn->quota);
	conn->quota->conns--;
	limits_count_files(conn->conns, conn->quota, -conn->files);
	limits_update(conn->conns, conn->quota);
	quota_put(conn->conns, conn->quota);
	trim_note_end(conn->conns);
	free(conn);
}

void conn_end(struct conn *conn)
{
	struct conns *conns = conn->conns;
	struct conns_view *counts = &conns->counts;
	conn_stop_watching(conn);
	conn_unshare(conn);
	watchers_ended(conn);
	note_end(conn);
	early_forget(conn);
	conn_free_stream(conn);
	relay_stop(&conn->relay);
	counts->shared_tx_bytes += conn->shared.tx_bytes;
	counts->shared_rx_bytes += conn->shared.rx_bytes;
	counts->smcr_tx_bytes += conn->pump.tx_bytes;
	counts->smcr_rx_bytes += conn->pump.rx_bytes;
	counts->relay_tx_bytes += conn->relay.tx_bytes;
	counts->relay_rx_bytes += conn->relay.rx_bytes;
	conn->phase = PHASE_DEAD;
	batch_cancel(&conn->work);
	batch_cancel(&conn->later);
	DL_DELETE(conns->conns, conn);
	HASH_DELETE(hh, conns->by_id, conn);
	order_remove(&conns->order, conn->number);
	counts->conns--;
	conn->grave.run = release;
	batch_bury(conns->batch, &conn->grave);
}

void conn_fail(struct conn *conn, int error, uint32_t reason)
{
	struct conns *conns = conn->conns;
	bool connect_failed = conn->phase == PHASE_CONNECTING;
	conn->error = error > 0 ? error : ECONNRESET;
	conn->reason = reason;
	conns->counts.failed++;
	if (reason != SMCR_REASON_NONE)
		history_count_reason(conns, reason, SMCR_REASON_NONE);
	if (!connect_failed)
		conn_tell(conn, CONNS_BROKE, reason ? NULL : strerror(conn->error));
	conn_stop_watching(conn);
	if (connect_failed)
		conn_let_go_of_tcp(conn); /* its program may take it back */
	else
		reset_tcp(conn);
	if (conn->pair.fd >= 0) {
		failed_add(conn, conn->error, reason, conn->tcp);
		conn->tcp = -1;
		pair_reset(&conn->pair);
	}
	if (conn->asker)
		conn_reply(conn, IPC_OUTCOME_FAILED, conn->error, -1);
	history_add(conn, CONN_MODE_TCP, IPC_CONN_FAILED);
	conn_end(conn);
}

void conn_abandon(struct conn *conn)
{
	conn_stop_watching(conn);
	reset_tcp(conn);
	pair_reset(&conn->pair);
	history_add(conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
}

void conn_drop(struct conn *conn)
{
	if (conn->asker)
		conn_asker_forget(conn->asker);
	conn->smc = conn->pump.conn = NULL;
	conn_stop_watching(conn);
	reset_tcp(conn);
	pair_reset(&conn->pair);
	conn_end(conn);
}

/* The kernel reads ECONNRESET at the program's end of the pair. TCP reports another error where the
 * peer has sent no RST: `ss -K` has destroyed the socket, or the peer does not answer. The library
 * asks for it. */
static void note_other_error(struct conn *conn, int error)
{
	conn->error = error;
	failed_add(conn, error, SMCR_REASON_NONE, -1);
}

static bool is_other_error(int error)
{
	return error && error != ECONNRESET && error != EPIPE;
}

/* A program that has seen end of file must not get ECONNRESET. */
static void reset_pair(struct conn *conn, int tcp_error)
{
	if (conn->pump.rx_ended || conn->relay.rx_ended) {
		pair_refuse(&conn->pair);
		return;
	}
	if (is_other_error(tcp_error))
		note_other_error(conn, tcp_error);
	pair_reset(&conn->pair);
}

void conn_reset(struct conn *conn)
{
	conn->conns->counts.resets++;
	if (is_other_error(conn->tcp_error))
		conn->why = strerrordesc_np(conn->tcp_error);
	if (conn->why)
		conn_tell(conn, CONNS_WAS_RESET, conn->why);
	conn->phase = PHASE_CLOSING;
	conn->pump.conn = NULL;
	conn_stop_watching(conn);
	conn_unshare(conn);
	reset_tcp(conn);
	reset_pair(conn, conn->tcp_error);
}

void conn_closed(struct conn *conn)
{
	conn_stop_watching(conn);
	conn_unshare(conn);
	/* The RST and the CDC message with the A flag run in parallel (ABORT-2). The engine lets
	 * only the RST of a program's own close wait for A. So that no RST overtakes what was
	 * posted in this turn, which the peer's program would lose, the RST waits until the devices
	 * have had their turn. */
	if (conn->tcp_reset && conn->tcp >= 0 && !conn->reset_waits) {
		conn->reset_waits = true;
		conn_put_off(conn, CONN_CLOSED);
		return;
	}
	if (conn->tcp_reset) {
		reset_tcp(conn);
		pair_reset(&conn->pair);
	} else {
		if (conn->peer_first)
			close_tcp_last(conn);
		else
			conn_close_tcp(conn);
		pair_finish(&conn->pair);
	}
	history_add(conn, CONN_MODE_SMCR, IPC_CONN_CLOSED);
	conn_end(conn);
}

void conn_end_relay(struct conn *conn, bool orderly)
{
	conn_stop_watching(conn);
	if (orderly) {
		conn_close_tcp(conn);
		pair_finish(&conn->pair);
	} else {
		conn->error = ECONNRESET;
		conn->conns->counts.resets++;
		reset_tcp(conn);
		reset_pair(conn, conn->relay.error);
	}
	history_add(conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
}

/* ---- at the program's wish ---- */

int conn_take_back(struct conn *conn)
{
	if (conn->phase != PHASE_RELAY || !relay_untouched(&conn->relay))
		return -EBUSY;
	int tcp = conn->tcp;
	conn_stop_watching(conn);
	conn_let_go_of_tcp(conn);
	conn->tcp = -1;
	conn->relay.pair = NULL; /* no bytes were counted, and none will be */
	conn->handed_back = true;
	pair_reset(&conn->pair);
	history_add(conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
	return tcp;
}

int conn_disconnect(struct conn *conn)
{
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	int tcp = conn->tcp;
	if (tcp < 0)
		return -ENOTCONN;
	conn_stop_watching(conn);
	conn_let_go_of_tcp(conn);
	sockopt_restore_keepalive(tcp, &conn->keepalive);
	(void)connect(tcp, &unspec, sizeof(unspec)); /* RST */
	conn->tcp = -1;
	conn_unshare(conn);
	pair_reset(&conn->pair);
	if (conn->phase == PHASE_SMCR && conn->smc) {
		conn->phase = PHASE_CLOSING;
		conn->pump.conn = NULL;
		smcr_conn_abort(conn->smc);
	} else if (conn->smc) {
		smcr_conn_tcp_event(conn->smc, SMCR_TCP_RESET);
	} else {
		history_add(conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
		conn_end(conn);
	}
	return tcp;
}
