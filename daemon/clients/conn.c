/* SPDX-License-Identifier: MIT */
/* One handed-over connection: its phases from the handover to the end. */
#include <errno.h>
#include <stdlib.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define ID_TRIES 8

/* ---- birth ---- */

struct client_conn *conn_new(struct session *session, enum ipc_handover_kind kind, int tcp)
{
	struct clients *clients = session->clients;
	const struct clients_limits *limits = &clients->config.limits;
	struct quota *quota = session->quota;
	if (clients->counts.conns >= limits->conns || quota->conns >= limits->conns_per_uid)
		return NULL;
	struct client_conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return NULL;
	conn->clients = clients;
	conn->id = conn->name.id = clients->next_id++;
	conn->cred = session->cred;
	conn->quota = quota;
	conn->kind = kind;
	conn->phase = PHASE_CONNECTING;
	conn->started_ms = clients_now_ms();
	conn->tcp = tcp;
	socklen_t cookie_len = sizeof(conn->cookie);
	getsockopt(tcp, SOL_SOCKET, SO_COOKIE, &conn->cookie, &cookie_len);
	conn->pair.fd = conn->pair_watch.fd = conn->tcp_watch.fd = -1;
	quota->conns++;
	clients->counts.conns++;
	DL_PREPEND(clients->conns, conn);
	HASH_ADD(hh, clients->conns_by_id, id, sizeof(conn->id), conn);
	limits_update(clients, quota);
	return conn;
}

static void new_id(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	HASH_DELETE(hh, clients->conns_by_id, conn);
	conn->id = conn->name.id = clients->next_id++;
	HASH_ADD(hh, clients->conns_by_id, id, sizeof(conn->id), conn);
}

static void on_pair_ready(struct watch *watch, uint32_t events)
{
	struct client_conn *conn = container_of(watch, struct client_conn, pair_watch);
	/* Room is told for every read of the program's: ask no longer than it is needed. */
	if (events & EPOLLOUT && !conn->pump.rx_full && !conn->relay.rx_full)
		poller_modify(conn->clients->poller, watch, POLLER_INPUT);
	if (conn->phase == PHASE_RELAY)
		relay_note_pair(&conn->relay, events);
	else
		pump_note(&conn->pump, events); /* kept until there is an outcome */
	clients_mark(conn);
}

int conn_open_pair(struct client_conn *conn, bool plugged)
{
	struct clients *clients = conn->clients;
	int program = -1, r = -EADDRINUSE;
	for (int i = 0; i < ID_TRIES && r == -EADDRINUSE; i++) {
		if (i > 0) /* somebody squats on the name */
			new_id(conn);
		r = pair_open(&conn->name, plugged ? clients->plug_fd : -1, &conn->pair, &program);
	}
	if (r < 0)
		return r;
	conn->pump.pair = &conn->pair;
	r = poller_add(clients->poller, &conn->pair_watch, conn->pair.fd, POLLER_INPUT,
		       on_pair_ready);
	if (r < 0) {
		close(program);
		pair_reset(&conn->pair); /* an end that is open says that the program has its own */
		return r;
	}
	return program;
}

/* ---- endings ---- */

static void stop_watching(struct client_conn *conn)
{
	poller_remove(conn->clients->poller, &conn->pair_watch);
	poller_remove(conn->clients->poller, &conn->tcp_watch);
}

static void free_stream(struct client_conn *conn)
{
	rdv_connect_wait_cancel(conn->wait);
	conn->wait = NULL;
	clc_stream_free(conn->stream);
	conn->stream = NULL;
}

/* RST, also if other descriptors of the socket are open somewhere. */
static void reset_tcp(struct client_conn *conn)
{
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	free_stream(conn);
	if (conn->tcp < 0)
		return;
	connect(conn->tcp, &unspec, sizeof(unspec));
	if (conn->armed)
		rdv_linger_restore(conn->tcp, &conn->linger);
	close_foreign(conn->tcp, conn->quota);
	conn->tcp = -1;
}

/* FIN behind what was sent, in the background. */
static void close_tcp(struct client_conn *conn)
{
	const struct linger background = { 0 };
	free_stream(conn);
	if (conn->tcp < 0)
		return;
	rdv_linger_restore(conn->tcp, &background);
	shutdown(conn->tcp, SHUT_WR);
	close_foreign(conn->tcp, conn->quota);
	conn->tcp = -1;
}

void conn_let_go_of_tcp(struct client_conn *conn)
{
	free_stream(conn);
	if (conn->armed)
		rdv_linger_restore(conn->tcp, &conn->linger);
	conn->armed = false;
}

static void reply(struct client_conn *conn, enum ipc_outcome outcome, int error, int fd)
{
	struct session *session = conn->session;
	conn->session = NULL;
	session->waiting = NULL;
	session_reply_result(session, outcome, error, conn->reason, fd);
	clients_mark_session_later(session);
}

/* ---- what others may learn ---- */

/* A client's port says nothing about it. */
static struct smcr_addr learnt_peer(const struct client_conn *conn)
{
	struct smcr_addr peer = conn->peer;
	if (conn->kind == IPC_HANDOVER_ACCEPTED)
		peer.port = 0;
	return peer;
}

void conn_note_failure(const struct client_conn *conn, enum clients_failure how)
{
	const struct clients_callbacks *callbacks = &conn->clients->config.callbacks;
	const struct smcr_addr peer = learnt_peer(conn);
	if (callbacks->failed)
		callbacks->failed(callbacks->ctx, &peer, how);
}

static void note_worked(const struct client_conn *conn)
{
	const struct clients_callbacks *callbacks = &conn->clients->config.callbacks;
	const struct smcr_addr peer = learnt_peer(conn);
	if (callbacks->worked)
		callbacks->worked(callbacks->ctx, &peer);
}

/* What smcrd's own end cuts short says nothing. */
static void note_end(const struct client_conn *conn)
{
	const struct clients_callbacks *callbacks = &conn->clients->config.callbacks;
	const struct clients_ended ended = {
		.local = &conn->local,
		.peer = &conn->peer,
		.server = conn->kind == IPC_HANDOVER_ACCEPTED,
		.ms = clients_now_ms() - conn->started_ms,
		.bytes = conn->pump.tx_bytes + conn->pump.rx_bytes,
	};
	bool cut_short = conn->clients->stopped || conn->clients->freeing;
	if (conn->was_smcr && callbacks->ended && !cut_short)
		callbacks->ended(callbacks->ctx, &ended);
}

void conn_end(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	struct clients_view *counts = &clients->counts;
	stop_watching(conn);
	info_ended(conn);
	note_end(conn);
	early_forget(conn);
	free_stream(conn);
	relay_stop(&conn->relay);
	counts->smcr_tx_bytes += conn->pump.tx_bytes;
	counts->smcr_rx_bytes += conn->pump.rx_bytes;
	counts->relay_tx_bytes += conn->relay.tx_bytes;
	counts->relay_rx_bytes += conn->relay.rx_bytes;
	conn->phase = PHASE_DEAD;
	if (conn->dirty)
		DL_DELETE2(clients->dirty, conn, dirty_prev, dirty_next);
	if (conn->more)
		DL_DELETE2(clients->more, conn, more_prev, more_next);
	DL_DELETE(clients->conns, conn);
	HASH_DELETE(hh, clients->conns_by_id, conn);
	counts->conns--;
	DL_APPEND(clients->dead_conns, conn);
}

void conn_free(struct client_conn *conn)
{
	pair_reset(&conn->pair);
	close_foreign(conn->tcp, conn->quota);
	conn->quota->conns--;
	limits_update(conn->clients, conn->quota);
	quota_put(conn->clients, conn->quota);
	free(conn);
}

void conn_fail(struct client_conn *conn, int error, uint32_t reason)
{
	struct clients *clients = conn->clients;
	bool connect_failed = conn->phase == PHASE_CONNECTING;
	conn->error = error > 0 ? error : ECONNRESET;
	conn->reason = reason;
	clients->counts.failed++;
	if (reason != SMCR_REASON_NONE)
		history_count_reason(clients, reason);
	stop_watching(conn);
	if (connect_failed)
		conn_let_go_of_tcp(conn); /* it is the program's to try again, if it asks */
	else
		reset_tcp(conn);
	if (conn->pair.fd >= 0) {
		failed_add(conn, conn->error, reason, conn->tcp);
		conn->tcp = -1;
		pair_reset(&conn->pair);
	}
	if (conn->session)
		reply(conn, IPC_OUTCOME_FAILED, conn->error, -1);
	history_add(conn, CLIENT_MODE_TCP, IPC_CONN_FAILED);
	conn_end(conn);
}

/* The program closed its end before connect() was over: nobody wants the connection any more. */
static void abandon(struct client_conn *conn)
{
	stop_watching(conn);
	reset_tcp(conn);
	pair_reset(&conn->pair);
	history_add(conn, CLIENT_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
}

void conn_drop(struct client_conn *conn)
{
	if (conn->session)
		conn->session->waiting = NULL;
	conn->session = NULL;
	conn->engine = conn->pump.conn = NULL;
	stop_watching(conn);
	reset_tcp(conn);
	pair_reset(&conn->pair);
	conn_end(conn);
}

void conn_session_gone(struct client_conn *conn)
{
	/* The rendezvous goes on: its end is an orderly close then (GEN-10). */
	conn->session = NULL;
}

/* ---- rendezvous ---- */

void conn_update_stream(struct client_conn *conn)
{
	enum clc_stream_mode mode = CLC_STREAM_OFF;
	if (!conn->stream)
		return;
	if (conn->engine)
		mode = smcr_conn_wants_clc(conn->engine) ? CLC_STREAM_CLC : CLC_STREAM_WATCH;
	if (mode != clc_stream_mode(conn->stream) && clc_stream_set_mode(conn->stream, mode) < 0 &&
	    conn->engine)
		smcr_conn_tcp_event(conn->engine, SMCR_TCP_RESET);
}

void conn_release(struct client_conn *conn)
{
	if (conn->kind == IPC_HANDOVER_CONNECTED) {
		int program = conn->session ? conn_open_pair(conn, false) : -ESRCH;
		if (program < 0) /* nobody there; or no descriptor: then it waits for the outcome */
			return;
		reply(conn, IPC_OUTCOME_OPEN, 0, program);
	} else {
		pair_unplug(&conn->pair);
	}
	conn->released = true;
}

static void established(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	conn->phase = PHASE_SMCR;
	conn->was_smcr = true;
	early_forget(conn);
	clients->counts.established++;
	note_worked(conn);
	conn_update_stream(conn);
	if (conn->kind == IPC_HANDOVER_CONNECTED && !conn->released) {
		int program = conn->session ? conn_open_pair(conn, false) : -ESRCH;
		if (program < 0 && conn->session)
			reply(conn, IPC_OUTCOME_FAILED, -program, -1);
		else if (program >= 0)
			reply(conn, IPC_OUTCOME_PAIR, 0, program);
		if (program < 0) { /* nobody there: close() without a word */
			conn->phase = PHASE_CLOSING;
			if (conn->engine)
				smcr_conn_close(conn->engine, false);
			return;
		}
	} else if (conn->kind == IPC_HANDOVER_CONNECTING && !conn->released) {
		pair_unplug(&conn->pair);
	}
	conn->pump.conn = conn->noted & NOTED_RESET ? NULL : conn->engine;
	conn_options_changed(conn);
	pump_note(&conn->pump, 0);
}

/* ---- fallback ---- */

static void on_tcp_ready(struct watch *watch, uint32_t events)
{
	struct client_conn *conn = container_of(watch, struct client_conn, tcp_watch);
	relay_note_tcp(&conn->relay, events);
	clients_mark(conn);
}

/* The program has its pair end: stand between it and TCP from now on. */
static void start_relay(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	int r = 0;
	/* Until the orderly close a dying daemon must reset TCP as it resets the pair. */
	if (!conn->armed)
		r = rdv_linger_arm(conn->tcp, &conn->linger);
	conn->armed = r == 0;
	conn->phase = PHASE_RELAY;
	relay_start(&conn->relay, &conn->pair, conn->tcp);
	conn->relay.closed = conn->pump.closed; /* it may have closed meanwhile */
	conn_options_changed(conn);
	if (r == 0)
		r = poller_add(clients->poller, &conn->tcp_watch, conn->tcp,
			       EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI, on_tcp_ready);
	if (r < 0) {
		conn_fail(conn, -r, SMCR_REASON_INTERNAL);
		return;
	}
	if (conn->kind == IPC_HANDOVER_CONNECTING && !conn->released)
		pair_unplug(&conn->pair);
	clients_mark(conn);
}

static void count_fallback(struct client_conn *conn)
{
	struct clients_view *counts = &conn->clients->counts;
	if (conn->stream || conn->again)
		counts->fallbacks++;
	else
		counts->not_candidates++;
	history_count_reason(conn->clients, conn->reason);
}

void conn_tcp_lost(struct client_conn *conn)
{
	again_or_fail(conn, ECONNRESET, conn->reason);
}

void conn_fall_back(struct client_conn *conn, uint32_t reason)
{
	conn->reason = reason;
	if (conn->stream && clc_stream_broken(conn->stream)) {
		conn_tcp_lost(conn);
		return;
	}
	if (conn->stream && clc_stream_unsent(conn->stream) > 0) {
		conn->phase = PHASE_FALLBACK; /* our Decline must not mix with data */
		return;
	}
	if (conn->pair.fd >= 0 && (conn->require || conn->clients->stopped)) {
		conn_fail(conn, conn->require ? EPROTONOSUPPORT : ECONNRESET, reason);
		return;
	}
	count_fallback(conn);
	free_stream(conn);
	if (conn->pair.fd >= 0) {
		start_relay(conn);
		return;
	}
	if (!conn->session)
		close_tcp(conn); /* the program is gone */
	else
		conn_let_go_of_tcp(conn);
	if (conn->session && conn->require)
		reply(conn, IPC_OUTCOME_FAILED, EPROTONOSUPPORT, -1);
	else if (conn->session)
		reply(conn, IPC_OUTCOME_TCP, 0, -1);
	history_add(conn, CLIENT_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
}

/* ---- what the engine noted, and bytes ---- */

/* A program that was given the end of the stream keeps it. */
static void reset_pair(struct client_conn *conn)
{
	if (conn->pump.rx_ended || conn->relay.rx_ended)
		pair_refuse(&conn->pair);
	else
		pair_reset(&conn->pair);
}

static void reset(struct client_conn *conn)
{
	conn->clients->counts.resets++;
	conn->phase = PHASE_CLOSING;
	conn->pump.conn = NULL;
	stop_watching(conn);
	reset_tcp(conn);
	reset_pair(conn);
}

static void closed(struct client_conn *conn)
{
	stop_watching(conn);
	/* RST and A run in parallel (ABORT-2), but RST must not overtake the data posted before A:
	 * the peer's program would lose an answer that TCP would have brought. Posted requests
	 * leave when the devices have their turn. */
	if (conn->tcp_reset && conn->tcp >= 0 && !conn->reset_waits) {
		conn->reset_waits = true;
		conn->noted |= NOTED_CLOSED;
		clients_mark_later(conn);
		return;
	}
	if (conn->tcp_reset) {
		reset_tcp(conn);
		pair_reset(&conn->pair);
	} else {
		close_tcp(conn);
		pair_finish(&conn->pair);
	}
	history_add(conn, CLIENT_MODE_SMCR, IPC_CONN_CLOSED);
	conn_end(conn);
}

static void ask_for_room(struct client_conn *conn, bool full)
{
	if (full)
		poller_modify(conn->clients->poller, &conn->pair_watch, POLLER_INPUT | EPOLLOUT);
}

static void run_pump(struct client_conn *conn)
{
	bool more = pump_run(&conn->pump);
	if (conn->pump.closing) {
		conn->phase = PHASE_CLOSING;
		poller_forget(conn->clients->poller, &conn->pair_watch);
		stop_watching(conn);
		pair_finish(&conn->pair); /* all that the program gets has been delivered */
		return;
	}
	ask_for_room(conn, conn->pump.rx_full);
	if (more)
		clients_mark_later(conn);
}

static void end_relay(struct client_conn *conn, bool orderly)
{
	stop_watching(conn);
	if (orderly) {
		close_tcp(conn);
		pair_finish(&conn->pair);
	} else {
		conn->error = ECONNRESET;
		conn->clients->counts.resets++;
		reset_tcp(conn);
		reset_pair(conn);
	}
	history_add(conn, CLIENT_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
}

static void run_relay(struct client_conn *conn)
{
	switch (relay_run(&conn->relay)) {
	case RELAY_WAIT: ask_for_room(conn, conn->relay.rx_full); break;
	case RELAY_MORE: clients_mark_later(conn); break;
	case RELAY_FINISHED: end_relay(conn, true); return;
	case RELAY_ABORTED:
	case RELAY_RESET: end_relay(conn, false); return;
	}
	if (conn->relay.closed) {
		conn->relay_deadline_ms =
			clients_now_ms() + conn->clients->config.limits.close_wait_ms;
		clients_need_sweep(conn->clients);
	}
}

void conn_check_deadline(struct client_conn *conn, uint64_t now_ms)
{
	if (conn->phase == PHASE_RELAY && conn->relay_deadline_ms &&
	    conn->relay_deadline_ms <= now_ms)
		end_relay(conn, false);
}

void conn_stop(struct client_conn *conn)
{
	/* Nobody will relay for a program that has its pair end: a peer that was told to go on over
	 * TCP would be reset in the middle, one that is reset now can connect again. */
	if (conn->phase == PHASE_RENDEZVOUS && conn->engine && conn->pair.fd >= 0)
		smcr_conn_tcp_event(conn->engine, SMCR_TCP_RESET);
	else if (conn->phase == PHASE_RENDEZVOUS && conn->engine)
		smcr_conn_give_up(conn->engine, SMCR_REASON_SHUTTING_DOWN);
	else if (conn->phase == PHASE_CONNECTING || conn->phase == PHASE_AGAIN ||
		 conn->phase == PHASE_FALLBACK)
		conn_fail(conn, ECONNRESET, SMCR_REASON_SHUTTING_DOWN);
	else if (conn->phase == PHASE_RELAY)
		end_relay(conn, false);
}

int conn_take_back(struct client_conn *conn)
{
	if (conn->phase != PHASE_RELAY || !relay_untouched(&conn->relay))
		return -EBUSY;
	int tcp = conn->tcp;
	stop_watching(conn);
	conn_let_go_of_tcp(conn);
	conn->tcp = -1;
	conn->relay.pair = NULL; /* nothing to count: it is out of our sight now */
	pair_reset(&conn->pair);
	history_add(conn, CLIENT_MODE_TCP, IPC_CONN_CLOSED);
	conn_end(conn);
	return tcp;
}

int conn_disconnect(struct client_conn *conn)
{
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	int tcp = conn->tcp;
	if (tcp < 0)
		return -ENOTCONN;
	stop_watching(conn);
	conn_let_go_of_tcp(conn);
	sockopt_restore_keepalive(tcp, &conn->keepalive);
	connect(tcp, &unspec, sizeof(unspec)); /* RST */
	conn->tcp = -1;
	pair_reset(&conn->pair);
	if (conn->phase == PHASE_SMCR && conn->engine) {
		conn->phase = PHASE_CLOSING;
		conn->pump.conn = NULL;
		smcr_conn_abort(conn->engine);
	} else if (conn->engine) {
		smcr_conn_tcp_event(conn->engine, SMCR_TCP_RESET);
	} else {
		history_add(conn, CLIENT_MODE_TCP, IPC_CONN_CLOSED);
		conn_end(conn);
	}
	return tcp;
}

void conn_options_changed(struct client_conn *conn)
{
	bool reset_wanted = conn->linger.l_onoff && conn->linger.l_linger == 0;
	conn->pump.linger_reset = conn->relay.linger_reset = reset_wanted;
	if (conn->phase != PHASE_SMCR || !conn->engine || conn->tcp < 0)
		return;
	uint64_t idle = sockopt_keepalive(conn->tcp, &conn->keepalive);
	if (idle)
		sockopt_limit_keepalive(conn->tcp, conn->clients->config.limits.keepalive_min_s,
					&conn->keepalive); /* TEST-7 */
	smcr_conn_keepalive(conn->engine, idle);           /* TEST-3 */
}

void conn_process(struct client_conn *conn)
{
	uint32_t noted = conn->noted;
	if (noted & NOTED_ESTABLISHED)
		established(conn);
	conn->noted &= ~noted;
	if (noted & NOTED_RESET)
		reset(conn);
	if (noted & NOTED_FAILED) {
		again_or_fail(conn, conn->error, conn->reason);
	} else if (noted & NOTED_FALLBACK) {
		if (conn->path_dead)
			conn_note_failure(conn, CLIENTS_PATH_DEAD);
		conn_update_stream(conn);
		conn_fall_back(conn, conn->reason);
	} else if (noted & NOTED_CLOSED) {
		closed(conn);
	} else if (conn->phase == PHASE_SMCR) {
		run_pump(conn);
	} else if (conn->phase == PHASE_RELAY) {
		run_relay(conn);
	} else if (conn->phase == PHASE_RENDEZVOUS) {
		conn_update_stream(conn);
	} else if (conn->phase == PHASE_CONNECTING && conn->pump.closed) {
		abandon(conn);
	}
	info_settled(conn);
}
