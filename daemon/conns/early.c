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
 * over ends before bytes of the same peer are passed to a program. Those of other peers may be very
 * many, so connects are found by the address of their peer.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/conns/internal.h"

#define KEEP_END_MS 200
#define LOOK_MAX    64 /* handshakes that are looked at before bytes are passed on */

/* It has no padding, so it can be compared and hashed as a whole. */
struct host_key {
	uint8_t family;
	uint8_t ip[16]; /* IPv4: zeros behind the address */
};

/* One address to which connects go that do not block, and that have not ended yet. */
struct early_host {
	struct host_key key;
	struct conn *handshakes; /* of TCP, oldest first; those that take long are not here */
	struct conn *rendezvous;
	UT_hash_handle hh;
};

/* ---- connects by the address of their peer */

static struct host_key key_of(const struct smcr_addr *addr)
{
	struct host_key key = { .family = addr->family };
	memcpy(key.ip, addr->ip, addr->family == AF_INET ? 4 : sizeof(key.ip));
	return key;
}

static struct early_host *find_host(const struct conns *conns, const struct smcr_addr *addr)
{
	const struct host_key key = key_of(addr);
	struct early_host *host;
	HASH_FIND(hh, conns->early_hosts, &key, sizeof(key), host);
	return host;
}

static struct early_host *get_host(struct conns *conns, const struct smcr_addr *addr)
{
	struct early_host *host = find_host(conns, addr);
	if (host)
		return host;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->key = key_of(addr);
	HASH_ADD(hh, conns->early_hosts, key, sizeof(host->key), host);
	return host;
}

static struct conn **list_of(const struct conn *conn)
{
	return conn->host_rendezvous ? &conn->host->rendezvous : &conn->host->handshakes;
}

static void leave_host(struct conn *conn)
{
	struct early_host *host = conn->host;
	if (!host)
		return;
	DL_DELETE2(*list_of(conn), conn, host_prev, host_next);
	conn->host = NULL;
	if (host->handshakes || host->rendezvous)
		return;
	HASH_DELETE(hh, conn->conns->early_hosts, host);
	free(host);
}

/* Without memory for the host, bytes of the peer may come first. */
static void join_host(struct conn *conn, bool rendezvous)
{
	leave_host(conn);
	if (conn->kind != IPC_HANDOVER_CONNECTING)
		return;
	conn->host = get_host(conn->conns, &conn->peer);
	conn->host_rendezvous = rendezvous;
	if (conn->host)
		DL_APPEND2(*list_of(conn), conn, host_prev, host_next);
}

/* ---- time is over */

static void end_connect(struct conn *conn)
{
	leave_host(conn);
	conn_open_early(conn);
}

static void open_early(struct wait *wait)
{
	end_connect(container_of(wait, struct conn, early));
}

static void let_go(struct wait *wait)
{
	struct conn *conn = container_of(wait, struct conn, connecting);
	if (!conn->host_rendezvous)
		leave_host(conn);
	pair_let_go(&conn->pair);
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
	join_host(conn, false);
}

void early_expect(struct conn *conn)
{
	struct conns *conns = conn->conns;
	if (!conn->early.due_ms)
		waits_add(&conns->early, &conn->early, conns->config.limits.connect_wait_ms);
	join_host(conn, true);
}

void early_forget(struct conn *conn)
{
	leave_host(conn);
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
static void look_at_handshakes(const struct early_host *host)
{
	struct pollfd fds[LOOK_MAX];
	struct conn *others[LOOK_MAX];
	struct conn *other;
	nfds_t n = 0;
	DL_FOREACH2 (host->handshakes, other, host_next) {
		fds[n] = (struct pollfd){ .fd = other->tcp, .events = POLLOUT };
		others[n] = other;
		if (++n == LOOK_MAX)
			break;
	}
	if (n == 0 || poll(fds, n, 0) <= 0)
		return;
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents && others[i]->wait)
			rdv_connect_look(others[i]->wait); /* may free `host` */
}

void early_before_bytes(struct conn *conn)
{
	struct conns *conns = conn->conns;
	const struct early_host *host = find_host(conns, &conn->peer);
	if (!host || !brings_news(conn))
		return;
	look_at_handshakes(host);
	while ((host = find_host(conns, &conn->peer)) && host->rendezvous) {
		struct conn *other = host->rendezvous;
		waits_remove(&conns->early, &other->early);
		end_connect(other);
	}
}
