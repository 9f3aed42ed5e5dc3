/* SPDX-License-Identifier: MIT */
/* Verbs devices: the kernel's rdma_cm has the messages, and tells with which numbers queue pairs
 * have to be connected. Its ids have no queue pairs of their own: those are the RNIC's. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/cm/kernel.h"
#include "daemon/host/log.h"
#include "daemon/rnic/alarm.h"
#include "proto/ibcm/ibcm.h"
#include "proto/ibcm/text.h"

/* How long the kernel looks for the peer's MAC, and then for a route, which it has at once. */
#define RESOLVE_MS 2000
#define TIMEOUT_MS 20000 /* as cm.h tells */
#define BACKLOG    64

/** A listener at one address of an RNIC. */
struct place {
	struct cm_kernel_id id;
	struct cm_listener *listener;
	struct cm_addr addr;
	struct place *prev, *next;
};

/** An RNIC. */
struct verbs {
	struct place *places;
};

/** A connection. */
struct link {
	struct cm_kernel_id id;
	struct cm_conn *conn;
	struct rdma_conn_param param; /* what this side offers */
	uint8_t private_data[CM_ACCEPT_PRIVATE_MAX];
	/** Of a request: RDMA READs that the peer answers, and wants to have under way. */
	uint8_t peer_answers, peer_asks;
	struct alarm *alarm; /* to give up */
};

static struct verbs *verbs_of(const struct cm_port *port)
{
	return port->own;
}

static struct link *link_of(const struct cm_conn *conn)
{
	return conn->own;
}

static uint8_t smaller(unsigned int a, unsigned int b)
{
	return (uint8_t)(a < b ? a : b);
}

/* ---- connections that end */

static void link_free(struct link *link)
{
	cm_kernel_id_end(&link->id);
	alarm_free(link->alarm);
	link->conn->own = NULL;
	free(link);
}

static void end(struct link *link, enum cm_end end, uint16_t reason, const struct cm_note *note,
		const char *text)
{
	struct cm_conn *conn = link->conn;
	cm_view_refresh(conn);
	link_free(link);
	cm_conn_end(conn, end, reason, note, text);
}

static void end_with_error(struct link *link, enum cm_end how, const char *what, int error)
{
	char text[CM_ERROR_LEN];
	snprintf(text, sizeof(text), "%s: %s", what, strerror(error < 0 ? -error : error));
	end(link, how, 0, NULL, text);
}

static void on_timeout(void *ctx)
{
	struct link *link = ctx;
	(void)cm_at_work(link->conn->cm);
	if (link->conn->view.state == CM_STATE_ENDING)
		end(link, CM_END_DISCONNECTED, 0, NULL,
		    "this host has ended it, and the peer did not answer");
	else
		end(link, CM_END_TIMEOUT, 0, NULL, "the peer did not answer in time");
}

static struct link *link_new(struct cm_conn *conn,
			     void (*on_event)(struct cm_kernel_id *, const struct rdma_cm_event *))
{
	struct link *link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->id = (struct cm_kernel_id){ .port = conn->port, .on_event = on_event };
	link->conn = conn;
	if (alarm_new(conn->cm->params.base, on_timeout, link, &link->alarm)) {
		free(link);
		return NULL;
	}
	conn->own = link;
	return link;
}

static struct cm_note note_of(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct cm_note note = { .private_len = param->private_data_len };
	if (note.private_len)
		memcpy(note.private_data, param->private_data, note.private_len);
	return note;
}

static void on_rejected(struct link *link, const struct rdma_cm_event *event)
{
	const struct cm_note note = note_of(event);
	const uint16_t reason = (uint16_t)(event->status < 0 ? 0 : event->status);
	char text[CM_ERROR_LEN];
	switch (reason) {
	case IBCM_REJ_INVALID_SERVICE_ID:
		end(link, CM_END_NO_LISTENER, reason, NULL, "nobody listens on the peer's port");
		return;
	case IBCM_REJ_CONSUMER:
		end(link, CM_END_REFUSED, reason, &note, "the peer's program has refused it");
		return;
	default:
		snprintf(text, sizeof(text),
			 "the peer's connection manager has refused it: %s (REJ %u)",
			 ibcm_reject_text(reason), reason);
		end(link, CM_END_PEER_REFUSED, reason, NULL, text);
	}
}

static void on_disconnected(struct link *link)
{
	const bool own = link->conn->view.state == CM_STATE_ENDING;
	if (!own)
		rdma_disconnect(link->id.id); /* answers the peer */
	end(link, own ? CM_END_DISCONNECTED : CM_END_PEER_DISCONNECTED, 0, NULL,
	    own ? "this host has ended it" : "the peer has ended it");
}

/* ---- queue pairs */

/* What the kernel has agreed on, for one state of a queue pair. */
static int ask_kernel(const struct link *link, enum ibv_qp_state state,
		      struct ibv_qp_attr *ret_attr)
{
	int mask;
	*ret_attr = (struct ibv_qp_attr){ .qp_state = state };
	return cm_kernel_result(rdma_init_qp_attr(link->id.id, ret_attr, &mask));
}

static int qp_connect(struct link *link, const struct rnic_info *info)
{
	struct cm_conn *conn = link->conn;
	struct ibv_qp_attr attr;
	const int index = cm_gid_index(info, &conn->view.local);
	int error = ask_kernel(link, IBV_QPS_RTR, &attr);
	if (error)
		return error;
	if (index < 0)
		return -EADDRNOTAVAIL;
	struct rnic_qp_peer peer = { .qpn = attr.dest_qp_num,
				     .rq_psn = attr.rq_psn & 0xFFFFFF,
				     .path_mtu = (uint8_t)attr.path_mtu,
				     .sgid_index = (uint8_t)index,
				     .reads_answered = link->param.responder_resources };
	cm_addr_to_gid(&conn->view.peer, peer.gid);
	conn->view.peer_qpn = peer.qpn;
	conn->view.path_mtu = peer.path_mtu;
	return rnic_qp_connect(conn->qp, &peer);
}

static int qp_start(struct link *link)
{
	struct ibv_qp_attr attr;
	int error = ask_kernel(link, IBV_QPS_RTS, &attr);
	if (error)
		return error;
	const struct rnic_qp_send_params params = { .sq_psn = attr.sq_psn & 0xFFFFFF,
						    .retry_ms = link->conn->retry_ms,
						    .rnr_retry = attr.rnr_retry,
						    .reads_asked = link->param.initiator_depth };
	return rnic_qp_start(link->conn->qp, &params);
}

static int make_ready(struct link *link)
{
	struct rnic_info info;
	rnic_get_info(link->conn->port->rnic, &info);
	int error = qp_connect(link, &info);
	return error ? error : qp_start(link);
}

/* ---- the active side */

/* Is the id bound to the RNIC? The kernel chooses a device by the addresses. */
static bool is_own_device(const struct link *link)
{
	char name[RNIC_NAME_LEN];
	struct rnic_info info;
	const struct rdma_cm_id *id = link->id.id;
	rnic_get_info(link->conn->port->rnic, &info);
	if (!id->verbs)
		return false;
	snprintf(name, sizeof(name), "verbs:%s/%u", ibv_get_device_name(id->verbs->device),
		 id->port_num);
	return !strcmp(name, info.name);
}

static void on_addr_resolved(struct link *link)
{
	struct cm_addr local;
	if (!is_own_device(link)) {
		end(link, CM_END_LOCAL, 0, NULL,
		    "the kernel reaches the peer by another RDMA device");
		return;
	}
	cm_from_sockaddr(rdma_get_local_addr(link->id.id), &local);
	link->conn->view.local = local;
	int error = cm_kernel_result(rdma_resolve_route(link->id.id, RESOLVE_MS));
	if (error)
		end_with_error(link, CM_END_LOCAL, "cannot resolve the route", error);
}

static void on_route_resolved(struct link *link)
{
	int error = cm_kernel_result(rdma_connect(link->id.id, &link->param));
	if (error)
		end_with_error(link, CM_END_LOCAL, "cannot ask the peer", error);
}

/* One that ends already was told by the kernel before it heard of that. */
static void up(struct link *link, const struct cm_note *note)
{
	if (link->conn->view.state != CM_STATE_ENDING)
		alarm_clear(link->alarm);
	cm_conn_up(link->conn, note);
}

/* The queue pair takes data before the peer learns that it may send (RTU), and sends none before
 * (CM-31). */
static void on_response(struct link *link, const struct rdma_cm_event *event)
{
	struct cm_note note = note_of(event);
	link->param.initiator_depth =
		smaller(link->param.initiator_depth, event->param.conn.initiator_depth);
	note.reads_answered = link->param.responder_resources;
	note.reads_asked = link->param.initiator_depth;
	int error = make_ready(link);
	if (error)
		rdma_reject(link->id.id, NULL, 0);
	else
		error = cm_kernel_result(rdma_establish(link->id.id));
	if (error)
		end_with_error(link, CM_END_LOCAL, "cannot connect the queue pair", error);
	else
		up(link, &note);
}

static void on_active_event(struct cm_kernel_id *id, const struct rdma_cm_event *event)
{
	struct link *link = (struct link *)id;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: on_addr_resolved(link); break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: on_route_resolved(link); break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE: on_response(link, event); break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		end_with_error(link, CM_END_TIMEOUT, "the host does not find the peer",
			       event->status);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		end_with_error(link, CM_END_LOCAL, "the kernel cannot connect", event->status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE: on_timeout(link); break;
	case RDMA_CM_EVENT_REJECTED: on_rejected(link, event); break;
	case RDMA_CM_EVENT_DISCONNECTED: on_disconnected(link); break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		end(link, CM_END_LOCAL, 0, NULL, "its RNIC is gone");
		break;
	default: break;
	}
}

static int resolve(struct link *link, const struct cm_connect_params *params)
{
	union cm_sockaddr local, peer;
	cm_to_sockaddr(&params->local, &local);
	cm_to_sockaddr(&params->peer, &peer);
	int error = cm_kernel_id_new(link->conn->cm, &link->id);
	if (error)
		return error;
	return cm_kernel_result(rdma_resolve_addr(link->id.id, &local.any, &peer.any, RESOLVE_MS));
}

static void keep_offer(struct link *link, const struct cm_offer *offer)
{
	struct rnic_info info;
	rnic_get_info(link->conn->port->rnic, &info);
	if (offer->private_len)
		memcpy(link->private_data, offer->private_data, offer->private_len);
	link->param = (struct rdma_conn_param){
		.private_data = link->private_data,
		.private_data_len = (uint8_t)offer->private_len,
		.responder_resources = smaller(offer->reads_answered, info.max_reads_answered),
		.initiator_depth = smaller(offer->reads_asked, info.max_reads_asked),
		.retry_count = 7,
		.rnr_retry_count = offer->rnr_retry,
		.qp_num = rnic_qp_num(link->conn->qp),
	};
}

static int say(const struct cm_conn *conn, int error, const char *what, char *ret_error)
{
	char text[CM_ADDR_LEN];
	if (error)
		snprintf(ret_error, CM_ERROR_LEN, "rnic %s: cannot %s %s: %s", conn->view.rnic,
			 what, cm_addr_text(&conn->view.peer, text), strerror(-error));
	return error;
}

static int verbs_connect(struct cm_conn *conn, const struct cm_connect_params *params,
			 char ret_error[CM_ERROR_LEN])
{
	struct link *link = link_new(conn, on_active_event);
	if (!link)
		return say(conn, -ENOMEM, "connect to", ret_error);
	keep_offer(link, &params->offer);
	const uint64_t timeout_ms = params->timeout_ms ? params->timeout_ms : TIMEOUT_MS;
	int error = resolve(link, params);
	if (error)
		link_free(link);
	else
		alarm_set(link->alarm, alarm_now() + timeout_ms * 1000);
	return say(conn, error, "connect to", ret_error);
}

/* ---- the passive side */

static void on_passive_event(struct cm_kernel_id *id, const struct rdma_cm_event *event)
{
	struct link *link = (struct link *)id;
	struct cm_note note = { .reads_answered = link->param.responder_resources,
				.reads_asked = link->param.initiator_depth };
	switch (event->event) {
	case RDMA_CM_EVENT_ESTABLISHED: up(link, &note); break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		end_with_error(link, CM_END_LOCAL, "the kernel cannot connect", event->status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE: on_timeout(link); break;
	case RDMA_CM_EVENT_REJECTED: on_rejected(link, event); break;
	case RDMA_CM_EVENT_DISCONNECTED: on_disconnected(link); break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		end(link, CM_END_LOCAL, 0, NULL, "its RNIC is gone");
		break;
	default: break;
	}
}

/* A request that no user is asked about. */
static void refuse(const struct place *place, struct rdma_cm_id *id, const struct cm_addr *peer,
		   const char *why)
{
	cm_kernel_refuse(place->id.port->cm, id);
	place->id.port->cm->stats.refused++;
	cm_tell_refused(place->id.port, &place->addr, peer, why);
}

static void on_request(struct place *place, const struct rdma_cm_event *event)
{
	struct cm_port *port = place->id.port;
	struct cm_addr local, peer;
	cm_from_sockaddr(rdma_get_local_addr(event->id), &local);
	cm_from_sockaddr(rdma_get_peer_addr(event->id), &peer);
	if (!cm_may_use(port, &local, &peer)) {
		refuse(place, event->id, &peer, "a rule denies it");
		return;
	}
	if (!cm_conn_has_room(port->cm, &peer, true)) {
		port->cm->stats.limited++;
		refuse(place, event->id, &peer, "too many connections, or too many with this peer");
		return;
	}
	struct cm_conn *conn = cm_conn_new(port, &local, &peer, false);
	struct link *link = conn ? link_new(conn, on_passive_event) : NULL;
	if (!link) {
		if (conn)
			cm_conn_undo(conn);
		refuse(place, event->id, &peer, "out of memory");
		return;
	}
	const struct rdma_conn_param *param = &event->param.conn;
	struct rnic_info info;
	rnic_get_info(port->rnic, &info);
	struct cm_note note = note_of(event);
	link->peer_answers = param->initiator_depth;
	link->peer_asks = param->responder_resources;
	note.reads_asked = smaller(param->initiator_depth, info.max_reads_asked);
	note.reads_answered = smaller(param->responder_resources, info.max_reads_answered);
	conn->view.peer_qpn = param->qp_num;
	cm_kernel_id_take(&link->id, event->id);
	cm_conn_ask(conn, place->listener, &note);
}

/* Its queue pair takes requests before the peer knows of it (CM-16). */
static int verbs_accept(struct cm_conn *conn, const struct cm_offer *offer,
			char ret_error[CM_ERROR_LEN])
{
	struct link *link = link_of(conn);
	keep_offer(link, offer);
	link->param.responder_resources = smaller(link->param.responder_resources, link->peer_asks);
	link->param.initiator_depth = smaller(link->param.initiator_depth, link->peer_answers);
	int error = make_ready(link);
	if (!error)
		error = cm_kernel_result(rdma_accept(link->id.id, &link->param));
	if (!error)
		alarm_set(link->alarm, alarm_now() + (uint64_t)TIMEOUT_MS * 1000);
	return say(conn, error, "accept", ret_error);
}

static void verbs_reject(struct cm_conn *conn, const void *private_data, size_t private_len)
{
	struct link *link = link_of(conn);
	rdma_reject(link->id.id, private_data, (uint8_t)private_len);
	conn->cm->stats.refused++;
	link_free(link);
}

/* CM-17 */
static void verbs_heard(struct cm_conn *conn)
{
	rdma_notify(link_of(conn)->id.id, IBV_EVENT_COMM_EST);
}

/* What is not connected yet has nobody to wait for. */
static void verbs_disconnect(struct cm_conn *conn)
{
	struct link *link = link_of(conn);
	int error = cm_kernel_result(rdma_disconnect(link->id.id));
	if (error)
		end(link, CM_END_DISCONNECTED, 0, NULL, "this host has ended it");
	else
		alarm_set(link->alarm, alarm_now() + (uint64_t)TIMEOUT_MS * 1000);
}

static void verbs_drop(struct cm_conn *conn)
{
	struct link *link = link_of(conn);
	if (conn->view.state == CM_STATE_CONNECTED)
		rdma_disconnect(link->id.id);
	link_free(link);
}

static void verbs_refresh(struct cm_conn *conn)
{
	const struct link *link = link_of(conn);
	if (conn->view.state == CM_STATE_ASKED)
		return;
	conn->view.reads_answered = link->param.responder_resources;
	conn->view.reads_asked = link->param.initiator_depth;
}

/* ---- listeners */

static void place_free(struct verbs *verbs, struct place *place)
{
	DL_DELETE(verbs->places, place);
	cm_kernel_id_end_listening(&place->id);
	free(place);
}

static void on_place_event(struct cm_kernel_id *id, const struct rdma_cm_event *event)
{
	struct place *place = (struct place *)id;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(place, event);
	else if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		place_free(verbs_of(place->id.port), place);
}

static struct place *find_place(const struct verbs *verbs, const struct cm_listener *listener,
				const struct cm_addr *addr)
{
	struct place *place;
	DL_FOREACH (verbs->places, place) {
		if (place->listener == listener && cm_addr_equal(&place->addr, addr))
			return place;
	}
	return NULL;
}

static int explain_place(const struct rnic_info *info, const struct cm_addr *addr, int error,
			 char *ret_error)
{
	char text[CM_ADDR_LEN];
	const char *why = strerror(-error);
	if (error == -EADDRINUSE)
		why = "another program listens there";
	else if (error == -EACCES)
		why = "such a low port takes CAP_NET_BIND_SERVICE, or a lower "
		      "net.ipv4.ip_unprivileged_port_start";
	snprintf(ret_error, CM_ERROR_LEN, "rnic %s: cannot listen for RDMA connections at %s: %s",
		 info->name, cm_addr_text(addr, text), why);
	return error;
}

static int place_add(struct cm_port *port, struct cm_listener *listener, const struct cm_addr *addr)
{
	union cm_sockaddr sockaddr;
	struct verbs *verbs = verbs_of(port);
	struct place *place = calloc(1, sizeof(*place));
	if (!place)
		return -ENOMEM;
	place->id = (struct cm_kernel_id){ .port = port, .on_event = on_place_event };
	place->listener = listener;
	place->addr = *addr;
	DL_APPEND(verbs->places, place);
	cm_to_sockaddr(addr, &sockaddr);
	int error = cm_kernel_id_new(port->cm, &place->id);
	if (!error)
		error = cm_kernel_result(rdma_bind_addr(place->id.id, &sockaddr.any));
	if (!error)
		error = cm_kernel_result(rdma_listen(place->id.id, BACKLOG));
	if (error)
		place_free(verbs, place);
	/* So the kernel says that somebody listens at all addresses. */
	return error == -EADDRNOTAVAIL ? -EADDRINUSE : error;
}

static bool is_link_local(const struct cm_addr *addr)
{
	return addr->family == AF_INET6 && addr->addr[0] == 0xFE && (addr->addr[1] & 0xC0) == 0x80;
}

static bool wants(const struct cm_listener *listener, const struct cm_addr *addr)
{
	const struct cm_addr *local = &listener->local;
	if (cm_addr_is_any(local))
		return local->family == addr->family || local->family == AF_INET6;
	return cm_addr_equal(local, addr);
}

/* Listen at those addresses that the RNIC has now, at each once: the kernel's own "all addresses"
 * would be those of other RNICs too. */
static int verbs_listen(struct cm_port *port, struct cm_listener *listener,
			char ret_error[CM_ERROR_LEN])
{
	struct rnic_info info;
	rnic_get_info(port->rnic, &info);
	for (size_t i = 0; i < info.num_gids; i++) {
		struct cm_addr addr = { .port = listener->local.port };
		cm_addr_from_gid(info.gids[i].raw, &addr);
		if (is_link_local(&addr) || !wants(listener, &addr) ||
		    find_place(verbs_of(port), listener, &addr))
			continue;
		int error = place_add(port, listener, &addr);
		if (error)
			return explain_place(&info, &addr, error, ret_error);
	}
	return 0;
}

static void verbs_unlisten(struct cm_port *port, struct cm_listener *listener)
{
	struct verbs *verbs = verbs_of(port);
	struct place *place, *next;
	DL_FOREACH_SAFE (verbs->places, place, next) {
		if (place->listener == listener)
			place_free(verbs, place);
	}
}

/* ---- RNICs */

static int verbs_open(struct cm_port *port, char ret_error[CM_ERROR_LEN])
{
	struct rnic_info info;
	rnic_get_info(port->rnic, &info);
	struct verbs *verbs = calloc(1, sizeof(*verbs));
	if (!verbs) {
		snprintf(ret_error, CM_ERROR_LEN, "rnic %s: out of memory", info.name);
		return -ENOMEM;
	}
	int error = cm_kernel_open(port->cm, info.name, ret_error);
	if (error) {
		free(verbs);
		return error;
	}
	port->own = verbs;
	return 0;
}

static void verbs_close(struct cm_port *port)
{
	struct verbs *verbs = verbs_of(port);
	while (verbs->places)
		place_free(verbs, verbs->places);
	cm_kernel_close(port->cm);
	port->own = NULL;
	free(verbs);
}

/* Addresses have come or gone. */
static void verbs_changed(struct cm_port *port)
{
	struct verbs *verbs = verbs_of(port);
	struct rnic_info info;
	struct place *place, *next;
	struct cm_listener *listener;
	char text[CM_ERROR_LEN];
	rnic_get_info(port->rnic, &info);
	DL_FOREACH_SAFE (verbs->places, place, next) {
		if (cm_gid_index(&info, &place->addr) < 0)
			place_free(verbs, place);
	}
	DL_FOREACH (port->cm->listeners, listener) {
		if (verbs_listen(port, listener, text))
			log_message(LOG_WARNING, "%s", text);
	}
}

const struct cm_kind cm_verbs_kind = {
	.open = verbs_open,
	.close = verbs_close,
	.changed = verbs_changed,
	.listen = verbs_listen,
	.unlisten = verbs_unlisten,
	.connect = verbs_connect,
	.accept = verbs_accept,
	.reject = verbs_reject,
	.heard = verbs_heard,
	.disconnect = verbs_disconnect,
	.drop = verbs_drop,
	.refresh = verbs_refresh,
};
