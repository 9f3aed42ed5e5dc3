/* SPDX-License-Identifier: MIT */
/* How connections end: DREQ and DREP, REJ, and silence. */
#include "daemon/cm/machine_internal.h"
#include "proto/ibcm/text.h"

#include <stdarg.h>
#include <inttypes.h>
#include <stdio.h>

static void count(struct cm_machine_conn *conn)
{
	struct cm_stats *stats = &conn->machine->stats;
	if (conn->ready)
		stats->disconnected++;
	else if (conn->end != CM_END_REJECTED)
		stats->failed++;
}

void machine_conn_end(struct cm_machine_conn *conn, bool answer, enum cm_end end, uint16_t reason,
		      const char *format, ...)
{
	va_list args;
	if (conn->state == CM_STATE_ENDED)
		return;
	conn->end = end;
	conn->reject_reason = reason;
	va_start(args, format);
	(void)vsnprintf(conn->text, sizeof(conn->text), format, args);
	va_end(args);
	count(conn);
	machine_conn_drop_qp(conn);
	cm_timers_stop(&conn->machine->timers, &conn->timer);
	machine_tables_remove(conn);
	machine_time_wait_enter(conn, answer);
	machine_conn_set_state(conn, CM_STATE_ENDED);
	if (!conn->has_user)
		machine_conn_destroy(conn);
	else if (!conn->silent)
		machine_due(conn, MACHINE_DUE_ENDED);
}

/* ---- by this side */

/* CM-26: a DREQ names the queue pair of the side that it goes to. */
void machine_conn_leave(struct cm_machine_conn *conn, enum cm_end end, const char *text)
{
	struct cm_machine *machine = conn->machine;
	struct ibcm_msg dreq = {
		.type = IBCM_DREQ,
		.transaction_id = conn->transaction_id,
		.dreq_qpn = conn->peer_qpn.number,
	};
	if (!conn->active)
		machine->ops->random(machine->ctx, &dreq.transaction_id,
				     sizeof(dreq.transaction_id));
	machine_not_due(conn);
	machine_conn_drop_qp(conn);
	machine_conn_set_state(conn, CM_STATE_ENDING);
	conn->end = end;
	(void)snprintf(conn->text, sizeof(conn->text), "%s", text);
	(void)machine_conn_say(conn, &dreq);
	machine_conn_expect(conn, MACHINE_HELD_UP_US);
}

/* The message that the connection waited for has come, or does not come any more. */
static void left(struct cm_machine_conn *conn)
{
	char text[CM_ERROR_LEN];
	(void)snprintf(text, sizeof(text), "%s", conn->text);
	machine_conn_end(conn, false, conn->end, conn->reject_reason, "%s", text);
}

void cm_machine_disconnect(struct cm_machine_conn *conn)
{
	static const char text[] = "this side has ended the connection";
	switch (conn->state) {
	case CM_STATE_ASKING:
		machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_TIMEOUT, NULL, 0);
		machine_conn_end(conn, false, CM_END_DISCONNECTED, 0, text);
		break;
	case CM_STATE_ASKED:
		machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_CONSUMER, NULL, 0);
		machine_conn_end(conn, true, CM_END_REJECTED, 0, "this side has refused");
		break;
	case CM_STATE_ACCEPTING:
	case CM_STATE_CONNECTED: machine_conn_leave(conn, CM_END_DISCONNECTED, text); break;
	case CM_STATE_ENDING:
	case CM_STATE_ENDED: break;
	}
}

/* What the peer has to hear is still said, and repeated, but no user hears of it. */
void cm_machine_conn_free(struct cm_machine_conn *conn)
{
	conn->own.qp = NULL;
	conn->has_user = false;
	if (conn->state == CM_STATE_ENDED)
		machine_conn_destroy(conn);
	else
		cm_machine_disconnect(conn);
}

/* ---- by the peer */

void machine_say_drep(struct cm_machine *machine, const uint8_t local_gid[16],
		      const uint8_t peer_gid[16], const struct ibcm_msg *dreq)
{
	const struct ibcm_msg drep = {
		.type = IBCM_DREP,
		.transaction_id = dreq->transaction_id, /* CM-4 */
		.local_id = dreq->remote_id,
		.remote_id = dreq->local_id,
	};
	machine_say(machine, local_gid, peer_gid, &drep);
}

/* CM-25: a DREQ that crosses ours ends the connection as the answer to ours would. */
void machine_end_dreq(struct cm_machine_conn *conn, const struct ibcm_msg *msg)
{
	machine_say_drep(conn->machine, conn->local_gid, conn->peer->gid, msg);
	if (conn->state == CM_STATE_ENDING)
		left(conn);
	else
		machine_conn_end(conn, false, CM_END_PEER_DISCONNECTED, 0,
				 "the peer has ended the connection");
}

void machine_end_drep(struct cm_machine_conn *conn, const struct ibcm_msg *msg)
{
	if (conn->state == CM_STATE_ENDING)
		left(conn);
	else if (conn->state == CM_STATE_CONNECTED && conn->probe_id &&
		 msg->transaction_id == conn->probe_id)
		machine_conn_end(conn, false, CM_END_PEER_DISCONNECTED, 0,
				 "the peer has begun anew");
	else
		conn->machine->stats.dropped++;
}

/* A DREQ that names the wrong queue pair. Who has the connection does nothing (CM-26); who has
 * forgotten it answers (CM-20), and only the peer can know the numbers to be repeated. */
void machine_conn_probe(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	struct ibcm_msg dreq = {
		.type = IBCM_DREQ,
		.local_id = conn->local_id,
		.remote_id = conn->peer_id.number,
	};
	if (conn->probe_id && machine->now - conn->probed_at < MACHINE_PROBE_US)
		return;
	machine->ops->random(machine->ctx, &conn->probe_id, sizeof(conn->probe_id));
	conn->probed_at = machine->now;
	dreq.transaction_id = conn->probe_id;
	machine_say(machine, conn->local_gid, conn->peer->gid, &dreq);
}

static enum cm_end end_of_rej(const struct cm_machine_conn *conn, uint16_t reason)
{
	if (reason == IBCM_REJ_CONSUMER)
		return CM_END_REFUSED;
	if (reason == IBCM_REJ_INVALID_SERVICE_ID && conn->state == CM_STATE_ASKING)
		return CM_END_NO_LISTENER;
	return CM_END_PEER_REFUSED;
}

/* CM-32: what the peer's user sends along goes to ours. */
void machine_end_rej(struct cm_machine_conn *conn, const struct ibcm_msg *msg)
{
	uint16_t reason = msg->rej.reason;
	if (conn->state == CM_STATE_ENDING) {
		left(conn);
		return;
	}
	conn->rejected = true;
	machine_conn_keep_private(conn, msg->private_data, IBCM_REJ_PRIVATE_LEN);
	machine_conn_end(conn, false, end_of_rej(conn, reason), reason,
			 "the peer has refused: %s (REJ %u)", ibcm_reject_text(reason), reason);
}

/* ---- by silence */

static void give_up(struct cm_machine_conn *conn)
{
	uint64_t seconds = (conn->machine->now - conn->changed) / 1000000;
	switch (conn->state) {
	case CM_STATE_ASKING:
		machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_TIMEOUT, NULL, 0);
		machine_conn_end(conn, false, CM_END_TIMEOUT, 0,
				 "the peer has not answered the request for %" PRIu64 " s",
				 seconds);
		break;
	case CM_STATE_ASKED:
		machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_TIMEOUT, NULL, 0);
		machine_conn_end(conn, true, CM_END_TIMEOUT, 0,
				 "nobody has answered the peer's request for %" PRIu64 " s",
				 seconds);
		break;
	case CM_STATE_ACCEPTING:
		machine_conn_say_rej(conn, IBCM_SUBJECT_REP, IBCM_REJ_TIMEOUT, NULL, 0);
		machine_conn_end(conn, false, CM_END_TIMEOUT, 0,
				 "the peer has not confirmed the connection for %" PRIu64 " s",
				 seconds);
		break;
	case CM_STATE_ENDING: left(conn); break;
	case CM_STATE_CONNECTED:
	case CM_STATE_ENDED: break; /* no timer runs */
	}
}

/* ---- for the room that it takes */

/* Did a peer ask for it, and has shown in no way since that it was the peer who asked? */
static bool is_unproven(const struct cm_machine_conn *conn)
{
	return !conn->active && !conn->ready &&
	       (conn->state == CM_STATE_ACCEPTING || conn->state == CM_STATE_ENDING);
}

bool machine_end_unproven(struct cm_machine *machine, const struct machine_peer *peer)
{
	struct cm_machine_conn *newest = machine->conns, *conn = newest ? newest->prev : NULL;
	while (conn && !(is_unproven(conn) && (!peer || conn->peer == peer)))
		conn = conn == newest ? NULL : conn->prev;
	if (!conn)
		return false;
	if (conn->state == CM_STATE_ENDING) {
		left(conn);
		return true;
	}
	machine_conn_say_rej(conn, IBCM_SUBJECT_REP, IBCM_REJ_NO_RESOURCES, NULL, 0);
	machine_conn_end(conn, false, CM_END_TIMEOUT, 0,
			 "the peer has not confirmed the connection, and others need its place");
	return true;
}

/* CM-18 */
void machine_conn_fire(struct cm_machine_conn *conn)
{
	if (conn->machine->now >= conn->give_up || conn->repeats_left == 0) {
		give_up(conn);
		return;
	}
	machine_conn_repeat(conn);
}
