/* SPDX-License-Identifier: MIT */
/* Connections that this side asks for: REQ goes, REP comes, RTU goes. */
#include "daemon/cm/machine_internal.h"

#include <errno.h>
#include <string.h>

enum {
	ANY_LID = 0xFFFF, /* Ethernet has none */
	DEFAULT_PKEY = 0xFFFF,
	FIRST_FREE_PORT = 0xC000, /* of those that programs get when they name none */
};

/* ---- REQ */

static int check(const struct cm_machine *machine, const struct cm_machine_connect_params *params,
		 uint8_t ret_local[16], uint8_t ret_peer[16])
{
	const struct cm_offer *offer = &params->offer;
	if (machine->closed)
		return -ENODEV;
	if (offer->rnr_retry > MACHINE_MAX_RNR_RETRY || offer->private_len > CM_REQUEST_PRIVATE_MAX)
		return -EINVAL;
	if (params->local.family != params->peer.family || !params->peer.port)
		return -EINVAL;
	if (!machine_gid_of_addr(&params->peer, ret_peer) ||
	    !machine_gid_of_addr(&params->local, ret_local))
		return -EINVAL;
	if (!machine_is_own_gid(machine, ret_local))
		return -EADDRNOTAVAIL;
	if (!machine->ops->may_use(machine->ctx, &params->local, &params->peer))
		return -EACCES;
	return machine->num_active < machine->limits.conns ? 0 : -EAGAIN;
}

/* CM-6: what the user sends along comes behind the IP addresses. */
static void write_private(const struct cm_machine_conn *conn, const struct cm_offer *offer,
			  uint8_t private_data[IBCM_REQ_PRIVATE_LEN])
{
	struct cm_addr local, peer;
	cm_machine_conn_addrs(conn, &local, &peer);
	struct ibcm_ip ip = {
		.version = local.family == AF_INET ? 4 : 6,
		.source_port = local.port,
	};
	memcpy(ip.source, local.addr, sizeof(ip.source));
	memcpy(ip.destination, peer.addr, sizeof(ip.destination));
	(void)ibcm_ip_encode(&ip, private_data); /* either version is right */
	if (offer->private_len)
		memcpy(private_data + IBCM_IP_LEN, offer->private_data, offer->private_len);
}

static int say_req(struct cm_machine_conn *conn, const struct cm_offer *offer)
{
	struct ibcm_msg msg = {
		.type = IBCM_REQ,
		.transaction_id = conn->transaction_id,
		.req = {
			.service_id = IBCM_SERVICE_TCP + conn->peer_port, /* CM-5 */
			.ca_guid = conn->machine->guid,
			.qpn = conn->own.qpn,
			.responder_resources = conn->reads_answered,
			.initiator_depth = conn->reads_asked,
			.remote_timeout = MACHINE_TIMEOUT_CODE,
			.starting_psn = conn->own_psn,
			.local_timeout = MACHINE_TIMEOUT_CODE,
			.retry_count = MACHINE_RETRY_COUNT,
			.pkey = DEFAULT_PKEY,
			.path_mtu = conn->path_mtu,
			.rnr_retry = offer->rnr_retry,
			.max_cm_retries = MACHINE_RETRIES,
			.primary = {
				.local_lid = ANY_LID,
				.remote_lid = ANY_LID,
				.hop_limit = MACHINE_HOP_LIMIT,
				.ack_timeout = MACHINE_ACK_TIMEOUT,
			},
		},
	};
	memcpy(msg.req.primary.local_gid, conn->local_gid, 16);
	memcpy(msg.req.primary.remote_gid, conn->peer->gid, 16);
	write_private(conn, offer, msg.private_data);
	return machine_conn_say(conn, &msg);
}

int cm_machine_connect(struct cm_machine *machine, const struct cm_machine_connect_params *params,
		       struct cm_machine_conn **ret_conn)
{
	uint8_t local_gid[16], peer_gid[16];
	int r = check(machine, params, local_gid, peer_gid);
	if (r < 0)
		return r;
	struct cm_machine_conn *conn =
		machine_conn_new(machine, CM_STATE_ASKING, local_gid, peer_gid);
	if (!conn)
		return -ENOMEM;
	conn->ctx = params->conn_ctx;
	conn->own = params->qp;
	conn->peer_port = params->peer.port;
	conn->local_port = params->local.port;
	if (!conn->local_port)
		conn->local_port = (uint16_t)(machine_random(machine) | FIRST_FREE_PORT);
	machine->ops->random(machine->ctx, &conn->transaction_id, sizeof(conn->transaction_id));
	conn->path_mtu = machine->max_path_mtu; /* CM-14 */
	conn->reads_answered =
		machine_lesser(params->offer.reads_answered, machine->max_reads_answered);
	conn->reads_asked = machine_lesser(params->offer.reads_asked, machine->max_reads_asked);
	conn->interval = MACHINE_CODE_US(MACHINE_TIMEOUT_CODE);
	conn->max_repeats = MACHINE_RETRIES;
	r = say_req(conn, &params->offer);
	if (r < 0) {
		machine_conn_destroy(conn);
		return r;
	}
	conn->has_user = true;
	unsigned int timeout_ms = params->timeout_ms ? params->timeout_ms : MACHINE_CONNECT_MS;
	machine_conn_expect(conn, (uint64_t)timeout_ms * 1000);
	*ret_conn = conn;
	return 0;
}

/* ---- REP */

static void refuse_rep(struct cm_machine_conn *conn, uint16_t reason, const char *why)
{
	machine_conn_say_rej(conn, IBCM_SUBJECT_REP, reason, NULL, 0);
	machine_conn_end(conn, false, CM_END_LOCAL, 0, "%s", why);
}

/* CM-31: the user is told, and may send, when the RTU has gone. */
static void establish(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	struct ibcm_msg rtu = { .type = IBCM_RTU, .transaction_id = conn->transaction_id };
	struct cm_machine_qp how = machine_conn_qp(conn);
	int r = machine->ops->qp_connect(machine->ctx, conn->own.qp, &how);
	if (r == 0)
		r = machine->ops->qp_start(machine->ctx, conn->own.qp, &how);
	if (r < 0) {
		refuse_rep(conn, IBCM_REJ_NO_RESOURCES, "the queue pair cannot be connected");
		return;
	}
	cm_timers_stop(&machine->timers, &conn->timer);
	machine_conn_set_state(conn, CM_STATE_CONNECTED);
	conn->ready = true;
	machine->stats.connected++;
	(void)machine_conn_say(conn, &rtu);
	machine_due(conn, MACHINE_DUE_CONNECTED);
}

/* The peer has said REP to the REQ. */
static void take_rep(struct cm_machine_conn *conn, const struct ibcm_msg *msg)
{
	const struct ibcm_rep *rep = &msg->rep;
	struct cm_machine *machine = conn->machine;
	struct cm_machine_conn *other = machine_find_qpn(machine, conn->peer->gid, rep->qpn);
	(void)machine_tables_peer_id(conn, msg->local_id);
	if (other) {
		/* CM-23: one of both is not there any more, and nobody knows which. */
		machine_conn_end(other, false, CM_END_PEER_DISCONNECTED, 0,
				 "the peer uses its queue pair for another connection");
		refuse_rep(conn, IBCM_REJ_STALE_CONNECTION,
			   "the peer's queue pair belongs to another connection");
		return;
	}
	if (!machine_tables_peer_qpn(conn, rep->qpn)) {
		refuse_rep(conn, IBCM_REJ_NO_RESOURCES, "there is no memory");
		return;
	}
	conn->peer_psn = rep->starting_psn;
	conn->rnr_retry = rep->rnr_retry;
	conn->reads_asked = machine_lesser(conn->reads_asked, rep->responder_resources); /* CM-13 */
	machine_conn_keep_private(conn, msg->private_data, IBCM_REP_PRIVATE_LEN);
	establish(conn);
}

void machine_active_rep(struct cm_machine_conn *conn, const struct ibcm_msg *msg)
{
	if (conn->state == CM_STATE_ASKING && msg->rep.qpn >= MACHINE_FIRST_QPN)
		take_rep(conn, msg);
	else if (conn->state == CM_STATE_CONNECTED && msg->local_id == conn->peer_id.number)
		machine_conn_say_again(conn); /* the RTU: CM-19 */
	else
		conn->machine->stats.dropped++;
}
