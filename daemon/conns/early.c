/* SPDX-License-Identifier: MIT */
/*
 * While a rendezvous goes on, no byte of the program goes over the TCP socket (GEN-6, A55).
 *
 * With TCP, connect() does not wait for the peer's accept(). The server's part of a rendezvous may
 * begin with accept() only. So connect() returns a short time after the TCP handshake, whether or
 * not the rendezvous has ended. What the program writes meanwhile waits in the pair until SMC-R or
 * TCP carries it.
 *
 * A non-blocking connect() returns at once, with a pair end that is plugged. The daemon keeps a
 * descriptor of that end, to enlarge its queue when it is unplugged. While the daemon has one, it
 * does not see that the program closes. So it keeps the descriptor for a short time only, in which
 * most handshakes and rendezvous on a LAN end, also where many begin at once.
 */
#include "daemon/conns/internal.h"

#define KEEP_END_MS 200

static void open_early(struct wait *wait)
{
	conn_open_early(container_of(wait, struct conn, early));
}

static void let_go(struct wait *wait)
{
	pair_let_go(&container_of(wait, struct conn, connecting)->pair);
}

int early_open(struct conns *conns)
{
	int r = waits_open(&conns->early, conns->config.base, conns->batch, open_early);
	return r < 0 ? r : waits_open(&conns->connecting, conns->config.base, conns->batch, let_go);
}

void early_close(struct conns *conns)
{
	waits_close(&conns->early);
	waits_close(&conns->connecting);
}

void early_keep_end(struct conn *conn)
{
	waits_add(&conn->conns->connecting, &conn->connecting, KEEP_END_MS);
}

void early_expect(struct conn *conn)
{
	struct conns *conns = conn->conns;
	if (!conn->early.due_ms)
		waits_add(&conns->early, &conn->early, conns->config.limits.connect_wait_ms);
}

void early_forget(struct conn *conn)
{
	waits_remove(&conn->conns->early, &conn->early);
	waits_remove(&conn->conns->connecting, &conn->connecting);
}
