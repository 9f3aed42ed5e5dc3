/* SPDX-License-Identifier: MIT */
/*
 * The engine's operations on a connection (daemon/engine/ops.h). They come in the middle of an
 * engine call, made by this room or by others: nothing is done here that could call it again.
 */
#include <sys/syslog.h>

#include "daemon/clients/internal.h"

void clients_clc_send(void *user, const uint8_t *msg, size_t len)
{
	struct client_conn *conn = user;
	/* Without a stream TCP is gone, and the engine has been told or will be. */
	if (conn->stream && clc_stream_send(conn->stream, msg, len) < 0)
		clients_log(conn->clients, LOG_ERR, "a CLC message of %zu bytes did not fit", len);
}

void clients_conn_event(void *user, const struct smcr_conn_event *event)
{
	struct client_conn *conn = user;
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED: conn->noted |= NOTED_ESTABLISHED; break;
	case SMCR_CONN_FALLBACK:
		conn->noted |= NOTED_FALLBACK;
		conn->reason = event->reason;
		conn->peer_reason = event->peer_reason;
		conn->path_dead = event->path_dead;
		break;
	case SMCR_CONN_FAILED:
		conn->noted |= NOTED_FAILED;
		conn->error = event->error;
		conn->reason = event->reason;
		break;
	case SMCR_CONN_READABLE:
	case SMCR_CONN_WRITABLE:
	case SMCR_CONN_URGENT: break; /* the pump looks at all three */
	case SMCR_CONN_RESET:
		conn->noted |= NOTED_RESET;
		conn->error = event->error;
		if (event->rx_intact)
			pump_last(&conn->pump); /* calls nothing that changes the engine */
		conn->pump.conn = NULL;
		break;
	case SMCR_CONN_CLOSED:
		conn->noted |= NOTED_CLOSED;
		conn->tcp_reset = event->tcp_reset;
		break;
	}
	if (conn->noted & NOTED_GONE)
		conn->engine = conn->pump.conn = NULL;
	clients_mark(conn);
}
