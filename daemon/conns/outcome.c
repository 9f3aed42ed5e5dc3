/* SPDX-License-Identifier: MIT */
/* The rendezvous has ended in SMC-R or in plain TCP, and the program is told. */
#include <errno.h>
#include <string.h>

#include "daemon/conns/internal.h"
#include "daemon/rendezvous/spoken.h"

/* ---- SMC-R ---- */

void conn_open_early(struct conn *conn)
{
	if (conn->kind == IPC_HANDOVER_CONNECTED) {
		int program = conn->asker ? conn_open_pair(conn, false) : -ESRCH;
		if (program < 0) /* the program is gone, or it has to wait for the outcome */
			return;
		conn_reply(conn, IPC_OUTCOME_OPEN, 0, program);
	} else {
		pair_unplug(&conn->pair);
	}
	conn->opened_early = true;
}

void conn_established(struct conn *conn)
{
	struct conns *conns = conn->conns;
	conn->phase = PHASE_SMCR;
	conn->was_smcr = true;
	conn_settled(conn);
	early_forget(conn);
	conns->counts.established++;
	conn_note_worked(conn);
	conn_update_stream(conn);
	if (conn->kind == IPC_HANDOVER_CONNECTED && !conn->opened_early) {
		int program = conn->asker ? conn_open_pair(conn, false) : -ESRCH;
		if (program < 0 && conn->asker)
			conn_reply(conn, IPC_OUTCOME_FAILED, -program, -1);
		else if (program >= 0)
			conn_reply(conn, IPC_OUTCOME_PAIR, 0, program);
		if (program < 0) { /* the program is gone: close the connection in its name */
			conn->phase = PHASE_CLOSING;
			if (conn->smc)
				smcr_conn_close(conn->smc, false);
			return;
		}
	} else if (conn->kind == IPC_HANDOVER_CONNECTING && !conn->opened_early) {
		pair_unplug(&conn->pair);
	}
	conn->pump.conn = conn->broken ? NULL : conn->smc;
	conn_options_changed(conn);
	pump_note_readable(&conn->pump); /* events of the pair tell what the pair has */
}

/* ---- fallback ---- */

static void on_tcp_ready(struct watch *watch, uint32_t events)
{
	struct conn *conn = container_of(watch, struct conn, tcp_watch);
	relay_note_tcp(&conn->relay, events);
	conn_mark(conn);
}

/* The program has its pair end: move bytes between that and TCP from now on. */
static void start_relay(struct conn *conn)
{
	struct conns *conns = conn->conns;
	int r = 0;
	/* If the daemon dies before the orderly close, TCP has to be reset as the pair is. */
	if (!conn->armed)
		r = rdv_linger_arm(conn->tcp, &conn->linger);
	conn->armed = r == 0;
	conn->phase = PHASE_RELAY;
	conn_settled(conn);
	early_forget(conn);
	relay_start(&conn->relay, &conn->pair, conn->tcp);
	conn->relay.closed = conn->pump.closed; /* the program may have closed meanwhile */
	conn_options_changed(conn);
	if (r == 0)
		r = poller_add(conns->poller, &conn->tcp_watch, conn->tcp,
			       EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI, on_tcp_ready);
	if (r < 0) {
		conns_warn_of_user(
			conns, conn->quota->uid, "relay",
			"pid %d: bytes cannot be relayed between the program and TCP: %s",
			(int)conn->cred.pid, strerror(-r));
		conn_fail(conn, -r, SMCR_REASON_INTERNAL);
		return;
	}
	if (conn->kind == IPC_HANDOVER_CONNECTING && !conn->opened_early)
		pair_unplug(&conn->pair);
	conn_mark(conn);
}

/* Connections that the BPF programs have counted as plain TCP are not counted again. */
static void count_fallback(struct conn *conn)
{
	struct conns *conns = conn->conns;
	const struct conns_callbacks *callbacks = &conns->config.callbacks;
	bool begun = conn->stream || conn->again;
	if (!begun && conn->settled_tcp) {
		if (callbacks->settled_tcp)
			callbacks->settled_tcp(callbacks->ctx, conn->cookie);
		return;
	}
	if (begun)
		conns->counts.fallbacks++;
	else
		conns->counts.not_candidates++;
	history_count_reason(conns, conn->reason, conn->peer_reason);
	conn_tell(conn, begun ? CONNS_FELL_BACK : CONNS_STAYED_TCP, NULL);
}

void conn_tcp_lost(struct conn *conn)
{
	again_or_fail(conn, ECONNRESET, conn->reason);
}

void conn_fall_back(struct conn *conn, uint32_t reason)
{
	conn->reason = reason;
	if (conn->stream && clc_stream_broken(conn->stream)) {
		conn_tcp_lost(conn);
		return;
	}
	if (conn->stream && clc_stream_unsent(conn->stream) > 0) {
		conn->phase = PHASE_DECLINING; /* our Decline must leave before data */
		return;
	}
	if (conn->pair.fd >= 0 && (conn->require || conn->conns->stopped)) {
		conn_fail(conn, conn->require ? EPROTONOSUPPORT : ECONNRESET, reason);
		return;
	}
	/* If no rendezvous was begun, the peer was told nothing, and the gate
	 * (daemon/rendezvous/egress.c) goes on to stop CLC on this socket.
	 */
	const bool told = conn->stream;
	count_fallback(conn);
	conn_free_stream(conn);
	if (told)
		spoken_free_socket(conn->tcp);
	if (conn->pair.fd >= 0) {
		start_relay(conn);
		return;
	}
	if (!conn->asker)
		conn_close_tcp(conn); /* the program is gone */
	else
		conn_let_go_of_tcp(conn);
	conn->handed_back = conn->asker && !conn->require;
	if (conn->asker && conn->require)
		conn_reply(conn, IPC_OUTCOME_FAILED, EPROTONOSUPPORT, -1);
	else if (conn->asker)
		conn_reply(conn, IPC_OUTCOME_TCP, 0, -1);
	history_add(conn, CONN_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
}
