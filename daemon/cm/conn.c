/* SPDX-License-Identifier: MIT */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/cm/internal.h"
#include "daemon/rnic/alarm.h"
#include "proto/ibcm/ibcm.h"

/* ---- limits */

/* What peers have asked for and what this side has are counted apart, so that no flood of requests
 * keeps this side from asking. Connections that have ended and whose users have not freed them are
 * counted apart, too: those that make room for a request are of that kind for a moment. */
bool cm_conn_has_room(const struct cm *cm, const struct cm_addr *peer, bool request)
{
	const struct cm_limits *limits = &cm->params.limits;
	const struct cm_conn *conn;
	unsigned int all = 0, ended = 0, of_peer = 0, requests = 0;
	DL_FOREACH (cm->conns, conn) {
		if (conn->view.active == request)
			continue;
		if (conn->view.state == CM_STATE_ENDED) {
			ended++;
			continue;
		}
		all++;
		if (!cm_addr_equal(&conn->view.peer, peer))
			continue;
		of_peer++;
		requests += conn->view.state == CM_STATE_ASKED;
	}
	return all < limits->conns && ended < limits->conns && of_peer < limits->conns_per_peer &&
	       requests < limits->requests_per_peer;
}

/* ---- life */

struct cm_conn *cm_conn_new(struct cm_port *port, const struct cm_addr *local,
			    const struct cm_addr *peer, bool active)
{
	struct cm *cm = port->cm;
	struct rnic_info info;
	struct cm_conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return NULL;
	rnic_get_info(port->rnic, &info);
	memcpy(conn->view.rnic, info.name, sizeof(conn->view.rnic));
	conn->cm = cm;
	conn->port = port;
	conn->view.number = ++cm->next_number;
	conn->view.state = active ? CM_STATE_ASKING : CM_STATE_ASKED;
	conn->view.active = active;
	conn->view.local = *local;
	conn->view.peer = *peer;
	conn->view.age_us = conn->view.idle_us = alarm_now();
	DL_PREPEND(cm->conns, conn);
	cm->num_conns++;
	return conn;
}

void cm_conn_set_state(struct cm_conn *conn, enum cm_state state)
{
	conn->view.state = state;
	conn->view.idle_us = alarm_now();
}

void cm_conn_undo(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;
	if (conn->listener)
		conn->listener->waiting -= conn->waiting;
	if (conn->due)
		DL_DELETE2(cm->due, conn, due_prev, due_next);
	DL_DELETE(cm->conns, conn);
	cm->num_conns--;
	free(conn);
}

/* Count the end once. */
static void count_end(struct cm_conn *conn)
{
	struct cm_stats *stats = &conn->cm->stats;
	if (conn->view.state == CM_STATE_CONNECTED)
		stats->disconnected++;
	else if (conn->view.state != CM_STATE_ENDING)
		stats->failed++;
}

static void tell_operators(const struct cm_conn *conn, enum cm_told_what what, const char *text)
{
	const struct cm_params *params = &conn->cm->params;
	const struct cm_told told = { .what = what,
				      .rnic = conn->view.rnic,
				      .active = conn->view.active,
				      .local = conn->view.local,
				      .peer = conn->view.peer,
				      .end = conn->view.end,
				      .text = text };
	if (params->told)
		params->told(params->ctx, &told);
}

static void drop(struct cm_conn *conn)
{
	if (!conn->own)
		return;
	cm_view_refresh(conn);
	conn->port->kind->drop(conn);
}

/* A user lets go of it: what has not ended until now ends without an event. */
static void forget(struct cm_conn *conn, enum cm_end end, const char *text)
{
	drop(conn);
	if (conn->view.state != CM_STATE_ENDED) {
		count_end(conn);
		conn->view.end = end;
		cm_conn_set_state(conn, CM_STATE_ENDED);
		snprintf(conn->view.text, sizeof(conn->view.text), "%s", text);
		tell_operators(conn, end == CM_END_REJECTED ? CM_TOLD_REFUSED : CM_TOLD_ENDED,
			       text);
	}
	cm_view_keep(conn);
	cm_conn_undo(conn);
}

void cm_conn_free(struct cm_conn *conn)
{
	if (!conn)
		return;
	if (conn->view.state == CM_STATE_ASKED)
		cm_reject(conn, NULL, 0);
	else
		forget(conn, CM_END_DISCONNECTED, "this host has ended it");
}

void cm_reject(struct cm_conn *conn, const void *private_data, size_t private_len)
{
	if (private_len > CM_REJECT_PRIVATE_MAX)
		private_len = CM_REJECT_PRIVATE_MAX;
	if (conn->own && conn->view.state == CM_STATE_ASKED) {
		conn->port->kind->reject(conn, private_data, private_len);
		conn->view.reject_reason = IBCM_REJ_CONSUMER;
	}
	if (conn->listener)
		conn->listener->refused++;
	forget(conn, CM_END_REJECTED, "this host's program has refused it");
}

/* What the user was not told of yet is not so any more. */
static void not_connected(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;
	unsigned int left = 0;
	for (unsigned int i = 0; i < conn->num_notes; i++) {
		if (conn->notes[i].type != CM_CONNECTED)
			conn->notes[left++] = conn->notes[i];
	}
	conn->num_notes = left;
	if (conn->due && !left)
		DL_DELETE2(cm->due, conn, due_prev, due_next);
	conn->due = left > 0;
}

void cm_disconnect(struct cm_conn *conn)
{
	struct rnic_qp *qp = conn->qp;
	if (conn->view.state == CM_STATE_ENDED || conn->view.state == CM_STATE_ENDING)
		return;
	if (qp)
		rnic_qp_error(qp);
	not_connected(conn);
	if (!conn->own) {
		cm_conn_end(conn, CM_END_DISCONNECTED, 0, NULL, "this host has ended it");
		return;
	}
	conn->cm->stats.disconnected += conn->view.state == CM_STATE_CONNECTED;
	cm_conn_set_state(conn, CM_STATE_ENDING);
	conn->port->kind->disconnect(conn);
}

/* ---- events */

void cm_tell_refused(struct cm_port *port, const struct cm_addr *local, const struct cm_addr *peer,
		     const char *text)
{
	struct rnic_info info;
	struct cm_conn conn = { .cm = port->cm,
				.port = port,
				.view = { .state = CM_STATE_ENDED,
					  .end = CM_END_REJECTED,
					  .local = *local,
					  .peer = *peer } };
	rnic_get_info(port->rnic, &info);
	memcpy(conn.view.rnic, info.name, sizeof(conn.view.rnic));
	tell_operators(&conn, CM_TOLD_REFUSED, text);
}

static void add_note(struct cm_conn *conn, const struct cm_note *note, enum cm_event_type type)
{
	struct cm *cm = conn->cm;
	struct cm_note *to = &conn->notes[conn->num_notes];
	if (conn->num_notes == CM_MAX_NOTES)
		return;
	conn->num_notes++;
	*to = note ? *note : (struct cm_note){ 0 };
	to->type = type;
	if (!conn->due)
		DL_APPEND2(cm->due, conn, due_prev, due_next);
	conn->due = true;
	event_active(cm->deliver, EV_TIMEOUT, 0);
}

static void keep_of_peer(struct cm_conn *conn, const struct cm_note *note)
{
	memcpy(conn->view.private_data, note->private_data, sizeof(conn->view.private_data));
	conn->view.private_len = note->private_len;
	conn->view.reads_answered = note->reads_answered;
	conn->view.reads_asked = note->reads_asked;
}

void cm_conn_ask(struct cm_conn *conn, struct cm_listener *listener, const struct cm_note *note)
{
	conn->listener = listener;
	conn->waiting = true;
	listener->waiting++;
	listener->requests++;
	keep_of_peer(conn, note);
	add_note(conn, note, CM_REQUEST);
}

void cm_conn_up(struct cm_conn *conn, const struct cm_note *note)
{
	if (conn->view.state != CM_STATE_ASKING && conn->view.state != CM_STATE_ASKED &&
	    conn->view.state != CM_STATE_ACCEPTING)
		return;
	cm_conn_set_state(conn, CM_STATE_CONNECTED);
	conn->cm->stats.connected++;
	if (note->private_len || conn->view.active)
		keep_of_peer(conn, note);
	cm_view_refresh(conn);
	tell_operators(conn, CM_TOLD_CONNECTED, "");
	add_note(conn, note, CM_CONNECTED);
}

void cm_conn_end(struct cm_conn *conn, enum cm_end end, uint16_t reject_reason,
		 const struct cm_note *note, const char *text)
{
	if (conn->view.state == CM_STATE_ENDED)
		return;
	const bool unheard = conn->view.state == CM_STATE_ASKED && conn->num_notes > 0;
	count_end(conn);
	conn->view.end = end;
	conn->view.reject_reason = reject_reason;
	snprintf(conn->view.text, sizeof(conn->view.text), "%s", text);
	if (note) {
		memcpy(conn->view.private_data, note->private_data,
		       sizeof(conn->view.private_data));
		conn->view.private_len = note->private_len;
	}
	if (conn->qp)
		rnic_qp_error(conn->qp);
	conn->qp = NULL;
	cm_conn_set_state(conn, CM_STATE_ENDED);
	if (conn->listener)
		conn->listener->waiting -= conn->waiting;
	conn->waiting = false;
	cm_view_refresh(conn);
	tell_operators(conn, CM_TOLD_ENDED, text);
	if (unheard)
		forget(conn, end, text);
	else
		add_note(conn, note, CM_ENDED);
}

/* Give one note to the user, who may free the connection. */
static void tell(struct cm_conn *conn, const struct cm_note *note)
{
	cm_event_fn *fn = conn->fn ? conn->fn : conn->listener->fn;
	void *ctx = conn->fn ? conn->ctx : conn->listener->ctx;
	char text[CM_ERROR_LEN] = "";
	struct cm_event event = { .type = note->type,
				  .reads_answered = note->reads_answered,
				  .reads_asked = note->reads_asked,
				  .private_data = note->private_data,
				  .private_len = note->private_len };
	if (note->type == CM_ENDED) {
		memcpy(text, conn->view.text, sizeof(text));
		event.end = conn->view.end;
		event.reject_reason = conn->view.reject_reason;
		event.text = text;
	}
	fn(ctx, conn, &event);
}

/* Deliver the first note of a connection. */
static void deliver(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;
	const struct cm_note note = conn->notes[0];
	DL_DELETE2(cm->due, conn, due_prev, due_next);
	conn->num_notes--;
	memmove(conn->notes, conn->notes + 1, conn->num_notes * sizeof(conn->notes[0]));
	conn->due = conn->num_notes > 0;
	if (conn->due)
		DL_APPEND2(cm->due, conn, due_prev, due_next);
	tell(conn, &note);
}

void cm_conns_deliver(struct cm *cm)
{
	/* What comes during the callbacks has its turn when other events had theirs. */
	for (unsigned int turns = cm->num_conns; cm->due && turns > 0; turns--)
		deliver(cm->due);
	if (cm->due)
		event_active(cm->deliver, EV_TIMEOUT, 0);
}

/* ---- many at once */

/* A connection that has lost its RNIC, and whose user has to hear of that. */
static struct cm_conn *next_bereft(struct cm *cm)
{
	struct cm_conn *conn;
	DL_FOREACH2 (cm->due, conn, due_next) {
		if (!conn->port)
			return conn;
	}
	return NULL;
}

void cm_conns_of_port_end(struct cm_port *port)
{
	struct cm *cm = port->cm;
	struct cm_conn *conn, *next;
	DL_FOREACH_SAFE (cm->conns, conn, next) {
		if (conn->port != port)
			continue;
		drop(conn);
		conn->port = NULL;
		cm_conn_end(conn, CM_END_LOCAL, 0, NULL, "its RNIC is gone");
	}
	while ((conn = next_bereft(cm)))
		deliver(conn);
}

void cm_conns_of_listener_refuse(struct cm_listener *listener)
{
	struct cm_conn *conn, *next;
	DL_FOREACH_SAFE (listener->cm->conns, conn, next) {
		if (conn->listener == listener)
			cm_reject(conn, NULL, 0);
	}
}
