/* SPDX-License-Identifier: MIT */
/* Connections that peers ask for: REQ comes, REP goes, RTU or data come. */
#include "daemon/cm/machine_internal.h"

#include <errno.h>
#include <string.h>

enum {
	RC = 0,
	MTU_LEAST = 1, /* codes of the path MTU */
	MTU_MOST = 5,
};

/* A REQ, and what is found in it. */
struct request {
	struct cm_machine *machine;
	const uint8_t *local_gid, *peer_gid; /* of the packet */
	const struct ibcm_msg *msg;
	uint64_t digest;
	struct cm_addr local, peer;
	struct ibcm_ip ip; /* zeros: it could not be read */
	void *listener;
};

/* ---- refusals that need no user */

struct refusal {
	uint16_t reason; /* 0: none */
	const char *text;
	const uint8_t *info; /* a GID, or NULL */
};

static bool is_own_addr(const struct cm_machine *machine, const struct cm_addr *addr)
{
	uint8_t gid[16];
	return machine_gid_of_addr(addr, gid) && machine_is_own_gid(machine, gid);
}

/* CM-7: the IP addresses of a REQ fit its GIDs, and name this host. The source address is not
 * looked at, as in Linux: the connection is with the address that the REQ came from. */
static bool ip_is_right(const struct request *request)
{
	const struct ibcm_ip *ip = &request->ip;
	struct cm_addr destination = { .family = request->peer.family };
	if (ip->version != (request->peer.family == AF_INET ? 4 : 6)) /* 0: it could not be read */
		return false;
	memcpy(destination.addr, ip->destination, sizeof(destination.addr));
	return is_own_addr(request->machine, &destination);
}

/* Connections that are not confirmed make room for newer ones: one for each request, so that no
 * request brings more than one message. Their records go when their users have let go of them, so
 * there may be a few more for a moment. The peer's record may go with one. */
static struct refusal limited(const struct request *request)
{
	struct cm_machine *machine = request->machine;
	const struct cm_limits *limits = &machine->limits;
	const struct machine_peer *peer = machine_peer_find(machine, request->peer_gid);
	if (peer && peer->requests >= limits->requests_per_peer)
		return (struct refusal){ IBCM_REJ_NO_RESOURCES,
					 "the peer has too many requests that nobody has "
					 "answered" };
	if (peer && peer->asked_for >= limits->conns_per_peer) {
		if (machine_end_unproven(machine, peer))
			return (struct refusal){ 0 };
		return (struct refusal){ IBCM_REJ_NO_RESOURCES,
					 "the peer has too many connections" };
	}
	if (machine->num_asked_for >= limits->conns && !machine_end_unproven(machine, NULL))
		return (struct refusal){ IBCM_REJ_NO_RESOURCES, "there are too many connections" };
	return (struct refusal){ 0 };
}

/* Everything for which a REQ is refused, in Linux' order. No other field matters (CM-11). */
static struct refusal judge(struct request *request)
{
	struct cm_machine *machine = request->machine;
	const struct ibcm_req *req = &request->msg->req;
	uint16_t port = request->local.port;
	if (port)
		request->listener = machine->ops->find_listener(machine->ctx, &request->local);
	if (!request->listener) /* CM-8 */
		return (struct refusal){ IBCM_REJ_INVALID_SERVICE_ID, "nobody listens" };
	if (req->transport != RC) /* CM-10 */
		return (struct refusal){ IBCM_REJ_INVALID_TRANSPORT,
					 "the peer asks for another transport than RC" };
	if (!machine_is_own_gid(machine, req->primary.remote_gid)) /* CM-9 */
		return (struct refusal){ IBCM_REJ_INVALID_GID,
					 "the peer means another host's address",
					 request->local_gid };
	if (memcmp(req->primary.local_gid, request->peer_gid, IBCM_GID_LEN) != 0) /* CM-30 */
		return (struct refusal){ IBCM_REJ_CONSUMER,
					 "the request came from another address than it names" };
	if (!ip_is_right(request))
		return (struct refusal){ IBCM_REJ_CONSUMER,
					 "the request's IP addresses are wrong" };
	if (req->path_mtu < MTU_LEAST || req->path_mtu > MTU_MOST ||
	    req->path_mtu > machine->max_path_mtu) /* CM-14 */
		return (struct refusal){ IBCM_REJ_INVALID_MTU, "the path MTU is too large here" };
	if (req->qpn < MACHINE_FIRST_QPN)
		return (struct refusal){ IBCM_REJ_UNSUPPORTED_REQUEST,
					 "the peer's queue pair is none for connections" };
	if (!machine->ops->may_use(machine->ctx, &request->local, &request->peer))
		return (struct refusal){ IBCM_REJ_CONSUMER, "this RNIC may not talk to the peer" };
	return limited(request); /* CM-29 */
}

/* Nothing is kept of it: a repeat is judged anew, and the answer is no larger than the REQ, so no
 * flood of REQs costs more than the answers. */
static void refuse(const struct request *request, const struct refusal *refusal)
{
	struct cm_machine *machine = request->machine;
	machine->stats.refused++;
	machine->stats.limited += refusal->reason == IBCM_REJ_NO_RESOURCES;
	machine_say_rej(machine, request->local_gid, request->peer_gid, request->msg,
			refusal->reason, refusal->info, refusal->info ? IBCM_GID_LEN : 0);
	if (machine->ops->refused)
		machine->ops->refused(machine->ctx, &request->local, &request->peer,
				      refusal->reason, refusal->text);
}

/* ---- REQ */

/* How long the peer's answers take, and how often to repeat, is what it has told, within bounds. */
static void keep_timing(struct cm_machine_conn *conn, const struct ibcm_req *req)
{
	conn->interval = MACHINE_CODE_US(req->local_timeout);
	if (conn->interval < MACHINE_INTERVAL_LEAST_US)
		conn->interval = MACHINE_INTERVAL_LEAST_US;
	if (conn->interval > MACHINE_INTERVAL_MOST_US)
		conn->interval = MACHINE_INTERVAL_MOST_US;
	conn->max_repeats = req->max_cm_retries;
}

static bool keep(struct cm_machine_conn *conn, const struct request *request)
{
	struct cm_machine *machine = conn->machine;
	const struct ibcm_msg *msg = request->msg;
	const struct ibcm_req *req = &msg->req;
	conn->ctx = conn->listener = request->listener;
	conn->local_port = request->local.port;
	conn->peer_port = request->peer.port;
	conn->transaction_id = msg->transaction_id;
	conn->req_digest = request->digest;
	conn->peer_psn = req->starting_psn;
	conn->path_mtu = req->path_mtu;
	conn->rnr_retry = req->rnr_retry;
	conn->reads_answered = machine_lesser(req->initiator_depth, machine->max_reads_answered);
	conn->reads_asked = machine_lesser(req->responder_resources, machine->max_reads_asked);
	keep_timing(conn, req);
	machine_conn_keep_private(conn, msg->private_data + IBCM_IP_LEN, IBCM_IP_USER_LEN);
	return machine_tables_peer_id(conn, msg->local_id) &&
	       machine_tables_peer_qpn(conn, req->qpn);
}

static void admit(const struct request *request)
{
	static const struct refusal no_memory = { IBCM_REJ_NO_RESOURCES, "there is no memory" };
	struct cm_machine *machine = request->machine;
	struct cm_machine_conn *conn = machine_conn_new(
		machine, CM_STATE_ASKED, request->msg->req.primary.remote_gid, request->peer_gid);
	if (conn && !keep(conn, request)) {
		machine_conn_destroy(conn);
		conn = NULL;
	}
	if (!conn) {
		refuse(request, &no_memory);
		return;
	}
	conn->give_up = machine->now + MACHINE_ASKED_US;
	cm_timers_set(&machine->timers, &conn->timer, conn->give_up);
	machine_due(conn, MACHINE_DUE_REQUEST);
}

/* CM-22: answer as before. While the user has not answered, there is nothing to say. A peer that
 * asks again although this side has left the connection has not got the REP. */
static void repeated(struct cm_machine_conn *conn)
{
	const struct ibcm_msg req = {
		.type = IBCM_REQ,
		.transaction_id = conn->transaction_id,
		.local_id = conn->peer_id.number,
	};
	if (conn->state == CM_STATE_ACCEPTING)
		machine_conn_say_again(conn);
	else if (conn->state == CM_STATE_ENDING && !conn->ready)
		machine_say_rej(conn->machine, conn->local_gid, conn->peer->gid, &req,
				IBCM_REJ_CONSUMER, NULL, 0);
}

/* CM-23: the peer has begun anew, with a queue pair or an id that it has used for a connection. Its
 * ids nobody guesses, but numbers of queue pairs are small: a REQ that has only such a number may
 * be forged, so the peer itself is asked about a connection that is there. */
static void stale(struct cm_machine_conn *old, bool same_id, const struct request *request)
{
	static const struct refusal refusal = { IBCM_REJ_STALE_CONNECTION,
						"the peer has begun anew" };
	refuse(request, &refusal);
	if (!same_id && old->state == CM_STATE_CONNECTED)
		machine_conn_probe(old);
	else
		machine_conn_end(old, false, CM_END_PEER_DISCONNECTED, 0,
				 "the peer has begun anew");
}

void machine_passive_req(struct cm_machine *machine, const uint8_t local_gid[16],
			 const uint8_t peer_gid[16], const struct ibcm_msg *msg, uint64_t digest)
{
	struct request request = { machine, local_gid, peer_gid, msg, digest };
	const uint8_t *named = msg->req.primary.remote_gid;
	/* The connection is with the GID that the REQ names, should the packet have come to another
	 * one of ours. */
	machine_addr_of_gid(machine_is_own_gid(machine, named) ? named : local_gid,
			    ibcm_service_port(msg->req.service_id), &request.local);
	if (request.local.port) /* only then do the private data begin with IP addresses */
		(void)ibcm_ip_decode(msg->private_data, &request.ip);
	machine_addr_of_gid(peer_gid, request.ip.source_port, &request.peer);
	struct cm_machine_conn *old = machine_find_asked(machine, peer_gid, msg->local_id);
	if (old && old->req_digest == digest) {
		repeated(old);
		return;
	}
	bool same_id = old != NULL;
	if (!old)
		old = machine_find_qpn(machine, peer_gid, msg->req.qpn);
	if (old) {
		stale(old, same_id, &request);
		return;
	}
	if (machine_time_wait_req(machine, local_gid, peer_gid, msg->local_id, digest))
		return;
	struct refusal refusal = judge(&request);
	if (refusal.reason)
		refuse(&request, &refusal);
	else
		admit(&request);
}

/* ---- the user's answer */

static int say_rep(struct cm_machine_conn *conn, const struct cm_offer *offer)
{
	struct ibcm_msg msg = {
		.type = IBCM_REP,
		.transaction_id = conn->transaction_id, /* CM-4 */
		.rep = {
			.qpn = conn->own.qpn,
			.starting_psn = conn->own_psn,
			.responder_resources = conn->reads_answered,
			.initiator_depth = conn->reads_asked,
			.ack_delay = MACHINE_TARGET_ACK_DELAY,
			.rnr_retry = offer->rnr_retry,
			.ca_guid = conn->machine->guid,
		},
	};
	if (offer->private_len)
		memcpy(msg.private_data, offer->private_data, offer->private_len);
	return machine_conn_say(conn, &msg);
}

/* CM-16: the queue pair is ready before the REP goes. */
int cm_machine_accept(struct cm_machine_conn *conn, const struct cm_machine_own_qp *qp,
		      const struct cm_offer *offer, void *conn_ctx)
{
	struct cm_machine *machine = conn->machine;
	uint8_t answered = conn->reads_answered, asked = conn->reads_asked;
	if (conn->state != CM_STATE_ASKED)
		return -ENOTCONN;
	if (offer->rnr_retry > MACHINE_MAX_RNR_RETRY || offer->private_len > CM_ACCEPT_PRIVATE_MAX)
		return -EINVAL;
	conn->own = *qp;
	conn->reads_answered = machine_lesser(answered, offer->reads_answered);
	conn->reads_asked = machine_lesser(asked, offer->reads_asked); /* CM-13 */
	struct cm_machine_qp how = machine_conn_qp(conn);
	int r = machine->ops->qp_connect(machine->ctx, qp->qp, &how);
	if (r == 0)
		r = say_rep(conn, offer);
	if (r < 0) {
		conn->own = (struct cm_machine_own_qp){ 0 };
		conn->reads_answered = answered;
		conn->reads_asked = asked;
		return r;
	}
	conn->ctx = conn_ctx;
	machine_conn_set_state(conn, CM_STATE_ACCEPTING);
	machine_conn_expect(conn, MACHINE_HELD_UP_US);
	return 0;
}

void cm_machine_reject(struct cm_machine_conn *conn, const void *private_data, size_t private_len)
{
	conn->silent = true;
	conn->has_user = false;
	if (conn->state != CM_STATE_ASKED) {
		cm_machine_conn_free(conn);
		return;
	}
	conn->machine->stats.refused++;
	machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_CONSUMER, private_data,
			     private_len); /* CM-32 */
	machine_conn_end(conn, true, CM_END_REJECTED, 0, "the request was refused");
}

void cm_machine_listener_gone(struct cm_machine *machine, void *listener)
{
	struct cm_machine_conn *conn, *next;
	DL_FOREACH_SAFE (machine->conns, conn, next) {
		if (conn->state != CM_STATE_ASKED || conn->listener != listener)
			continue;
		conn->silent = true;
		machine->stats.refused++;
		machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_INVALID_SERVICE_ID, NULL, 0);
		machine_conn_end(conn, true, CM_END_REJECTED, 0, "nobody listens any more");
	}
}

/* ---- RTU, or data in its place */

void machine_passive_ready(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	struct cm_machine_qp how = machine_conn_qp(conn);
	if (conn->state != CM_STATE_ACCEPTING)
		return;
	conn->ready = true;
	machine->stats.connected++;
	cm_timers_stop(&machine->timers, &conn->timer);
	machine_conn_set_state(conn, CM_STATE_CONNECTED);
	if (machine->ops->qp_start(machine->ctx, conn->own.qp, &how) < 0)
		machine_conn_leave(conn, CM_END_LOCAL, "the queue pair cannot be started");
	else
		machine_due(conn, MACHINE_DUE_CONNECTED);
}

/* CM-17 */
void cm_machine_heard(struct cm_machine_conn *conn)
{
	machine_passive_ready(conn);
}
