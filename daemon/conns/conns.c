/* SPDX-License-Identifier: MIT */
#include "daemon/conns/conns.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

#define SWEEP_SECONDS 1

/* ---- what others share */

uint64_t conns_now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t conns_now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void conns_log(const struct conns *conns, int priority, const char *format, ...)
{
	char line[512];
	va_list args;
	if (!conns->config.callbacks.log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	conns->config.callbacks.log(conns->config.callbacks.ctx, priority, line);
}

void conns_warn_of_user(struct conns *conns, uid_t uid, const char *reason, const char *format, ...)
{
	char line[400], more[LOG_LIMIT_TEXT];
	uint8_t user[16] = { 0 };
	va_list args;
	memcpy(user, &uid, sizeof(uid));
	if (!log_limit_passes(&conns->user_lines, reason, user, (int64_t)conns_now_ms(), more))
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	conns_log(conns, LOG_WARNING, "%s%s", line, more);
}

struct batch *conns_batch(const struct conns *conns)
{
	return conns->batch;
}

struct poller *conns_poller(const struct conns *conns)
{
	return conns->poller;
}

struct smcr_engine *conns_engine(const struct conns *conns)
{
	return conns->config.engine;
}

/* ---- deadlines */

void conns_need_sweep(struct conns *conns)
{
	const struct timeval period = { .tv_sec = SWEEP_SECONDS };
	if (!evtimer_pending(conns->sweep_timer, NULL))
		evtimer_add(conns->sweep_timer, &period);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct conns *conns = arg;
	struct conn *conn, *next;
	bool again = false;
	(void)fd;
	(void)what;
	batch_begin(conns->batch);
	uint64_t now = conns_now_ms();
	DL_FOREACH_SAFE (conns->conns, conn, next) {
		again |= conn_check_deadline(conn, now);
	}
	failed_expire(conns, now);
	if (again || conns->failed)
		conns_need_sweep(conns);
	batch_end(conns->batch);
}

/* ---- life */

static void fill_limits(struct conns_limits *limits)
{
	static const struct conns_limits defaults = {
		.sessions = 8192,
		.sessions_per_uid = 1024,
		.conns = 131072,
		.conns_per_uid = 16384,
		.close_wait_ms = SMCR_LAST_BYTES_TIMEOUT / 1000,
		.connect_wait_ms = 40,
		.shared = 8192,
		.history = 256,
	};
#define DEFAULT(field)                                                                             \
	if (limits->field == 0)                                                                    \
	limits->field = defaults.field
	DEFAULT(sessions);
	DEFAULT(sessions_per_uid);
	DEFAULT(conns);
	DEFAULT(conns_per_uid);
	DEFAULT(close_wait_ms);
	DEFAULT(connect_wait_ms);
	DEFAULT(shared);
	DEFAULT(history);
#undef DEFAULT
}

static void on_round(void *ctx, bool begin)
{
	struct conns *conns = ctx;
	if (begin)
		batch_begin(conns->batch);
	else
		batch_end(conns->batch);
}

static int open_all(struct conns *conns)
{
	const struct conns_callbacks *callbacks = &conns->config.callbacks;
	const struct batch_callbacks batch_callbacks = { .ctx = callbacks->ctx,
							 .enter = callbacks->engine_enter,
							 .leave = callbacks->engine_leave };
	struct event_base *base = conns->config.base;
	conns->plug_fd = pair_plug_file();
	if (conns->plug_fd < 0)
		return conns->plug_fd;
	int r = batch_new(base, &batch_callbacks, &conns->batch);
	if (r == 0)
		r = poller_new(base, on_round, conns, &conns->poller);
	if (r < 0)
		return r;
	conns->sweep_timer = evtimer_new(base, on_sweep, conns);
	conns->look_timer = evtimer_new(base, lookout_on_timer, conns);
	conns->trim_timer = evtimer_new(base, trim_on_timer, conns);
	if (!conns->sweep_timer || !conns->look_timer || !conns->trim_timer)
		return -ENOMEM;
	r = early_open(conns);
	if (r == 0)
		r = limits_open(conns);
	return r < 0 ? r : history_new(conns);
}

int conns_new(const struct conns_config *config, struct conns **ret_conns)
{
	struct conns *conns = calloc(1, sizeof(*conns));
	if (!conns)
		return -ENOMEM;
	conns->config = *config;
	conns->plug_fd = conns->spare_fd = -1;
	fill_limits(&conns->config.limits);
	int r = open_all(conns);
	if (r < 0) {
		conns_free(conns);
		return r;
	}
	*ret_conns = conns;
	return 0;
}

void conns_configure(struct conns *conns, const struct conns_config *config)
{
	uint32_t history = conns->config.limits.history;
	conns->config.shared_memory = config->shared_memory;
	conns->config.busy_poll_us = config->busy_poll_us;
	conns->config.limits = config->limits;
	fill_limits(&conns->config.limits);
	conns->config.limits.history = history; /* the ring is not resized */
	limits_changed(conns);
}

void conns_stop(struct conns *conns)
{
	struct conn *conn, *next;
	if (conns->stopped)
		return;
	conns->stopped = true;
	batch_begin(conns->batch);
	DL_FOREACH_SAFE (conns->conns, conn, next) {
		conn_stop(conn);
	}
	batch_end(conns->batch);
}

bool conns_stopped(const struct conns *conns)
{
	return conns->stopped;
}

size_t conns_active(const struct conns *conns)
{
	return conns->counts.conns;
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void conns_free(struct conns *conns)
{
	struct conn *conn, *next;
	if (!conns)
		return;
	conns->freeing = true;
	DL_FOREACH_SAFE (conns->conns, conn, next)
		conn_drop(conn);
	if (conns->batch)
		batch_free_buried(conns->batch);
	failed_expire(conns, UINT64_MAX);
	fins_close(conns);
	quota_free_all(conns);
	poller_free(conns->poller);
	batch_free(conns->batch);
	free_event(conns->sweep_timer);
	early_close(conns);
	free_event(conns->look_timer);
	free_event(conns->trim_timer);
	limits_close(conns);
	history_free(conns);
	order_free(&conns->order);
	if (conns->plug_fd >= 0)
		close(conns->plug_fd);
	free(conns);
}

/* ---- counters */

void conns_get_view(const struct conns *conns, struct conns_view *ret_view)
{
	const struct conn *conn;
	*ret_view = conns->counts;
	DL_FOREACH (conns->conns, conn) {
		switch (conn->phase) {
		case PHASE_CONNECTING:
		case PHASE_RENDEZVOUS:
		case PHASE_DECLINING:
		case PHASE_AGAIN: ret_view->conns_pending++; break;
		case PHASE_SMCR:
		case PHASE_CLOSING: ret_view->conns_smcr++; break;
		case PHASE_RELAY: ret_view->conns_relay++; break;
		case PHASE_DEAD: break;
		}
		ret_view->smcr_tx_bytes += conn->pump.tx_bytes;
		ret_view->smcr_rx_bytes += conn->pump.rx_bytes;
		ret_view->shared_tx_bytes += conn->shared.tx_bytes;
		ret_view->shared_rx_bytes += conn->shared.rx_bytes;
		ret_view->relay_tx_bytes += conn->relay.tx_bytes;
		ret_view->relay_rx_bytes += conn->relay.rx_bytes;
	}
}
