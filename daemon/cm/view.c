/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "daemon/cm/internal.h"
#include "daemon/rnic/alarm.h"

const char *cm_addr_text(const struct cm_addr *addr, char ret_text[CM_ADDR_LEN])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	inet_ntop(addr->family, addr->addr, ip, sizeof(ip));
	snprintf(ret_text, CM_ADDR_LEN, addr->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip,
		 addr->port);
	return ret_text;
}

const char *cm_state_name(enum cm_state state)
{
	switch (state) {
	case CM_STATE_ASKING: return "asking";
	case CM_STATE_ASKED: return "asked";
	case CM_STATE_ACCEPTING: return "accepting";
	case CM_STATE_CONNECTED: return "connected";
	case CM_STATE_ENDING: return "ending";
	case CM_STATE_ENDED: return "ended";
	}
	return "unknown";
}

const char *cm_end_name(enum cm_end end)
{
	switch (end) {
	case CM_END_NONE: return "";
	case CM_END_DISCONNECTED: return "disconnected";
	case CM_END_PEER_DISCONNECTED: return "peer-disconnected";
	case CM_END_NO_LISTENER: return "no-listener";
	case CM_END_REFUSED: return "refused";
	case CM_END_PEER_REFUSED: return "peer-refused";
	case CM_END_REJECTED: return "rejected";
	case CM_END_TIMEOUT: return "timeout";
	case CM_END_LOCAL: return "local";
	}
	return "unknown";
}

void cm_view_refresh(struct cm_conn *conn)
{
	if (conn->own)
		conn->port->kind->refresh(conn);
}

/* The moments in a view become times since then. */
static struct cm_conn_view aged(struct cm_conn_view view, uint64_t now)
{
	view.age_us = now - view.age_us;
	view.idle_us = now - view.idle_us;
	return view;
}

void cm_view_keep(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;
	cm->history[cm->forgotten++ % CM_HISTORY] = conn->view;
}

void cm_each_listener(struct cm *cm, void (*fn)(void *arg, const struct cm_listener_view *view),
		      void *arg)
{
	const struct cm_listener *listener;
	DL_FOREACH (cm->listeners, listener) {
		const struct cm_listener_view view = { .local = listener->local,
						       .requests = listener->requests,
						       .accepted = listener->accepted,
						       .refused = listener->refused,
						       .waiting = listener->waiting };
		fn(arg, &view);
	}
}

void cm_each_conn(struct cm *cm, bool (*fn)(void *arg, const struct cm_conn_view *view), void *arg)
{
	const uint64_t now = alarm_now();
	const uint64_t kept = cm->forgotten < CM_HISTORY ? cm->forgotten : CM_HISTORY;
	struct cm_conn *conn;
	struct cm_conn_view view;
	for (int ended = 0; ended < 2; ended++) {
		DL_FOREACH (cm->conns, conn) {
			if ((conn->view.state == CM_STATE_ENDED) != ended)
				continue;
			cm_view_refresh(conn);
			view = aged(conn->view, now);
			if (!fn(arg, &view))
				return;
		}
	}
	for (uint64_t i = 1; i <= kept; i++) {
		view = aged(cm->history[(cm->forgotten - i) % CM_HISTORY], now);
		if (!fn(arg, &view))
			return;
	}
}

void cm_get_stats(const struct cm *cm, struct cm_stats *ret_stats)
{
	const struct cm_port *port;
	*ret_stats = cm->stats;
	DL_FOREACH (cm->ports, port) {
		if (port->kind->add_stats)
			port->kind->add_stats(port, ret_stats);
	}
}
