/* SPDX-License-Identifier: MIT */
/*
 * While a rendezvous goes on, no byte of the program goes over the TCP socket (GEN-6, A55).
 *
 * With TCP, connect() does not wait for the peer's accept(). The server's part of a rendezvous may
 * begin with accept() only. So connect() returns a short time after the TCP handshake, whether or
 * not the rendezvous has ended. What the program writes meanwhile waits in the pair until SMC-R or
 * TCP carries it.
 *
 * All connections wait equally long, so the list is in the order of its deadlines.
 */
#include "daemon/conns/internal.h"

static void arm(struct conns *conns, uint64_t now_ms)
{
	uint64_t at = conns->early->early_at_ms;
	uint64_t left = at > now_ms ? at - now_ms : 0;
	const struct timeval wait = { .tv_sec = (time_t)(left / 1000),
				      .tv_usec = (suseconds_t)(left % 1000 * 1000) };
	evtimer_add(conns->early_timer, &wait);
}

void early_expect(struct client_conn *conn)
{
	struct conns *conns = conn->conns;
	uint64_t now = conns_now_ms();
	if (conn->early)
		return;
	conn->early = true;
	conn->early_at_ms = now + conns->config.limits.connect_wait_ms;
	DL_APPEND2(conns->early, conn, early_prev, early_next);
	if (conns->early == conn)
		arm(conns, now);
}

void early_forget(struct client_conn *conn)
{
	struct conns *conns = conn->conns;
	if (!conn->early)
		return;
	conn->early = false;
	DL_DELETE2(conns->early, conn, early_prev, early_next);
	if (!conns->early)
		evtimer_del(conns->early_timer);
}

void early_on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct conns *conns = arg;
	uint64_t now = conns_now_ms();
	(void)fd;
	(void)what;
	batch_begin(conns->batch);
	while (conns->early && conns->early->early_at_ms <= now) {
		struct client_conn *conn = conns->early;
		early_forget(conn);
		conn_release(conn);
	}
	if (conns->early)
		arm(conns, now);
	batch_end(conns->batch);
}
