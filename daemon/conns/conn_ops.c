/* SPDX-License-Identifier: MIT */
/*
 * The engine's operations on a connection (daemon/smcr/ops.h). The engine calls them from inside
 * a call of its own, whoever made that call. So nothing here may call the engine again.
 */
#include <sys/syslog.h>

#include "daemon/conns/internal.h"

void conns_clc_send(void *user, const uint8_t *msg, size_t len)
{
	struct conn *conn = user;
	/* No stream means that TCP is gone; the engine has been told so or will be. */
	if (conn->stream && clc_stream_send(conn->stream, msg, len) < 0)
		conns_log(conn->conns, LOG_ERR, "a CLC message of %zu bytes did not fit", len);
}

static void let_go(struct conn *conn, enum conn_event event)
{
	conn->let_go = true;
	conn->smc = conn->pump.conn = NULL;
	conn_note(conn, event);
}

/* The pump may be running, and may use the control page until it has returned: conn_unshare() comes
 * later. */
void conns_unshare(void *user)
{
	struct conn *conn = user;
	shared_end(&conn->shared);
}

void conns_event(void *user, const struct smcr_conn_event *event)
{
	struct conn *conn = user;
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED: conn_note(conn, CONN_ESTABLISHED); break;
	case SMCR_CONN_FALLBACK:
		conn->reason = event->reason;
		conn->peer_reason = event->peer_reason;
		conn->path_dead = event->path_dead;
		let_go(conn, CONN_FALLBACK);
		break;
	case SMCR_CONN_FAILED:
		conn->error = event->error;
		conn->reason = event->reason;
		let_go(conn, CONN_FAILED);
		break;
	case SMCR_CONN_READABLE:
	case SMCR_CONN_URGENT:
		pump_note_readable(&conn->pump);
		conn_mark(conn);
		break;
	case SMCR_CONN_WRITABLE:
		pump_note_writable(&conn->pump);
		conn_mark(conn);
		break;
	case SMCR_CONN_OUTGROWN: conn_note_outgrown(conn, &event->needs); break;
	case SMCR_CONN_RESET:
		conn->error = event->error;
		conn->why = event->why;
		conn->broken = true;
		if (event->rx_intact)
			pump_last(&conn->pump, event->rx_ended); /* changes nothing in the engine */
		conn->pump.conn = NULL;
		conn_note(conn, CONN_RESET);
		break;
	case SMCR_CONN_CLOSED:
		conn->tcp_reset = event->tcp_reset;
		conn->peer_first = event->peer_first;
		conn->needs = event->needs;
		let_go(conn, CONN_CLOSED);
		break;
	}
}
