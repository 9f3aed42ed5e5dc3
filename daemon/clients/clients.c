/* SPDX-License-Identifier: MIT */
#include "daemon/clients/clients.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define SWEEP_SECONDS 1
#define BATCH_MAX     4096 /* connections acted upon before the event loop has its turn again */

uint64_t clients_now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void clients_log(const struct clients *clients, int priority, const char *format, ...)
{
	char line[512];
	va_list args;
	if (!clients->config.callbacks.log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	clients->config.callbacks.log(clients->config.callbacks.ctx, priority, line);
}

/* ---- batches of work ---- */

void clients_begin(struct clients *clients)
{
	if (clients->depth++ == 0)
		clients->config.callbacks.engine_enter(clients->config.callbacks.ctx);
}

static void run_marked(struct clients *clients)
{
	unsigned int left = BATCH_MAX;
	while (clients->dirty && left-- > 0) {
		struct client_conn *conn = clients->dirty;
		DL_DELETE2(clients->dirty, conn, dirty_prev, dirty_next);
		conn->dirty = false;
		conn_process(conn);
	}
	if (clients->dirty)
		event_active(clients->work_event, EV_TIMEOUT, 0);
}

static void free_dead(struct clients *clients)
{
	struct session *session, *next_session;
	struct client_conn *conn, *next_conn;
	DL_FOREACH_SAFE (clients->dead_sessions, session, next_session)
		session_free(session);
	clients->dead_sessions = NULL;
	DL_FOREACH_SAFE (clients->dead_conns, conn, next_conn)
		conn_free(conn);
	clients->dead_conns = NULL;
}

void clients_end(struct clients *clients)
{
	if (clients->depth == 1) {
		run_marked(clients);
		clients->config.callbacks.engine_leave(clients->config.callbacks.ctx);
		free_dead(clients);
	}
	clients->depth--;
}

void clients_mark(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	if (conn->dirty || conn->phase == PHASE_DEAD)
		return;
	conn->dirty = true;
	DL_APPEND2(clients->dirty, conn, dirty_prev, dirty_next);
	if (clients->depth == 0)
		event_active(clients->work_event, EV_TIMEOUT, 0);
}

static void start_more_timer(struct clients *clients)
{
	const struct timeval now = { 0 };
	if (!evtimer_pending(clients->more_timer, NULL))
		evtimer_add(clients->more_timer, &now);
}

void clients_mark_later(struct client_conn *conn)
{
	if (conn->more || conn->phase == PHASE_DEAD)
		return;
	conn->more = true;
	DL_APPEND2(conn->clients->more, conn, more_prev, more_next);
	start_more_timer(conn->clients);
}

void clients_mark_session_later(struct session *session)
{
	if (session->more || session->dead)
		return;
	session->more = true;
	DL_APPEND2(session->clients->more_sessions, session, more_prev, more_next);
	start_more_timer(session->clients);
}

static void on_work(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	clients_begin(arg);
	clients_end(arg);
}

static void on_more(evutil_socket_t fd, short what, void *arg)
{
	struct clients *clients = arg;
	struct client_conn *conn;
	struct session *session;
	unsigned int conns, sessions;
	(void)fd;
	(void)what;
	clients_begin(clients);
	/* Those that come again in the meantime wait for the next time. */
	DL_COUNT2(clients->more, conn, conns, more_next);
	DL_COUNT2(clients->more_sessions, session, sessions, more_next);
	while (clients->more && conns-- > 0) {
		conn = clients->more;
		DL_DELETE2(clients->more, conn, more_prev, more_next);
		conn->more = false;
		clients_mark(conn);
	}
	while (clients->more_sessions && sessions-- > 0) {
		session = clients->more_sessions;
		DL_DELETE2(clients->more_sessions, session, more_prev, more_next);
		session->more = false;
		session_resume(session);
	}
	clients_end(clients);
}

static void on_batch(void *ctx, bool begin)
{
	if (begin)
		clients_begin(ctx);
	else
		clients_end(ctx);
}

/* ---- deadlines ---- */

void clients_need_sweep(struct clients *clients)
{
	const struct timeval period = { .tv_sec = SWEEP_SECONDS };
	if (!evtimer_pending(clients->sweep_timer, NULL))
		evtimer_add(clients->sweep_timer, &period);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct clients *clients = arg;
	struct session *session, *next_session;
	struct client_conn *conn, *next_conn;
	bool again = false;
	(void)fd;
	(void)what;
	clients_begin(clients);
	uint64_t now = clients_now_ms();
	DL_FOREACH_SAFE (clients->sessions, session, next_session) {
		again |= session->deadline_ms != 0;
		if (session->deadline_ms && session->deadline_ms <= now)
			session_close(session);
	}
	DL_FOREACH_SAFE (clients->conns, conn, next_conn) {
		again |= conn->relay_deadline_ms != 0;
		conn_check_deadline(conn, now);
	}
	failed_expire(clients, now);
	if (again || clients->failed)
		clients_need_sweep(clients);
	clients_end(clients);
}

/* ---- life ---- */

static void fill_limits(struct clients_limits *limits)
{
	static const struct clients_limits defaults = {
		.sessions = 8192,
		.sessions_per_uid = 1024,
		.conns = 131072,
		.conns_per_uid = 16384,
		.control_request_bytes = 256u << 10,
		.frame_timeout_ms = 10000,
		.close_wait_ms = 60000,
		.connect_wait_ms = 40,
		.history = 256,
	};
#define DEFAULT(field)                                                                             \
	if (limits->field == 0)                                                                    \
	limits->field = defaults.field
	DEFAULT(sessions);
	DEFAULT(sessions_per_uid);
	DEFAULT(conns);
	DEFAULT(conns_per_uid);
	DEFAULT(control_request_bytes);
	DEFAULT(frame_timeout_ms);
	DEFAULT(close_wait_ms);
	DEFAULT(connect_wait_ms);
	DEFAULT(history);
#undef DEFAULT
	if (limits->control_request_bytes > IPC_MAX_CONTROL_LEN)
		limits->control_request_bytes = IPC_MAX_CONTROL_LEN;
}

static int open_all(struct clients *clients, char *ret_text, size_t len)
{
	struct event_base *base = clients->config.base;
	snprintf(ret_text, len, "cannot start the clients' service: out of memory or descriptors");
	if (getrandom(&clients->next_id, sizeof(clients->next_id), 0) !=
	    (ssize_t)sizeof(clients->next_id))
		return -EIO;
	clients->plug_fd = pair_plug_file();
	if (clients->plug_fd < 0)
		return clients->plug_fd;
	int r = poller_new(base, on_batch, clients, &clients->poller);
	if (r < 0)
		return r;
	clients->work_event = event_new(base, -1, 0, on_work, clients);
	clients->more_timer = evtimer_new(base, on_more, clients);
	clients->sweep_timer = evtimer_new(base, on_sweep, clients);
	clients->early_timer = evtimer_new(base, early_on_timer, clients);
	if (!clients->work_event || !clients->more_timer || !clients->sweep_timer ||
	    !clients->early_timer)
		return -ENOMEM;
	r = limits_open(clients);
	if (r < 0)
		return r;
	r = history_new(clients);
	return r < 0 ? r : service_open(clients, ret_text, len);
}

int clients_new(const struct clients_config *config, struct clients **ret_clients, char *ret_text,
		size_t len)
{
	struct clients *clients = calloc(1, sizeof(*clients));
	if (!clients)
		return -ENOMEM;
	clients->config = *config;
	clients->plug_fd = clients->spare_fd = -1;
	clients->listen_fd = clients->abstract_fd = -1;
	fill_limits(&clients->config.limits);
	int r = open_all(clients, ret_text, len);
	if (r < 0) {
		clients_free(clients);
		return r;
	}
	*ret_clients = clients;
	return 0;
}

void clients_stop(struct clients *clients)
{
	struct client_conn *conn, *next;
	if (clients->stopped)
		return;
	clients->stopped = true;
	service_close(clients);
	clients_begin(clients);
	DL_FOREACH_SAFE (clients->conns, conn, next) {
		conn_stop(conn);
	}
	clients_end(clients);
}

size_t clients_active(const struct clients *clients)
{
	return clients->counts.conns;
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void clients_free(struct clients *clients)
{
	struct client_conn *conn, *next_conn;
	struct session *session, *next_session;
	if (!clients)
		return;
	clients->freeing = true;
	service_close(clients);
	DL_FOREACH_SAFE (clients->conns, conn, next_conn)
		conn_drop(conn);
	DL_FOREACH_SAFE (clients->sessions, session, next_session)
		session_close(session);
	free_dead(clients);
	failed_expire(clients, UINT64_MAX);
	quota_free_all(clients);
	poller_free(clients->poller);
	free_event(clients->work_event);
	free_event(clients->more_timer);
	free_event(clients->sweep_timer);
	free_event(clients->early_timer);
	limits_close(clients);
	history_free(clients);
	if (clients->plug_fd >= 0)
		close(clients->plug_fd);
	free(clients);
}

/* ---- counters ---- */

void clients_get_view(const struct clients *clients, struct clients_view *ret_view)
{
	const struct client_conn *conn;
	*ret_view = clients->counts;
	DL_FOREACH (clients->conns, conn) {
		switch (conn->phase) {
		case PHASE_CONNECTING:
		case PHASE_RENDEZVOUS:
		case PHASE_FALLBACK:
		case PHASE_AGAIN: ret_view->conns_pending++; break;
		case PHASE_SMCR:
		case PHASE_CLOSING: ret_view->conns_smcr++; break;
		case PHASE_RELAY: ret_view->conns_relay++; break;
		case PHASE_DEAD: break;
		}
		ret_view->smcr_tx_bytes += conn->pump.tx_bytes;
		ret_view->smcr_rx_bytes += conn->pump.rx_bytes;
		ret_view->relay_tx_bytes += conn->relay.tx_bytes;
		ret_view->relay_rx_bytes += conn->relay.rx_bytes;
	}
}
