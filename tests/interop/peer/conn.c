/* SPDX-License-Identifier: MIT */
/* Connections: how they begin, messages and requests, how they end. */
#include "tests/interop/peer/peer.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_MS 10000 /* an emulated machine may be late by seconds */

/* ---- completions */

static void received(struct peer_conn *conn, const struct rnic_wc *wc)
{
	if (wc->length > conn->shape.message_max)
		peer_die(conn->peer, "a message of %u bytes in a buffer of %u", wc->length,
			 conn->shape.message_max);
	conn->lengths[wc->wr_id] = wc->length;
	conn->arrived++;
	if (!conn->connected && conn->cm)
		cm_conn_heard(conn->cm);
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct peer_conn *conn = ctx;
	(void)qp;
	for (size_t i = 0; i < n; i++) {
		if (wc[i].status == RNIC_WC_SUCCESS && wc[i].is_recv)
			received(conn, &wc[i]);
		else if (wc[i].status == RNIC_WC_SUCCESS)
			conn->completed++;
		else if (conn->failure == RNIC_WC_SUCCESS)
			conn->failure = wc[i].status;
	}
}

/* Die if nothing more can come. When the peer ends the connection, the queue pair may tell of it
 * before the connection manager does, who knows why. */
static void usable(const struct peer_conn *conn, const char *what)
{
	while (conn->failure == RNIC_WC_WR_FLUSH_ERR && !conn->ended)
		peer_turn(conn->peer, "the reason why the queue pair has ended");
	if (conn->ended)
		peer_die(conn->peer, "waiting for %s: the connection has ended: %s", what,
			 cm_end_name(conn->end));
	if (conn->failure != RNIC_WC_SUCCESS)
		peer_die(conn->peer, "waiting for %s: %s", what,
			 rnic_wc_status_text(conn->failure));
}

/* ---- how they begin */

static void post_receive(struct peer_conn *conn, size_t slot)
{
	struct rnic_recv_wr wr = {
		.wr_id = slot,
		.addr = conn->inbox.addr + slot * conn->shape.message_max,
		.length = conn->shape.message_max,
		.lkey = rnic_mr_lkey(conn->inbox.mr),
	};
	int r = rnic_post_recv(conn->qp, &wr, 1);
	if (r < 0 && !conn->ended && conn->failure == RNIC_WC_SUCCESS)
		peer_die(conn->peer, "cannot post a receive buffer: %s", strerror(-r));
}

static struct peer_conn *conn_new(struct peer *peer, const struct peer_shape *shape)
{
	struct peer_conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		peer_die(peer, "out of memory");
	struct rnic_qp_params params = {
		.send_depth = shape->sends,
		.recv_depth = shape->receives,
		.user_receives = true,
		.on_completion = on_completion,
		.ctx = conn,
	};
	conn->peer = peer;
	conn->shape = *shape;
	if (conn->shape.reads_answered > peer->info.max_reads_answered)
		conn->shape.reads_answered = peer->info.max_reads_answered;
	if (conn->shape.reads_asked > peer->info.max_reads_asked)
		conn->shape.reads_asked = peer->info.max_reads_asked;
	conn->lengths = calloc(shape->receives, sizeof(*conn->lengths));
	int r = rnic_qp_create(peer->pd, &params, &conn->qp);
	if (!conn->lengths || r < 0)
		peer_die(peer, "no queue pair: %s", strerror(-r));
	peer_mem_new(peer, (size_t)shape->message_max * shape->receives, RNIC_ACCESS_LOCAL_WRITE,
		     &conn->inbox);
	for (size_t i = 0; i < shape->receives; i++)
		post_receive(conn, i);
	return conn;
}

static struct cm_offer offer_of(const struct peer_conn *conn)
{
	return (struct cm_offer){ .reads_answered = conn->shape.reads_answered,
				  .reads_asked = conn->shape.reads_asked,
				  .rnr_retry = conn->shape.rnr_retry };
}

static void on_event(void *ctx, struct cm_conn *cm, const struct cm_event *event)
{
	struct peer_conn *conn = ctx;
	(void)cm;
	if (event->private_data) {
		conn->private_len = event->private_len;
		memcpy(conn->private_data, event->private_data, event->private_len);
	}
	if (event->type == CM_CONNECTED) {
		conn->connected = true;
		conn->reads_asked = event->reads_asked;
	} else if (event->type == CM_ENDED) {
		conn->ended = true;
		conn->end = event->end;
		conn->reject_reason = event->reject_reason;
	}
}

static void on_request(void *ctx, struct cm_conn *cm, const struct cm_event *event)
{
	struct peer_listener *listener = ctx;
	if (event->type == CM_REQUEST && listener->num < PEER_WAITING) {
		listener->waiting[listener->num++] = cm;
		return;
	}
	if (event->type == CM_REQUEST) {
		cm_reject(cm, NULL, 0);
		return;
	}
	for (size_t i = 0; i < listener->num; i++) {
		if (listener->waiting[i] != cm)
			continue;
		cm_conn_free(cm);
		listener->num--;
		memmove(&listener->waiting[i], &listener->waiting[i + 1],
			(listener->num - i) * sizeof(cm));
		break;
	}
}

void peer_listen(struct peer *peer, const struct cm_addr *addr, struct peer_listener *listener)
{
	char error[CM_ERROR_LEN];
	*listener = (struct peer_listener){ 0 };
	if (cm_listen(peer->cm, addr, on_request, listener, &listener->cm, error))
		peer_die(peer, "%s", error);
	peer_say("listening on port %u", addr->port);
}

void peer_unlisten(struct peer_listener *listener)
{
	cm_listener_free(listener->cm);
}

struct peer_conn *peer_accept(struct peer *peer, struct peer_listener *listener,
			      const struct peer_shape *shape)
{
	char error[CM_ERROR_LEN];
	struct peer_conn *conn = conn_new(peer, shape);
	struct cm_offer offer = offer_of(conn);
	while (listener->num == 0)
		peer_turn(peer, "a request");
	conn->cm = listener->waiting[0];
	listener->num--;
	memmove(&listener->waiting[0], &listener->waiting[1], listener->num * sizeof(conn->cm));
	if (cm_accept(conn->cm, conn->qp, &offer, RETRY_MS, on_event, conn, error))
		peer_die(peer, "cannot accept: %s", error);
	return conn;
}

struct peer_conn *peer_try(struct peer *peer, const struct cm_addr *addr,
			   const struct peer_shape *shape)
{
	char error[CM_ERROR_LEN];
	struct peer_conn *conn = conn_new(peer, shape);
	struct cm_connect_params params = { .peer = *addr,
					    .qp = conn->qp,
					    .offer = offer_of(conn),
					    .retry_ms = RETRY_MS,
					    .fn = on_event,
					    .ctx = conn };
	if (cm_resolve(peer->cm, addr, &params.rnic, &params.local, error))
		peer_die(peer, "cannot resolve: %s", error);
	if (cm_connect(peer->cm, &params, &conn->cm, error))
		peer_die(peer, "cannot connect: %s", error);
	while (!conn->connected && !conn->ended)
		peer_turn(peer, "an answer to the request");
	return conn;
}

struct peer_conn *peer_connect(struct peer *peer, const struct cm_addr *addr,
			       const struct peer_shape *shape)
{
	for (;;) {
		struct peer_conn *conn = peer_try(peer, addr, shape);
		if (conn->connected)
			return conn;
		if (conn->end != CM_END_NO_LISTENER)
			peer_die(peer, "no connection: %s, reason %u", cm_end_name(conn->end),
				 conn->reject_reason);
		peer_conn_free(conn);
		peer_pause(peer, "a listener");
	}
}

void peer_await_connected(struct peer_conn *conn)
{
	while (!conn->connected) {
		usable(conn, "the connection");
		peer_turn(conn->peer, "the connection");
	}
}

/* ---- how they end */

void peer_disconnect(struct peer_conn *conn)
{
	if (conn->ended)
		return;
	cm_disconnect(conn->cm);
	while (!conn->ended)
		peer_turn(conn->peer, "the peer's answer to the disconnection");
}

void peer_await_end(struct peer_conn *conn)
{
	while (!conn->ended)
		peer_turn(conn->peer, "the end of the connection");
	if (conn->end != CM_END_PEER_DISCONNECTED)
		peer_die(conn->peer, "the connection has ended: %s", cm_end_name(conn->end));
}

void peer_conn_free(struct peer_conn *conn)
{
	cm_conn_free(conn->cm);
	rnic_qp_destroy(conn->qp);
	peer_mem_free(&conn->inbox);
	free(conn->lengths);
	free(conn);
}

/* ---- messages and requests */

bool peer_has_message(const struct peer_conn *conn)
{
	return conn->arrived > conn->taken;
}

const uint8_t *peer_receive(struct peer_conn *conn, uint32_t *ret_len)
{
	if (conn->holding)
		post_receive(conn, (conn->taken - 1) % conn->shape.receives);
	conn->holding = false;
	while (!peer_has_message(conn)) {
		usable(conn, "a message");
		peer_turn(conn->peer, "a message");
	}
	size_t slot = conn->taken++ % conn->shape.receives;
	conn->holding = true;
	*ret_len = conn->lengths[slot];
	return conn->inbox.addr + slot * conn->shape.message_max;
}

void peer_await_posted(struct peer_conn *conn, size_t n)
{
	while (conn->posted - conn->completed > n) {
		usable(conn, "the completion of a request");
		peer_turn(conn->peer, "the completion of a request");
	}
}

void peer_post(struct peer_conn *conn, enum rnic_opcode opcode, const struct peer_mem *mem,
	       size_t at, uint32_t len, uint64_t remote_addr, uint32_t rkey)
{
	struct rnic_send_wr wr = {
		.opcode = opcode,
		.flags = RNIC_SEND_SIGNALED,
		.num_sge = 1,
		.sge = { { mem->addr + at, len, rnic_mr_lkey(mem->mr) } },
		.remote_addr = remote_addr,
		.rkey = rkey,
	};
	peer_await_posted(conn, conn->shape.sends - 1);
	int r = rnic_post_send(conn->qp, &wr, 1);
	if (r < 0)
		peer_die(conn->peer, "cannot post a request: %s", strerror(-r));
	conn->posted++;
}
