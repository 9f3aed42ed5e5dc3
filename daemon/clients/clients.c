/* SPDX-License-Identifier: MIT */
#include "daemon/clients/clients.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/clients/internal.h"

#define SWEEP_SECONDS 1

/* ---- deadlines ---- */

/* The timer runs as long as there are sessions. */
void clients_need_sweep(struct clients *clients)
{
	const struct timeval period = { .tv_sec = SWEEP_SECONDS };
	if (!evtimer_pending(clients->sweep_timer, NULL))
		evtimer_add(clients->sweep_timer, &period);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct clients *clients = arg;
	struct session *session, *next;
	bool again = false;
	(void)fd;
	(void)what;
	batch_begin(clients->batch);
	uint64_t now = conns_now_ms();
	DL_FOREACH_SAFE (clients->sessions, session, next) {
		again = true;
		if (session->deadline_ms && session->deadline_ms <= now)
			session_close(session);
		else
			session_check_idle(session, now);
	}
	again |= session_free_read(clients);
	if (again)
		clients_need_sweep(clients);
	batch_end(clients->batch);
}

/* ---- life ---- */

static void fill_limits(struct clients_limits *limits)
{
	if (limits->control_request_bytes == 0)
		limits->control_request_bytes = 16u << 10;
	if (limits->control_request_bytes > IPC_MAX_CONTROL_LEN)
		limits->control_request_bytes = IPC_MAX_CONTROL_LEN;
	if (limits->frame_timeout_ms == 0)
		limits->frame_timeout_ms = 10000;
	if (limits->idle_timeout_ms == 0)
		limits->idle_timeout_ms = 60000;
}

int clients_new(const struct clients_config *config, struct clients **ret_clients, char *ret_text,
		size_t len)
{
	struct clients *clients = calloc(1, sizeof(*clients));
	snprintf(ret_text, len, "cannot start the clients' service: out of memory or descriptors");
	if (!clients)
		return -ENOMEM;
	clients->config = *config;
	clients->conns = config->conns;
	clients->batch = conns_batch(config->conns);
	clients->poller = conns_poller(config->conns);
	clients->listen.fd = -1;
	for (int i = 0; i < NUM_ABSTRACT; i++)
		clients->abstract[i].fd = -1;
	fill_limits(&clients->config.limits);
	clients->sweep_timer = evtimer_new(config->base, on_sweep, clients);
	int r = clients->sweep_timer ? pace_init(clients) : -ENOMEM;
	if (r == 0)
		r = service_open(clients, ret_text, len);
	if (r < 0) {
		clients_free(clients);
		return r;
	}
	*ret_clients = clients;
	return 0;
}

void clients_stop(struct clients *clients)
{
	service_close(clients);
}

void clients_free(struct clients *clients)
{
	struct session *session, *next;
	if (!clients)
		return;
	service_close(clients);
	clients->freeing = true;
	DL_FOREACH_SAFE (clients->sessions, session, next)
		session_close(session);
	batch_free_buried(clients->batch);
	session_free_read(clients);
	if (clients->sweep_timer)
		event_free(clients->sweep_timer);
	pace_free(clients);
	program_names_close(&clients->names);
	free(clients);
}
