/* SPDX-License-Identifier: MIT */
/*
 * connect() does not wait for the peer's accept(): with TCP it does not, and the server's side of a
 * rendezvous may begin only then. So a program is told that it is connected a short time after the
 * TCP handshake, whatever the rendezvous has come to. What it writes waits in the pair until SMC-R
 * or TCP carries it.
 *
 * All connections wait equally long, so the list is in the order of their times.
 */
#include "daemon/clients/internal.h"

static void arm(struct clients *clients, uint64_t now_ms)
{
	uint64_t at = clients->early->early_at_ms;
	uint64_t left = at > now_ms ? at - now_ms : 0;
	const struct timeval wait = { .tv_sec = (time_t)(left / 1000),
				      .tv_usec = (suseconds_t)(left % 1000 * 1000) };
	evtimer_add(clients->early_timer, &wait);
}

void early_expect(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	uint64_t now = clients_now_ms();
	if (conn->early)
		return;
	conn->early = true;
	conn->early_at_ms = now + clients->config.limits.connect_wait_ms;
	DL_APPEND2(clients->early, conn, early_prev, early_next);
	if (clients->early == conn)
		arm(clients, now);
}

void early_forget(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	if (!conn->early)
		return;
	conn->early = false;
	DL_DELETE2(clients->early, conn, early_prev, early_next);
	if (!clients->early)
		evtimer_del(clients->early_timer);
}

void early_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct clients *clients = arg;
	uint64_t now = clients_now_ms();
	(void)fd;
	(void)what;
	clients_begin(clients);
	while (clients->early && clients->early->early_at_ms <= now) {
		struct client_conn *conn = clients->early;
		early_forget(conn);
		conn_release(conn);
	}
	if (clients->early)
		arm(clients, now);
	clients_end(clients);
}
