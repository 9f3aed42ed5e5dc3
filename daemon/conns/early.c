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
 *
 * With TCP, the client's handshake is over before the server's accept() returns. So a client has
 * seen its connect() end before it reads, on another connection, what the server wrote after that
 * accept(). An FTP client has a control connection and connects for data: if the server's answer to
 * the command came first, the client would give up its connect(), or wait for the outcome for ever.
 * Over SMC-R accept() returns before the rendezvous is over. So each connect() whose handshake is
 * over ends before bytes of the same peer are passed to a program.
 */
#include <poll.h>
#include <utlist.h>

#include "daemon/conns/internal.h"

#define KEEP_END_MS 200
#define LOOK_MAX    64 /* handshakes that are looked at before bytes are passed on */

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

/* ---- the order of the outcome and of bytes on other connections */

static bool brings_news(const struct conn *conn)
{
	struct pollfd pfd = { .fd = conn->tcp, .events = POLLIN | POLLPRI | POLLRDHUP };
	struct iovec iov[2];
	if (conn->phase == PHASE_SMCR)
		return conn->pump.conn && conn->pump.rx_ready &&
		       (smcr_conn_rx_data(conn->pump.conn, iov) > 0 ||
			smcr_conn_rx_eof(conn->pump.conn));
	/* relay_start() sets rx_ready before anything has come. */
	return conn->phase == PHASE_RELAY && conn->relay.rx_ready && poll(&pfd, 1, 0) > 0;
}

/* Begin each rendezvous whose TCP handshake has just ended: the event loop may not have come to it
 * yet. Where very many connect at once only the oldest are looked at, because bytes of others wait
 * meanwhile. */
static void look_at_handshakes(struct conn *conn)
{
	struct pollfd fds[LOOK_MAX];
	struct conn *others[LOOK_MAX];
	struct wait *wait;
	nfds_t n = 0;
	DL_FOREACH (conn->conns->connecting.first, wait) {
		struct conn *other = container_of(wait, struct conn, connecting);
		if (!other->wait || !smcr_same_host(&conn->peer, &other->peer))
			continue;
		fds[n] = (struct pollfd){ .fd = other->tcp, .events = POLLOUT };
		others[n] = other;
		if (++n == LOOK_MAX)
			break;
	}
	if (n == 0 || poll(fds, n, 0) <= 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents && others[i]->wait)
			rdv_connect_look(others[i]->wait);
}

void early_before_bytes(struct conn *conn)
{
	struct conns *conns = conn->conns;
	struct wait *wait, *next;
	if ((!conns->early.first && !conns->connecting.first) || !brings_news(conn))
		return;
	look_at_handshakes(conn);
	DL_FOREACH_SAFE (conns->early.first, wait, next) {
		struct conn *other = container_of(wait, struct conn, early);
		if (other->kind != IPC_HANDOVER_CONNECTING ||
		    !smcr_same_host(&conn->peer, &other->peer))
			continue;
		waits_remove(&conns->early, wait);
		conn_open_early(other);
	}
}
