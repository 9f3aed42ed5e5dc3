/* SPDX-License-Identifier: MIT */
/*
 * ucmatose. The client makes connections, all at a time. On each the server sends messages, and
 * when the client has them all it sends as many. Then the server disconnects. The client asks for
 * no retries of a SEND that finds no receive buffer, so all have to be posted before.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/interop/peer/peer.h"

static struct peer_shape shape_of(const struct peer_options *options)
{
	return (struct peer_shape){ .message_max = options->size,
				    .receives = options->count,
				    .sends = options->count,
				    .reads_answered = 1,
				    .reads_asked = 1,
				    .rnr_retry = 0 };
}

static void send_all(struct peer_conn *conn, const struct peer_mem *out, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		peer_post(conn, RNIC_WR_SEND, out, 0, (uint32_t)out->len, 0, 0);
}

static void receive_all(struct peer_conn *conn, const struct peer_options *options)
{
	for (unsigned int i = 0; i < options->count; i++) {
		uint32_t len;
		peer_receive(conn, &len);
		if (len != options->size)
			peer_die(conn->peer, "message %u has %u bytes", i, len);
	}
}

static struct peer_conn **new_conns(const struct peer *peer, unsigned int n)
{
	struct peer_conn **conns = calloc(n, sizeof(*conns));
	if (!conns)
		peer_die(peer, "out of memory");
	return conns;
}

void ucmatose_server(struct peer *peer, const struct peer_options *options)
{
	struct peer_listener listener;
	struct peer_mem out;
	struct peer_shape shape = shape_of(options);
	struct peer_conn **conns = new_conns(peer, options->conns);
	peer_mem_new(peer, options->size, RNIC_ACCESS_LOCAL_WRITE, &out);
	peer_listen(peer, &options->addr, &listener);
	for (unsigned int i = 0; i < options->conns; i++)
		conns[i] = peer_accept(peer, &listener, &shape);
	for (unsigned int i = 0; i < options->conns; i++) {
		peer_await_connected(conns[i]);
		send_all(conns[i], &out, options->count);
	}
	for (unsigned int i = 0; i < options->conns; i++)
		receive_all(conns[i], options);
	for (unsigned int i = 0; i < options->conns; i++) {
		peer_await_posted(conns[i], 0);
		peer_disconnect(conns[i]);
		peer_conn_free(conns[i]);
	}
	peer_unlisten(&listener);
	peer_mem_free(&out);
	free(conns);
}

void ucmatose_client(struct peer *peer, const struct peer_options *options)
{
	struct peer_mem out;
	struct peer_shape shape = shape_of(options);
	struct peer_conn **conns = new_conns(peer, options->conns);
	peer_mem_new(peer, options->size, RNIC_ACCESS_LOCAL_WRITE, &out);
	for (unsigned int i = 0; i < options->conns; i++)
		conns[i] = peer_connect(peer, &options->addr, &shape);
	for (unsigned int i = 0; i < options->conns; i++) {
		receive_all(conns[i], options);
		send_all(conns[i], &out, options->count);
	}
	for (unsigned int i = 0; i < options->conns; i++) {
		peer_await_end(conns[i]);
		peer_conn_free(conns[i]);
	}
	peer_mem_free(&out);
	free(conns);
}
