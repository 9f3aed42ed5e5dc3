/* SPDX-License-Identifier: MIT */
/* How a connection of the gateway begins and ends, and what its two sides tell each other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/smbgate/internal.h"

#define CONNECT_MS    5000 /* until the SMB server has taken a TCP connection */
#define RETRY_MS      10000
#define OPEN_SECONDS  30 /* until both sides are there, and SMB Direct is established */
#define DRAIN_SECONDS 5
#define LOST_MS       100

/* ---- the end */

void gate_conn_end(struct gate_conn *conn, bool reset, const char *why)
{
	if (conn->state == SMBGATE_ENDED)
		return;
	conn->state = SMBGATE_ENDED;
	conn->reset = reset;
	conn->ended_at = gate_now();
	snprintf(conn->why, sizeof(conn->why), "%s", why);
	if (!conn->lost) /* else a moment later */
		event_active(conn->reap, EV_TIMEOUT, 0);
}

void gate_conn_free(struct gate_conn *conn)
{
	struct smbgate *gate = conn->gate;
	DL_DELETE(gate->conns, conn);
	gate->num_conns--;
	gate_conn_remember(conn);
	tcp_side_free(conn->tcp, conn->reset);
	block_put(conn->block);
	free(conn->plain);
	gate_conn_serve_free(conn);
	gate_conn_offer_free(conn);
	if (conn->cm)
		cm_conn_free(conn->cm);
	rdma_free(conn->rdma);
	event_free(conn->reap);
	event_free(conn->patience);
	free(conn);
}

static void on_reap(evutil_socket_t fd, short what, void *arg)
{
	struct gate_conn *conn = arg;
	(void)fd;
	(void)what;
	gate_tell_end(conn);
	gate_conn_free(conn);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct gate_conn *conn = arg;
	(void)fd;
	(void)what;
	gate_conn_end(conn, true,
		      conn->state == SMBGATE_DRAINING
			      ? "the peer did not take the last messages in time"
			      : "it was not established in time");
}

/* The TCP side has ended in order: what it has sent still goes to the peer. */
static void drain(struct gate_conn *conn)
{
	const struct timeval most = { .tv_sec = DRAIN_SECONDS };
	if (conn->state != SMBGATE_OPEN || rdma_is_idle(conn->rdma)) {
		gate_conn_end(conn, false, "the TCP side has closed");
		return;
	}
	conn->state = SMBGATE_DRAINING;
	evtimer_add(conn->patience, &most);
}

/* ---- messages */

static bool is_open(const struct gate_conn *conn)
{
	return conn->state == SMBGATE_OPEN;
}

void gate_conn_send(struct gate_conn *conn, uint8_t *data, size_t len, const uint32_t *token)
{
	int error = is_open(conn) ? rdma_send(conn->rdma, data, len, token) : -ENOTCONN;
	if (!error)
		return;
	free(data);
	gate_conn_end(conn, true,
		      error == -EMSGSIZE ? "a message is longer than the peer takes"
					 : "a message cannot be sent");
}

/* No byte may be missing in a stream: if one cannot be queued, the connection ends. */
static void check_queued(struct gate_conn *conn, int error)
{
	if (error)
		gate_conn_end(conn, true, "there is no memory for a message");
}

void gate_conn_write(struct gate_conn *conn, const uint8_t *data, size_t len)
{
	int error = tcp_side_begin(conn->tcp, len);
	check_queued(conn, error ? error : tcp_side_add(conn->tcp, data, len));
}

static void put_block(void *arg)
{
	struct block *block = arg;
	block_put(block);
}

void gate_conn_write_block(struct gate_conn *conn, const uint8_t *head, size_t head_len,
			   struct block *block, size_t at, size_t len)
{
	int error = tcp_side_begin(conn->tcp, head_len + len);
	if (!error && head_len > 0)
		error = tcp_side_add(conn->tcp, head, head_len);
	if (error)
		block_put(block);
	else
		error = tcp_side_add_memory(conn->tcp, block->bytes + at, len, put_block, block);
	check_queued(conn, error);
}

struct block *gate_conn_block(struct gate_conn *conn, enum block_use use, size_t len)
{
	char why[SMBGATE_TEXT_LEN];
	int error;
	struct block *block = rdma_block(conn->rdma, use, len, &error);
	if (block || error == -EAGAIN)
		return block;
	snprintf(why, sizeof(why), "there is no memory for %zu bytes of a message: %s", len,
		 strerror(-error));
	gate_conn_end(conn, true, why);
	return NULL;
}

void gate_conn_balance(struct gate_conn *conn, bool hungry)
{
	const bool hold = hungry || tcp_side_queued(conn->tcp) > CONN_QUEUE_MOST;
	if (hold == conn->held || !is_open(conn))
		return;
	conn->held = hold;
	rdma_hold(conn->rdma, hold);
}

bool gate_conn_takes_more(const struct gate_conn *conn)
{
	struct smbd_view view;
	rdma_get_view(conn->rdma, &view);
	return is_open(conn) && view.queued_bytes < CONN_QUEUE_MOST && !conn->stalled;
}

/* There may be room for what waits. */
static void go_on(struct gate_conn *conn)
{
	if (conn->serves)
		gate_conn_serve_go_on(conn);
	else
		gate_conn_offer_go_on(conn);
	if (conn->state == SMBGATE_DRAINING && rdma_is_idle(conn->rdma))
		gate_conn_end(conn, false, "the TCP side has closed");
	if (gate_conn_takes_more(conn))
		tcp_side_resume(conn->tcp);
}

/* ---- the TCP side */

static uint8_t *on_tcp_room(void *ctx, size_t len)
{
	struct gate_conn *conn = ctx;
	if (!gate_conn_takes_more(conn))
		return NULL;
	return conn->serves ? gate_conn_serve_room(conn, len) : gate_conn_offer_room(conn, len);
}

static void on_tcp_message(void *ctx, size_t len)
{
	struct gate_conn *conn = ctx;
	if (conn->serves)
		gate_conn_serve_from_tcp(conn, len);
	else
		gate_conn_offer_from_tcp(conn, len);
	if (!gate_conn_takes_more(conn) && conn->state != SMBGATE_ENDED)
		tcp_side_pause(conn->tcp);
}

static void on_tcp_drained(void *ctx)
{
	go_on(ctx);
}

static void on_tcp_ended(void *ctx, enum tcp_end end, int error)
{
	struct gate_conn *conn = ctx;
	char why[SMBGATE_TEXT_LEN];
	switch (end) {
	case TCP_END_CLOSED: drain(conn); return;
	case TCP_END_RESET: snprintf(why, sizeof(why), "the TCP side has reset"); break;
	case TCP_END_REFUSED:
		snprintf(why, sizeof(why), "cannot connect to the SMB server at %s: %s", conn->user,
			 strerror(error));
		break;
	case TCP_END_BAD_DATA:
		snprintf(why, sizeof(why), "the TCP side does not speak SMB over TCP");
		break;
	case TCP_END_MEMORY: snprintf(why, sizeof(why), "there is no memory"); break;
	}
	gate_conn_end(conn, true, why);
}

/* ---- the RDMA side */

static void on_rdma_established(void *ctx)
{
	struct gate_conn *conn = ctx;
	if (!(conn->serves ? gate_conn_serve_begin(conn) : gate_conn_offer_begin(conn))) {
		gate_conn_end(conn, true, "there is no memory");
		return;
	}
	conn->state = SMBGATE_OPEN;
	evtimer_del(conn->patience);
	conn->was_up = true;
	gate_tell_up(conn);
	tcp_side_resume(conn->tcp);
}

static void on_rdma_message(void *ctx, const uint8_t *data, size_t len, const uint32_t *token)
{
	struct gate_conn *conn = ctx;
	(void)token; /* the response tells which request it is for, and that ends its token */
	if (conn->state != SMBGATE_OPEN)
		return;
	if (conn->serves)
		gate_conn_serve_from_rdma(conn, data, len);
	else
		gate_conn_offer_from_rdma(conn, data, len);
}

static void on_rdma_transferred(void *ctx, void *tag)
{
	struct gate_conn *conn = ctx;
	if (tag)
		gate_conn_serve_fetched(conn, tag);
}

static void on_rdma_room(void *ctx)
{
	go_on(ctx);
}

/* A queue pair that fails tells no reason. Often the peer has disconnected, and the connection
 * manager tells that a moment later. Negotiation that has failed ends here too: the program hears
 * it by the end of its connection (SMBD-31). */
static void on_rdma_ended(void *ctx, enum smbd_end end)
{
	const struct timeval moment = { .tv_usec = LOST_MS * 1000 };
	struct gate_conn *conn = ctx;
	if (conn->state == SMBGATE_ENDED)
		return;
	conn->lost = end == SMBD_END_LOST && conn->cm;
	gate_conn_end(conn, true, smbd_end_text(end));
	if (conn->lost)
		evtimer_add(conn->reap, &moment);
}

/* The connection manager tells of the end, from the event loop. It tells no more then, also not
 * that the RNIC goes: so the queue pair goes now. */
static void cm_ended(struct gate_conn *conn, const struct cm_event *event)
{
	const bool reset = event->end != CM_END_PEER_DISCONNECTED;
	if (conn->lost) {
		conn->reset = reset;
		snprintf(conn->why, sizeof(conn->why), "%s", event->text);
	}
	gate_conn_end(conn, reset, event->text);
	gate_tell_end(conn);
	gate_conn_free(conn);
}

static const struct tcp_ops tcp_ops_serve, tcp_ops_offer;
static void on_rdma_seen(void *ctx, bool sent, bool negotiates, const uint8_t *bytes, size_t len)
{
	const struct gate_conn *conn = ctx;
	const struct smbgate_params *params = &conn->gate->params;
	/* The client speaks, so it is connected: the connection manager's last message may be lost.
	 */
	if (!sent && conn->serves && conn->state == SMBGATE_CONNECTING)
		cm_conn_heard(conn->cm);
	const struct smbgate_message message = {
		.sent = sent,
		.negotiates = negotiates,
		.serves = conn->serves,
		.number = conn->number,
		.peer = conn->peer,
		.rnic = conn->rnic,
		.bytes = bytes,
		.len = len,
	};
	if (params->tap)
		params->tap(params->ctx, &message);
}

static const struct rdma_ops rdma_ops = {
	.seen = on_rdma_seen,
	.established = on_rdma_established,
	.message = on_rdma_message,
	.transferred = on_rdma_transferred,
	.room = on_rdma_room,
	.ended = on_rdma_ended,
};

/* ---- the beginning */

static struct gate_conn *gate_conn_new(struct smbgate *gate, bool serves)
{
	const struct timeval most = { .tv_sec = OPEN_SECONDS };
	struct gate_conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return NULL;
	conn->gate = gate;
	conn->serves = serves;
	conn->reset = true;
	conn->began_at = gate_now();
	conn->reap = evtimer_new(gate->params.base, on_reap, conn);
	conn->patience = evtimer_new(gate->params.base, on_patience, conn);
	if (!conn->reap || !conn->patience) {
		if (conn->reap)
			event_free(conn->reap);
		free(conn);
		return NULL;
	}
	evtimer_add(conn->patience, &most);
	conn->number = ++gate->last_number;
	DL_PREPEND(gate->conns, conn);
	gate->num_conns++;
	return conn;
}

static void note_rnic(struct gate_conn *conn, struct rnic *rnic)
{
	struct rnic_info info;
	rnic_get_info(rnic, &info);
	memcpy(conn->rnic, info.name, sizeof(conn->rnic));
}

static int make_rdma(struct gate_conn *conn, struct rnic *rnic, char *ret_error)
{
	const struct rdma_params params = {
		.base = conn->gate->params.base,
		.rnic = rnic,
		.role = conn->serves ? SMBD_PASSIVE : SMBD_ACTIVE,
		.config = conn->gate->config.smbd,
		.budget = &conn->gate->budget,
		.most_memory = conn->gate->config.memory_per_conn,
		.ops = &rdma_ops,
		.ctx = conn,
	};
	note_rnic(conn, rnic);
	return rdma_new(&params, &conn->rdma, ret_error);
}

/* RDMA READs are what the server side asks for, and the client side answers; the connection manager
 * agrees on their number and sets the queue pair (SMBD-164, SMBD-167). RNR NAKs do not end
 * the connection: a receive may be posted a little late. */
static struct cm_offer make_offer(const struct gate_conn *conn, struct rnic *rnic)
{
	struct rnic_info info;
	rnic_get_info(rnic, &info);
	return (struct cm_offer){
		.reads_asked = conn->serves ? info.max_reads_asked : 0,
		.reads_answered = conn->serves ? 0 : info.max_reads_answered,
		.rnr_retry = 7,
	};
}

/* The RNIC goes: its queue pairs have to go before this returns. */
static void lose_rnic(struct gate_conn *conn, const char *text)
{
	gate_conn_end(conn, true, text);
	gate_tell_end(conn);
	gate_conn_free(conn);
}

/* ---- the server side: first TCP, then RDMA, so that a server that is not there refuses (SMBD-32)
 */

static void on_serve_cm(void *ctx, struct cm_conn *cm, const struct cm_event *event)
{
	struct gate_conn *conn = ctx;
	(void)cm;
	if (event->type == CM_CONNECTED) {
		conn->state = SMBGATE_NEGOTIATING;
		rdma_connected(conn->rdma);
	} else if (event->type == CM_ENDED && event->end == CM_END_LOCAL) {
		lose_rnic(conn, event->text);
	} else if (event->type == CM_ENDED) {
		cm_ended(conn, event);
	}
}

static void on_serve_tcp_connected(void *ctx)
{
	struct gate_conn *conn = ctx;
	char error[CM_ERROR_LEN];
	struct rnic *rnic = cm_conn_rnic(conn->cm);
	if (make_rdma(conn, rnic, error) < 0) {
		gate_conn_end(conn, true, error);
		return;
	}
	const struct cm_offer offer = make_offer(conn, rnic);
	if (cm_accept(conn->cm, rdma_qp(conn->rdma), &offer, RETRY_MS, on_serve_cm, conn, error) <
	    0)
		gate_conn_end(conn, true, error);
}

static const struct tcp_ops tcp_ops_serve = {
	.connected = on_serve_tcp_connected,
	.room = on_tcp_room,
	.message = on_tcp_message,
	.drained = on_tcp_drained,
	.ended = on_tcp_ended,
};

void gate_conn_serve_request(struct smbgate *gate, struct cm_conn *cm)
{
	struct gate_conn *conn = gate_conn_new(gate, true);
	if (!conn) {
		cm_reject(cm, NULL, 0);
		return;
	}
	const struct smbgate_config *config = &gate->config;
	conn->cm = cm;
	note_rnic(conn, cm_conn_rnic(cm));
	cm_conn_addrs(cm, &conn->local, &conn->peer);
	gate_addr_text((const struct sockaddr *)&config->server, conn->user, sizeof(conn->user));
	int error =
		tcp_side_connect(gate->params.base, (const struct sockaddr *)&config->server,
				 config->server_len, CONNECT_MS, &tcp_ops_serve, conn, &conn->tcp);
	if (error)
		on_tcp_ended(conn, TCP_END_REFUSED, -error);
}

/* ---- the client side: TCP is there, RDMA comes */

static void try_next_port(struct gate_conn *conn);

static void on_offer_cm(void *ctx, struct cm_conn *cm, const struct cm_event *event)
{
	struct gate_conn *conn = ctx;
	(void)cm;
	if (event->type == CM_CONNECTED) {
		conn->state = SMBGATE_NEGOTIATING;
		rdma_connected(conn->rdma);
		return;
	}
	if (event->type != CM_ENDED)
		return;
	if (event->end == CM_END_LOCAL) {
		lose_rnic(conn, event->text);
		return;
	}
	if (event->end == CM_END_NO_LISTENER && conn->num_ports > 0) {
		cm_conn_free(conn->cm);
		conn->cm = NULL;
		rdma_free(conn->rdma); /* its queue pair cannot be used again */
		conn->rdma = NULL;
		try_next_port(conn);
		return;
	}
	cm_ended(conn, event); /* SMBD-29 */
}

static void try_next_port(struct gate_conn *conn)
{
	struct cm_connect_params params = {
		.peer = conn->peer,
		.retry_ms = RETRY_MS,
		.fn = on_offer_cm,
		.ctx = conn,
	};
	char error[CM_ERROR_LEN];
	params.peer.port = conn->peer.port = conn->ports[--conn->num_ports];
	int failed =
		cm_resolve(conn->gate->params.cm, &params.peer, &params.rnic, &params.local, error);
	if (!failed)
		failed = make_rdma(conn, params.rnic, error);
	if (!failed) {
		conn->local = params.local;
		params.qp = rdma_qp(conn->rdma);
		params.offer = make_offer(conn, params.rnic);
		failed = cm_connect(conn->gate->params.cm, &params, &conn->cm, error);
	}
	if (failed)
		gate_conn_end(conn, true, error);
}

static void on_offer_tcp_connected(void *ctx)
{
	(void)ctx; /* it was connected from the beginning */
}

static const struct tcp_ops tcp_ops_offer = {
	.connected = on_offer_tcp_connected,
	.room = on_tcp_room,
	.message = on_tcp_message,
	.drained = on_tcp_drained,
	.ended = on_tcp_ended,
};

void gate_conn_offer_socket(struct smbgate *gate, const struct smbgate_offer *offer, int fd)
{
	struct gate_conn *conn = gate_conn_new(gate, false);
	if (!conn) {
		evutil_closesocket(fd);
		return;
	}
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	conn->peer = offer->peer;
	if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0)
		gate_addr_text((const struct sockaddr *)&addr, conn->user, sizeof(conn->user));
	if (offer->peer.port) {
		conn->ports[conn->num_ports++] = offer->peer.port;
	} else { /* the last one is tried first */
		conn->ports[conn->num_ports++] = 5445;
		conn->ports[conn->num_ports++] = 445;
	}
	if (tcp_side_adopt(gate->params.base, fd, &tcp_ops_offer, conn, &conn->tcp) < 0) {
		gate_conn_end(conn, true, "there is no memory");
		return;
	}
	try_next_port(conn);
}
