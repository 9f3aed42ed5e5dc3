/* SPDX-License-Identifier: MIT */
/* Messages that come. Here alone is decided which connection a message is about, and whether it may
 * say something about it: it has to come from the address that the connection is with (CM-30), name
 * both communication ids as far as they are known, and fit the state. Everything else is dropped,
 * or answered in the way that lets a peer with an old connection forget it. */
#include "daemon/cm/machine_internal.h"

#include <string.h>

enum {
	PKEY_BITS = 0x7FFF, /* the other one tells full members of a partition from limited ones */
};

struct arrival {
	struct cm_machine *machine;
	const uint8_t *local_gid, *peer_gid;
	struct ibcm_msg msg;
};

static void drop(const struct arrival *in)
{
	in->machine->stats.dropped++;
}

static bool is_with(const struct cm_machine_conn *conn, const struct arrival *in)
{
	return memcmp(conn->peer->gid, in->peer_gid, IBCM_GID_LEN) == 0;
}

/* Is the sender's id the one that the connection has of it? Not before REP is it known. */
static bool is_id_right(const struct cm_machine_conn *conn, const struct arrival *in)
{
	return !conn->has_peer_id || conn->peer_id.number == in->msg.local_id;
}

/* The connection that a message names and may speak about. NULL: none */
static struct cm_machine_conn *named(const struct arrival *in)
{
	struct cm_machine_conn *conn = machine_find(in->machine, in->msg.remote_id);
	return conn && is_with(conn, in) && is_id_right(conn, in) ? conn : NULL;
}

/* Is the id that a message names one of ours, though perhaps not the sender's to name? */
static bool is_taken(const struct arrival *in)
{
	return machine_find(in->machine, in->msg.remote_id) != NULL;
}

static void take_req(const struct arrival *in, uint64_t digest)
{
	if ((in->msg.req.pkey & PKEY_BITS) != PKEY_BITS) /* CM-2 */
		drop(in);
	else
		machine_passive_req(in->machine, in->local_gid, in->peer_gid, &in->msg, digest);
}

/* CM-27: a REP to no connection is told so, that its sender need not wait. */
static void take_rep(const struct arrival *in)
{
	struct cm_machine_conn *conn = named(in);
	if (conn && conn->active) {
		machine_active_rep(conn, &in->msg);
		return;
	}
	drop(in);
	if (!is_taken(in))
		machine_say_rej(in->machine, in->local_gid, in->peer_gid, &in->msg,
				IBCM_REJ_INVALID_COMM_ID, NULL, 0);
}

static void take_rtu(const struct arrival *in)
{
	struct cm_machine_conn *conn = named(in);
	if (conn)
		machine_passive_ready(conn);
	else
		drop(in);
}

/* CM-21 */
static void take_mra(const struct arrival *in)
{
	struct cm_machine_conn *conn = named(in);
	enum ibcm_subject subject = in->msg.mra.subject;
	if (conn && ((conn->state == CM_STATE_ASKING && subject == IBCM_SUBJECT_REQ) ||
		     (conn->state == CM_STATE_ACCEPTING && subject == IBCM_SUBJECT_REP)))
		machine_conn_be_patient(conn, in->msg.mra.service_timeout);
	else
		drop(in);
}

/* The connection that a REJ refuses. Who gives a REQ up does not know our id; who refuses one may
 * have none itself. A refusal of a REQ says nothing about a connection that has come about since.
 */
static struct cm_machine_conn *rejected(const struct arrival *in)
{
	const struct ibcm_msg *msg = &in->msg;
	struct cm_machine_conn *conn;
	if (!msg->remote_id) {
		conn = machine_find_asked(in->machine, in->peer_gid, msg->local_id);
		return conn && (conn->state == CM_STATE_ASKED || conn->state == CM_STATE_ACCEPTING)
			       ? conn
			       : NULL;
	}
	conn = machine_find(in->machine, msg->remote_id);
	if (!conn || !is_with(conn, in))
		return NULL;
	if (conn->state == CM_STATE_ASKING)
		return conn;
	if (!is_id_right(conn, in) || (conn->active && msg->rej.subject == IBCM_SUBJECT_REQ))
		return NULL;
	return conn;
}

static void take_rej(const struct arrival *in)
{
	struct cm_machine_conn *conn = rejected(in);
	if (conn)
		machine_end_rej(conn, &in->msg);
	else
		drop(in);
}

/* CM-20: a DREQ about a connection that is forgotten is answered. CM-26: it names the queue pair
 * here; one about another connection is not answered. A peer whose REP was lost may end what here
 * is only asked for. */
static void take_dreq(const struct arrival *in)
{
	struct cm_machine_conn *conn = named(in);
	const struct ibcm_msg *msg = &in->msg;
	if (!is_taken(in))
		machine_say_drep(in->machine, in->local_gid, in->peer_gid, msg);
	else if (conn && conn->state != CM_STATE_ASKED && msg->dreq_qpn == conn->own.qpn)
		machine_end_dreq(conn, msg);
	else
		drop(in);
}

static void take_drep(const struct arrival *in)
{
	struct cm_machine_conn *conn = named(in);
	if (conn)
		machine_end_drep(conn, &in->msg);
	else
		drop(in);
}

/* CM-28 */
static void take_sidr_req(const struct arrival *in)
{
	const struct ibcm_msg rep = {
		.type = IBCM_SIDR_REP,
		.transaction_id = in->msg.transaction_id,
		.local_id = in->msg.local_id,
		.sidr_rep = {
			.status = IBCM_SIDR_UNSUPPORTED,
			.service_id = in->msg.sidr_req.service_id,
		},
	};
	machine_say(in->machine, in->local_gid, in->peer_gid, &rep);
}

static void take(const struct arrival *in, const uint8_t mad[IBCM_MAD_LEN])
{
	switch (in->msg.type) {
	case IBCM_REQ: take_req(in, machine_digest(in->machine, mad)); break;
	case IBCM_MRA: take_mra(in); break;
	case IBCM_REJ: take_rej(in); break;
	case IBCM_REP: take_rep(in); break;
	case IBCM_RTU: take_rtu(in); break;
	case IBCM_DREQ: take_dreq(in); break;
	case IBCM_DREP: take_drep(in); break;
	case IBCM_SIDR_REQ: take_sidr_req(in); break;
	case IBCM_SIDR_REP: drop(in); break;
	}
}

/* CM-2: what is no message of the CM is dropped without an answer. */
void cm_machine_receive(struct cm_machine *machine, const uint8_t local_gid[16],
			const uint8_t peer_gid[16], const uint8_t *mad, size_t len, uint64_t now)
{
	struct arrival in = { machine, local_gid, peer_gid };
	cm_machine_set_time(machine, now);
	if (machine->closed || !machine_is_own_gid(machine, local_gid) ||
	    ibcm_decode(mad, len, &in.msg) < 0) {
		drop(&in);
		return;
	}
	machine->stats.received[in.msg.type - IBCM_REQ]++;
	take(&in, mad);
}
