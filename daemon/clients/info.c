/* SPDX-License-Identifier: MIT */
/*
 * INFO requests: what became of a connection, told to those who hold a descriptor of it. They may
 * wait until it is settled whether SMC-R or TCP carries the data; the list of who waits belongs to
 * the connection, and the quota for sessions bounds it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "daemon/clients/internal.h"

/* ---- whose descriptor ---- */

/* The program's TCP socket that the daemon has had once. The kernel never gives a socket's cookie
 * to another one. */
static bool find_by_tcp(const struct clients *clients, int tcp, struct client_conn_view *ret_view)
{
	int protocol = 0;
	uint64_t cookie = 0;
	socklen_t len = sizeof(protocol), cookie_len = sizeof(cookie);
	if (getsockopt(tcp, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) < 0 ||
	    protocol != IPPROTO_TCP ||
	    getsockopt(tcp, SOL_SOCKET, SO_COOKIE, &cookie, &cookie_len) < 0 ||
	    !history_find_tcp(clients, cookie, ret_view))
		return false;
	ret_view->ended = false; /* only as far as the daemon is concerned */
	ret_view->error = 0;
	return true;
}

/**
 * What the descriptor shows.
 * @param ret_conn  the connection if it is alive, else NULL
 * @return 0; -EACCES: no descriptor of a connection; -ENOENT: it is not remembered
 */
static int find(const struct clients *clients, int proof, struct client_conn_view *ret_view,
		struct client_conn **ret_conn)
{
	struct shown shown;
	*ret_conn = NULL;
	if (query_look_up(clients, proof, &shown) < 0)
		return find_by_tcp(clients, proof, ret_view) ? 0 : -EACCES;
	*ret_conn = shown.conn;
	if (shown.conn)
		history_describe(shown.conn, ret_view);
	else if (!history_find_pair(clients, shown.id, shown.inode, ret_view))
		return -ENOENT;
	return 0;
}

/* ---- the reply ---- */

struct link_search {
	const struct smcr_conn_view *conn;
	struct ipc_info *info;
};

static void note_rnic(void *arg, const struct smcr_link_view *link)
{
	struct link_search *search = arg;
	if (link->lgr_id == search->conn->lgr_id && link->number == search->conn->link_number)
		snprintf(search->info->rnic, sizeof(search->info->rnic), "%s", link->device_name);
}

static enum ipc_mode mode_of(const struct client_conn_view *view)
{
	switch (view->mode) {
	case CLIENT_MODE_PENDING: return IPC_MODE_PENDING;
	case CLIENT_MODE_SMCR: return IPC_MODE_SMCR;
	case CLIENT_MODE_TCP: break;
	}
	return IPC_MODE_TCP;
}

static void fill(const struct clients *clients, const struct client_conn_view *view,
		 struct ipc_info *ret_info)
{
	*ret_info = (struct ipc_info){
		.mode = (uint8_t)mode_of(view),
		.flags = (uint8_t)((view->role == SMCR_ROLE_SERVER ? IPC_INFO_SERVER : 0) |
				   (view->bytes_known ? IPC_INFO_BYTES : 0) |
				   (view->state == IPC_CONN_RELAY ? IPC_INFO_RELAYED : 0) |
				   (view->ended ? IPC_INFO_ENDED : 0)),
		.error = view->error,
		.reason = view->reason,
		.peer_reason = view->peer_reason,
		.tx_bytes = view->bytes_known ? view->tx_bytes : 0,
		.rx_bytes = view->bytes_known ? view->rx_bytes : 0,
	};
	if (!view->in_engine || view->mode != CLIENT_MODE_SMCR)
		return;
	struct link_search search = { &view->engine, ret_info };
	ret_info->linkgroup = view->engine.lgr_id;
	ret_info->link = view->engine.link_number;
	ret_info->rmbe_size = view->engine.rmbe_size;
	ret_info->peer_rmbe_size = view->engine.peer_rmbe_size;
	smcr_engine_each_link(clients->config.engine, note_rnic, &search);
}

static void reply(struct session *session, const struct client_conn_view *view)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_info info;
	fill(session->clients, view, &info);
	int len = ipc_encode_info(&info, buf, sizeof(buf));
	session_reply(session, IPC_INFO, buf, (size_t)len, -1);
}

void info_request(struct session *session, const struct ipc_info_request *msg, int proof)
{
	struct client_conn_view view;
	struct client_conn *conn;
	int r = find(session->clients, proof, &view, &conn);
	if (r == -EACCES)
		session_reply_error(session, EACCES, "the descriptor is no connection of smcrd's");
	else if (r < 0)
		session_reply_error(session, -r, "smcrd does not remember this connection");
	else if (conn && view.mode == CLIENT_MODE_PENDING && msg->flags & IPC_INFO_WAIT) {
		session->watched = conn;
		DL_APPEND2(conn->watchers, session, watch_prev, watch_next);
	} else
		reply(session, &view);
}

/* ---- those who wait ---- */

void info_forget(struct session *session)
{
	struct client_conn *conn = session->watched;
	if (!conn)
		return;
	session->watched = NULL;
	DL_DELETE2(conn->watchers, session, watch_prev, watch_next);
}

static void tell(struct client_conn *conn, const struct client_conn_view *view)
{
	while (conn->watchers) {
		struct session *session = conn->watchers;
		info_forget(session);
		reply(session, view);
		clients_mark_session_later(session);
	}
}

void info_settled(struct client_conn *conn)
{
	struct client_conn_view view;
	if (!conn->watchers || conn->phase == PHASE_DEAD)
		return;
	history_describe(conn, &view);
	if (view.mode != CLIENT_MODE_PENDING)
		tell(conn, &view);
}

void info_ended(struct client_conn *conn)
{
	struct client_conn_view view;
	if (!conn->watchers)
		return;
	if (history_find_pair(conn->clients, conn->id, conn->pair.program_inode, &view)) {
		tell(conn, &view);
		return;
	}
	while (conn->watchers) /* the daemon ends: their sessions tell it */
		info_forget(conn->watchers);
}
