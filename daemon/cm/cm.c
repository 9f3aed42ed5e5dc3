/* SPDX-License-Identifier: MIT */
#include "daemon/cm/cm.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/cm/internal.h"
#include "daemon/rnic/alarm.h"

/* ---- addresses */

static size_t addr_len(const struct cm_addr *addr)
{
	return addr->family == AF_INET ? 4 : 16;
}

bool cm_addr_is_any(const struct cm_addr *addr)
{
	static const uint8_t zeros[16];
	return !memcmp(addr->addr, zeros, addr_len(addr));
}

bool cm_addr_equal(const struct cm_addr *a, const struct cm_addr *b)
{
	return a->family == b->family && !memcmp(a->addr, b->addr, addr_len(a));
}

void cm_addr_from_gid(const uint8_t gid[16], struct cm_addr *ret_addr)
{
	static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
	const bool ipv4 = !memcmp(gid, mapped, sizeof(mapped));
	memset(ret_addr->addr, 0, sizeof(ret_addr->addr));
	ret_addr->family = ipv4 ? AF_INET : AF_INET6;
	memcpy(ret_addr->addr, ipv4 ? gid + sizeof(mapped) : gid, addr_len(ret_addr));
}

void cm_addr_to_gid(const struct cm_addr *addr, uint8_t ret_gid[16])
{
	if (addr->family == AF_INET6) {
		memcpy(ret_gid, addr->addr, 16);
		return;
	}
	memset(ret_gid, 0, 10);
	memset(ret_gid + 10, 0xFF, 2);
	memcpy(ret_gid + 12, addr->addr, 4);
}

int cm_gid_index(const struct rnic_info *info, const struct cm_addr *addr)
{
	uint8_t gid[16];
	cm_addr_to_gid(addr, gid);
	for (size_t i = 0; i < info->num_gids; i++)
		if (!memcmp(info->gids[i].raw, gid, sizeof(gid)))
			return (int)i;
	return -1;
}

/* ---- RNICs */

uint64_t cm_at_work(const struct cm *cm)
{
	const uint64_t now = alarm_now();
	if (cm->params.at_work)
		cm->params.at_work(cm->params.ctx, now);
	return now;
}

static void on_deliver(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)cm_at_work(arg);
	cm_conns_deliver(arg);
}

int cm_new(const struct cm_params *params, struct cm **ret_cm)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	if (!cm)
		return -ENOMEM;
	cm->params = *params;
	struct cm_limits *limits = &cm->params.limits;
	if (!limits->conns)
		limits->conns = 4096;
	if (!limits->conns_per_peer)
		limits->conns_per_peer = 1024;
	if (!limits->requests_per_peer)
		limits->requests_per_peer = 64;
	cm->deliver = event_new(params->base, -1, 0, on_deliver, cm);
	if (!cm->deliver) {
		free(cm);
		return -ENOMEM;
	}
	*ret_cm = cm;
	return 0;
}

void cm_free(struct cm *cm)
{
	if (!cm)
		return;
	assert(!cm->conns && !cm->listeners);
	while (cm->ports)
		cm_remove_rnic(cm, cm->ports->rnic);
	event_free(cm->deliver);
	free(cm);
}

static struct cm_port *find_port(const struct cm *cm, const struct rnic *rnic)
{
	struct cm_port *port;
	DL_FOREACH (cm->ports, port) {
		if (port->rnic == rnic)
			return port;
	}
	return NULL;
}

static int listen_with_all(struct cm_port *port, char *ret_error)
{
	struct cm_listener *listener;
	DL_FOREACH (port->cm->listeners, listener) {
		int error = port->kind->listen(port, listener, ret_error);
		if (error)
			return error;
	}
	return 0;
}

static void close_port(struct cm_port *port)
{
	struct cm_listener *listener;
	DL_FOREACH (port->cm->listeners, listener)
		port->kind->unlisten(port, listener);
	if (port->kind->add_stats)
		port->kind->add_stats(port, &port->cm->stats);
	port->kind->close(port);
	free(port);
}

int cm_add_rnic(struct cm *cm, struct rnic *rnic, char ret_error[CM_ERROR_LEN])
{
	struct rnic_info info;
	if (cm_has_rnic(cm, rnic))
		return 0;
	struct cm_port *port = calloc(1, sizeof(*port));
	rnic_get_info(rnic, &info);
	if (!port) {
		snprintf(ret_error, CM_ERROR_LEN, "rnic %s: out of memory", info.name);
		return -ENOMEM;
	}
	port->cm = cm;
	port->rnic = rnic;
	port->kind = info.kind == RNIC_SOFT ? &cm_soft_kind : &cm_verbs_kind;
	int error = port->kind->open(port, ret_error);
	if (error) {
		free(port);
		return error;
	}
	error = listen_with_all(port, ret_error);
	if (error) {
		close_port(port);
		return error;
	}
	DL_APPEND(cm->ports, port);
	return 0;
}

void cm_remove_rnic(struct cm *cm, struct rnic *rnic)
{
	struct cm_port *port = find_port(cm, rnic);
	if (!port)
		return;
	DL_DELETE(cm->ports, port);
	if (port->kind->leave)
		port->kind->leave(port);
	cm_conns_of_port_end(port);
	close_port(port);
}

void cm_rnic_changed(struct cm *cm, struct rnic *rnic)
{
	struct cm_port *port = find_port(cm, rnic);
	if (port)
		port->kind->changed(port);
}

bool cm_has_rnic(const struct cm *cm, const struct rnic *rnic)
{
	return find_port(cm, rnic) != NULL;
}

bool cm_may_use(const struct cm_port *port, const struct cm_addr *local, const struct cm_addr *peer)
{
	const struct cm_params *params = &port->cm->params;
	return !params->may_use || params->may_use(params->ctx, port->rnic, local, peer);
}

/* ---- listeners */

/* Do two listeners want the same requests? One of an address and one of all addresses do not: the
 * first one gets the requests to its address, as with TCP of a program that asks for that. */
static bool same_place(const struct cm_addr *a, const struct cm_addr *b)
{
	return a->port == b->port && cm_addr_equal(a, b);
}

struct cm_listener *cm_listener_find(struct cm *cm, const struct cm_addr *local)
{
	struct cm_listener *listener, *any = NULL;
	DL_FOREACH (cm->listeners, listener) {
		if (listener->local.port != local->port)
			continue;
		if (cm_addr_equal(&listener->local, local))
			return listener;
		/* One of all IPv6 addresses has those of IPv4 too, as with TCP. */
		if (cm_addr_is_any(&listener->local) &&
		    (listener->local.family == local->family || listener->local.family == AF_INET6))
			any = listener;
	}
	return any;
}

static int listen_everywhere(struct cm_listener *listener, char *ret_error)
{
	struct cm_port *port;
	DL_FOREACH (listener->cm->ports, port) {
		int error = port->kind->listen(port, listener, ret_error);
		if (error)
			return error;
	}
	return 0;
}

static void unlisten_everywhere(struct cm_listener *listener)
{
	struct cm_port *port;
	DL_FOREACH (listener->cm->ports, port)
		port->kind->unlisten(port, listener);
}

static int check_place(const struct cm *cm, const struct cm_addr *local, char *ret_error)
{
	char text[CM_ADDR_LEN];
	const struct cm_listener *other;
	if (local->port == 0 || (local->family != AF_INET && local->family != AF_INET6)) {
		snprintf(ret_error, CM_ERROR_LEN,
			 "cannot listen for RDMA connections: an IP address and a port are needed");
		return -EINVAL;
	}
	DL_FOREACH (cm->listeners, other) {
		if (!same_place(&other->local, local))
			continue;
		snprintf(ret_error, CM_ERROR_LEN,
			 "cannot listen for RDMA connections at %s: smcrd listens there already",
			 cm_addr_text(local, text));
		return -EADDRINUSE;
	}
	return 0;
}

int cm_listen(struct cm *cm, const struct cm_addr *local, cm_event_fn *fn, void *ctx,
	      struct cm_listener **ret_listener, char ret_error[CM_ERROR_LEN])
{
	int error = check_place(cm, local, ret_error);
	if (error)
		return error;
	struct cm_listener *listener = calloc(1, sizeof(*listener));
	if (!listener) {
		snprintf(ret_error, CM_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	listener->cm = cm;
	listener->local = *local;
	listener->fn = fn;
	listener->ctx = ctx;
	error = listen_everywhere(listener, ret_error);
	if (error) {
		unlisten_everywhere(listener);
		free(listener);
		return error;
	}
	DL_APPEND(cm->listeners, listener);
	*ret_listener = listener;
	return 0;
}

void cm_listener_free(struct cm_listener *listener)
{
	if (!listener)
		return;
	DL_DELETE(listener->cm->listeners, listener);
	cm_conns_of_listener_refuse(listener);
	unlisten_everywhere(listener);
	free(listener);
}

/* ---- connections */

static int check_offer(const struct cm_offer *offer, size_t most, char *ret_error)
{
	if (offer->private_len > most)
		snprintf(ret_error, CM_ERROR_LEN, "%zu bytes of private data, of %zu that fit",
			 offer->private_len, most);
	else if (offer->rnr_retry > 7)
		snprintf(ret_error, CM_ERROR_LEN, "%u RNR retries, of 7 that there are",
			 offer->rnr_retry);
	else
		return 0;
	return -EINVAL;
}

int cm_connect(struct cm *cm, const struct cm_connect_params *params, struct cm_conn **ret_conn,
	       char ret_error[CM_ERROR_LEN])
{
	char text[CM_ADDR_LEN];
	struct cm_port *port = find_port(cm, params->rnic);
	int error = check_offer(&params->offer, CM_REQUEST_PRIVATE_MAX, ret_error);
	if (error)
		return error;
	if (!port) {
		snprintf(ret_error, CM_ERROR_LEN,
			 "the RNIC is gone, or its connection manager cannot be used");
		return -ENODEV;
	}
	struct cm_addr asks = params->local;
	asks.port = 0;
	if (!cm_may_use(port, &asks, &params->peer)) {
		snprintf(ret_error, CM_ERROR_LEN, "a rule denies RDMA connections with %s",
			 cm_addr_text(&params->peer, text));
		return -EACCES;
	}
	if (!cm_conn_has_room(cm, &params->peer, false)) {
		cm->stats.limited++;
		snprintf(ret_error, CM_ERROR_LEN, "too many RDMA connections, or too many with %s",
			 cm_addr_text(&params->peer, text));
		return -EAGAIN;
	}
	struct cm_conn *conn = cm_conn_new(port, &params->local, &params->peer, true);
	if (!conn) {
		snprintf(ret_error, CM_ERROR_LEN, "out of memory");
		return -ENOMEM;
	}
	conn->fn = params->fn;
	conn->ctx = params->ctx;
	conn->qp = params->qp;
	conn->view.local_qpn = rnic_qp_num(params->qp);
	conn->retry_ms = params->retry_ms;
	error = port->kind->connect(conn, params, ret_error);
	if (error) {
		cm_conn_undo(conn);
		return error;
	}
	*ret_conn = conn;
	return 0;
}

int cm_accept(struct cm_conn *conn, struct rnic_qp *qp, const struct cm_offer *offer,
	      unsigned int retry_ms, cm_event_fn *fn, void *ctx, char ret_error[CM_ERROR_LEN])
{
	int error = check_offer(offer, CM_ACCEPT_PRIVATE_MAX, ret_error);
	if (error)
		return error;
	if (conn->view.state != CM_STATE_ASKED || !conn->own) {
		snprintf(ret_error, CM_ERROR_LEN, "the peer does not wait any more");
		return -ENOTCONN;
	}
	conn->qp = qp;
	conn->retry_ms = retry_ms;
	error = conn->port->kind->accept(conn, offer, ret_error);
	if (error) {
		conn->qp = NULL;
		return error;
	}
	conn->view.local_qpn = rnic_qp_num(qp);
	conn->fn = fn;
	conn->ctx = ctx;
	conn->listener->waiting -= conn->waiting;
	conn->listener->accepted++;
	conn->waiting = false;
	conn->listener = NULL;
	if (conn->view.state == CM_STATE_ASKED)
		cm_conn_set_state(conn, CM_STATE_ACCEPTING);
	return 0;
}

void cm_conn_heard(struct cm_conn *conn)
{
	if (conn->own && conn->view.state == CM_STATE_ACCEPTING)
		conn->port->kind->heard(conn);
}

struct rnic *cm_conn_rnic(const struct cm_conn *conn)
{
	return conn->port ? conn->port->rnic : NULL;
}

void cm_conn_addrs(const struct cm_conn *conn, struct cm_addr *ret_local, struct cm_addr *ret_peer)
{
	*ret_local = conn->view.local;
	*ret_peer = conn->view.peer;
}

void cm_set_tap(struct cm *cm, void (*fn)(void *ctx, const struct cm_message *message), void *ctx)
{
	cm->tap = fn;
	cm->tap_ctx = ctx;
}
