/* SPDX-License-Identifier: MIT */
/* Software RNICs: what the machine needs, which has neither packets, time nor queue pairs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/cm/internal.h"
#include "daemon/cm/machine.h"
#include "daemon/rnic/alarm.h"
#include "daemon/rnic/soft.h"
#include "proto/roce/roce.h"

_Static_assert(IBCM_MAD_LEN == RNIC_GSI_LEN, "a MAD is a datagram of queue pair 1");

struct soft {
	struct cm_port *port;
	struct cm_machine *machine;
	struct alarm *alarm;
	bool asking; /* cm_machine_connect() is called: cm.c has checked the peer */
};

static struct soft *soft_of(const struct cm_port *port)
{
	return port->own;
}

/* Have the machine run when it is due. To be called after each call to it. */
static void arm(struct soft *soft)
{
	const uint64_t deadline = cm_machine_deadline(soft->machine);
	if (deadline == UINT64_MAX)
		alarm_clear(soft->alarm);
	else
		alarm_set(soft->alarm, deadline);
}

static void on_alarm(void *ctx)
{
	struct soft *soft = ctx;
	cm_machine_run(soft->machine, cm_at_work(soft->port->cm));
	arm(soft);
}

/* The machine of a connection, with the present time. */
static struct soft *enter(const struct cm_conn *conn)
{
	struct soft *soft = soft_of(conn->port);
	cm_machine_set_time(soft->machine, alarm_now());
	return soft;
}

/* ---- messages */

static void tap(const struct soft *soft, bool sent, const uint8_t local_gid[16],
		const uint8_t peer_gid[16], uint16_t peer_port, const uint8_t *mad)
{
	const struct cm *cm = soft->port->cm;
	struct cm_message message = {
		.rnic = soft->port->rnic, .sent = sent, .peer_port = peer_port, .mad = mad
	};
	if (!cm->tap)
		return;
	memcpy(message.local_gid, local_gid, sizeof(message.local_gid));
	memcpy(message.peer_gid, peer_gid, sizeof(message.peer_gid));
	cm->tap(cm->tap_ctx, &message);
}

/* A message that does not leave counts as lost on the way: the machine repeats it. */
static void op_send(void *ctx, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		    const uint8_t mad[IBCM_MAD_LEN])
{
	const struct soft *soft = ctx;
	const int error = rnic_soft_gsi_send(soft->port->rnic, local_gid, peer_gid, mad);
	if (!error)
		tap(soft, true, local_gid, peer_gid, ROCE_UDP_PORT, mad);
}

/* CM-3: the peer's UDP port is of no meaning. */
static void on_datagram(void *ctx, const struct rnic_gsi_datagram *datagram)
{
	struct soft *soft = ctx;
	const uint64_t now = cm_at_work(soft->port->cm);
	tap(soft, false, datagram->local_gid, datagram->peer_gid, datagram->peer_port,
	    datagram->data);
	cm_machine_receive(soft->machine, datagram->local_gid, datagram->peer_gid, datagram->data,
			   RNIC_GSI_LEN, now);
	arm(soft);
}

static void op_random(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	/* Up to 256 bytes fail only while the kernel's pool is not ready yet. */
	while (getrandom(buf, len, 0) != (ssize_t)len)
		;
}

/* ---- what the machine asks */

static bool op_may_use(void *ctx, const struct cm_addr *local, const struct cm_addr *peer)
{
	const struct soft *soft = ctx;
	return soft->asking || cm_may_use(soft->port, local, peer);
}

static void *op_find_listener(void *ctx, const struct cm_addr *local)
{
	const struct soft *soft = ctx;
	return cm_listener_find(soft->port->cm, local);
}

static int op_qp_connect(void *ctx, void *qp, const struct cm_machine_qp *how)
{
	const struct soft *soft = ctx;
	struct rnic_info info;
	struct cm_addr local;
	rnic_get_info(soft->port->rnic, &info);
	cm_addr_from_gid(how->local_gid, &local);
	const int index = cm_gid_index(&info, &local);
	if (index < 0)
		return -EADDRNOTAVAIL;
	/* No MAC: the host finds the peer by its address, as with other IP traffic. */
	struct rnic_qp_peer peer = { .qpn = how->peer_qpn,
				     .rq_psn = how->rq_psn,
				     .path_mtu = how->path_mtu,
				     .sgid_index = (uint8_t)index,
				     .reads_answered = how->reads_answered };
	memcpy(peer.gid, how->peer_gid, sizeof(peer.gid));
	return rnic_qp_connect(qp, &peer);
}

static int op_qp_start(void *ctx, void *qp, const struct cm_machine_qp *how)
{
	(void)ctx;
	const struct rnic_qp_send_params params = { .sq_psn = how->sq_psn,
						    .retry_ms = how->retry_ms,
						    .rnr_retry = how->rnr_retry,
						    .reads_asked = how->reads_asked };
	return rnic_qp_start(qp, &params);
}

static void op_qp_error(void *ctx, void *qp)
{
	(void)ctx;
	rnic_qp_error(qp);
}

/* ---- events */

static struct cm_note note_of(const struct cm_event *event)
{
	struct cm_note note = { .reads_answered = event->reads_answered,
				.reads_asked = event->reads_asked,
				.private_len = event->private_len };
	if (note.private_len > sizeof(note.private_data))
		note.private_len = sizeof(note.private_data);
	if (note.private_len)
		memcpy(note.private_data, event->private_data, note.private_len);
	return note;
}

/* A listener's context is the listener, until its connection has one of its own. */
static void on_request(struct soft *soft, struct cm_machine_conn *machine_conn,
		       struct cm_listener *listener, const struct cm_event *event)
{
	const struct cm_note note = note_of(event);
	struct cm_addr local, peer;
	cm_machine_conn_addrs(machine_conn, &local, &peer);
	struct cm_conn *conn = NULL;
	if (cm_conn_has_room(soft->port->cm, &peer, true))
		conn = cm_conn_new(soft->port, &local, &peer, false);
	else
		soft->port->cm->stats.limited++;
	if (!conn) {
		cm_machine_reject(machine_conn, NULL, 0);
		return;
	}
	conn->own = machine_conn;
	cm_machine_conn_set_ctx(machine_conn, conn);
	cm_conn_ask(conn, listener, &note);
}

static void op_event(void *ctx, struct cm_machine_conn *machine_conn, void *conn_ctx,
		     const struct cm_event *event)
{
	const struct cm_note note = note_of(event);
	switch (event->type) {
	case CM_REQUEST: on_request(ctx, machine_conn, conn_ctx, event); break;
	case CM_CONNECTED: cm_conn_up(conn_ctx, &note); break;
	case CM_ENDED:
		cm_conn_end(conn_ctx, event->end, event->reject_reason,
			    note.private_len ? &note : NULL, event->text);
		break;
	}
}

static void op_refused(void *ctx, const struct cm_addr *local, const struct cm_addr *peer,
		       uint16_t reason, const char *text)
{
	const struct soft *soft = ctx;
	(void)reason;
	cm_tell_refused(soft->port, local, peer, text);
}

/* ---- the kind */

static void soft_changed(struct cm_port *port)
{
	struct soft *soft = soft_of(port);
	struct rnic_info info;
	rnic_get_info(port->rnic, &info);
	cm_machine_set_time(soft->machine, alarm_now());
	cm_machine_set_rnic(soft->machine, &info);
	arm(soft);
}

static void soft_free(struct soft *soft)
{
	cm_machine_free(soft->machine);
	alarm_free(soft->alarm);
	free(soft);
}

static int soft_open(struct cm_port *port, char ret_error[CM_ERROR_LEN])
{
	static const struct cm_machine_ops ops = { .send = op_send,
						   .random = op_random,
						   .may_use = op_may_use,
						   .find_listener = op_find_listener,
						   .qp_connect = op_qp_connect,
						   .qp_start = op_qp_start,
						   .qp_error = op_qp_error,
						   .event = op_event,
						   .refused = op_refused };
	struct soft *soft = calloc(1, sizeof(*soft));
	int error = soft ? alarm_new(port->cm->params.base, on_alarm, soft, &soft->alarm) : -ENOMEM;
	if (!error) {
		const struct cm_machine_params params = { .ops = &ops,
							  .ctx = soft,
							  .limits = port->cm->params.limits,
							  .now = alarm_now() };
		error = cm_machine_new(&params, &soft->machine);
	}
	if (error) {
		struct rnic_info info;
		rnic_get_info(port->rnic, &info);
		snprintf(ret_error, CM_ERROR_LEN, "rnic %s: no connection manager: %s", info.name,
			 strerror(-error));
		if (soft)
			soft_free(soft);
		return error;
	}
	soft->port = port;
	port->own = soft;
	soft_changed(port);
	rnic_soft_set_gsi(port->rnic, on_datagram, soft);
	return 0;
}

static void soft_close(struct cm_port *port)
{
	rnic_soft_set_gsi(port->rnic, NULL, NULL);
	soft_free(soft_of(port));
	port->own = NULL;
}

/* The RNIC is about to be closed: peers are told while it is there. */
static void soft_leave(struct cm_port *port)
{
	cm_machine_set_time(soft_of(port)->machine, alarm_now());
	cm_machine_close(soft_of(port)->machine);
}

/* Requests find their listener when they come. */
static int soft_listen(struct cm_port *port, struct cm_listener *listener,
		       char ret_error[CM_ERROR_LEN])
{
	(void)port;
	(void)listener;
	(void)ret_error;
	return 0;
}

static void soft_unlisten(struct cm_port *port, struct cm_listener *listener)
{
	struct soft *soft = soft_of(port);
	cm_machine_set_time(soft->machine, alarm_now());
	cm_machine_listener_gone(soft->machine, listener);
	arm(soft);
}

static int explain(const struct cm_conn *conn, int error, const char *what, char *ret_error)
{
	char text[CM_ADDR_LEN];
	if (error)
		snprintf(ret_error, CM_ERROR_LEN, "rnic %s: cannot %s %s: %s", conn->view.rnic,
			 what, cm_addr_text(&conn->view.peer, text), strerror(-error));
	return error;
}

static int soft_connect(struct cm_conn *conn, const struct cm_connect_params *params,
			char ret_error[CM_ERROR_LEN])
{
	struct soft *soft = enter(conn);
	const struct cm_machine_connect_params machine_params = {
		.local = params->local,
		.peer = params->peer,
		.qp = { .qp = params->qp,
			.qpn = rnic_qp_num(params->qp),
			.retry_ms = params->retry_ms },
		.offer = params->offer,
		.timeout_ms = params->timeout_ms,
		.conn_ctx = conn,
	};
	struct cm_machine_conn *machine_conn = NULL;
	soft->asking = true;
	int error = cm_machine_connect(soft->machine, &machine_params, &machine_conn);
	soft->asking = false;
	conn->own = machine_conn;
	arm(soft);
	return explain(conn, error, "connect to", ret_error);
}

static int soft_accept(struct cm_conn *conn, const struct cm_offer *offer,
		       char ret_error[CM_ERROR_LEN])
{
	struct soft *soft = enter(conn);
	const struct cm_machine_own_qp qp = { .qp = conn->qp,
					      .qpn = rnic_qp_num(conn->qp),
					      .retry_ms = conn->retry_ms };
	int error = cm_machine_accept(conn->own, &qp, offer, conn);
	arm(soft);
	return explain(conn, error, "accept", ret_error);
}

static void soft_reject(struct cm_conn *conn, const void *private_data, size_t private_len)
{
	struct soft *soft = enter(conn);
	cm_machine_reject(conn->own, private_data, private_len);
	conn->own = NULL;
	arm(soft);
}

static void soft_heard(struct cm_conn *conn)
{
	struct soft *soft = enter(conn);
	cm_machine_heard(conn->own);
	arm(soft);
}

static void soft_disconnect(struct cm_conn *conn)
{
	struct soft *soft = enter(conn);
	cm_machine_disconnect(conn->own);
	arm(soft);
}

static void soft_drop(struct cm_conn *conn)
{
	struct soft *soft = enter(conn);
	cm_machine_conn_free(conn->own);
	conn->own = NULL;
	arm(soft);
}

static void soft_refresh(struct cm_conn *conn)
{
	struct cm_conn_view now, *view = &conn->view;
	(void)enter(conn);
	cm_machine_conn_view(conn->own, &now);
	view->local = now.local;
	view->local_qpn = now.local_qpn;
	view->peer_qpn = now.peer_qpn;
	view->local_id = now.local_id;
	view->peer_id = now.peer_id;
	view->path_mtu = now.path_mtu;
	view->reads_answered = now.reads_answered;
	view->reads_asked = now.reads_asked;
	view->resends = now.resends;
}

static void soft_add_stats(const struct cm_port *port, struct cm_stats *stats)
{
	struct cm_stats own;
	cm_machine_get_stats(soft_of(port)->machine, &own);
	for (size_t i = 0; i < sizeof(own.sent) / sizeof(own.sent[0]); i++) {
		stats->sent[i] += own.sent[i];
		stats->received[i] += own.received[i];
	}
	stats->resent += own.resent;
	stats->dropped += own.dropped;
	stats->refused += own.refused;
	stats->limited += own.limited;
}

const struct cm_kind cm_soft_kind = {
	.open = soft_open,
	.leave = soft_leave,
	.close = soft_close,
	.changed = soft_changed,
	.listen = soft_listen,
	.unlisten = soft_unlisten,
	.connect = soft_connect,
	.accept = soft_accept,
	.reject = soft_reject,
	.heard = soft_heard,
	.disconnect = soft_disconnect,
	.drop = soft_drop,
	.refresh = soft_refresh,
	.add_stats = soft_add_stats,
};
