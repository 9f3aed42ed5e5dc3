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

static void forget(struct cm *cm, unsigned int at)
{
	cm->num_history--;
	memmove(&cm->history[at], &cm->history[at + 1],
		(cm->num_history - at) * sizeof(cm->history[0]));
}

static unsigned int num_behind(const struct cm *cm, unsigned int first)
{
	unsigned int num = 0;
	for (unsigned int i = first; i < cm->num_history; i++)
		num += cm_addr_equal(&cm->history[i].peer, &cm->history[first].peer);
	return num;
}

/* The oldest one of the peer that has most: whoever makes connections without pause displaces those
 * of others only as far as he has no more than they. */
static unsigned int least_missed(const struct cm *cm)
{
	unsigned int most = 0, at = 0;
	for (unsigned int i = 0; i < cm->num_history; i++) {
		const unsigned int num = num_behind(cm, i);
		if (num > most)
			at = i;
		if (num > most)
			most = num;
	}
	return at;
}

void cm_view_keep(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;
	if (cm->num_history == CM_HISTORY)
		forget(cm, least_missed(cm));
	cm->history[cm->num_history++] = conn->view;
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
	for (unsigned int i = cm->num_history; i-- > 0;) {
		view = aged(cm->history[i], now);
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
