/* SPDX-License-Identifier: MIT */
/*
 * INFO requests: what became of a connection, for a process that holds a descriptor of it. The
 * process may wait until it is settled whether SMC-R or TCP carries the data. The limits of
 * sessions bound how many wait.
 */
#include <errno.h>
#include <stdio.h>

#include "daemon/clients/internal.h"

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

static enum ipc_mode mode_of(const struct conn_view *view)
{
	switch (view->mode) {
	case CONN_MODE_PENDING: return IPC_MODE_PENDING;
	case CONN_MODE_SMCR: return IPC_MODE_SMCR;
	case CONN_MODE_TCP: break;
	}
	return IPC_MODE_TCP;
}

static void fill(const struct clients *clients, const struct conn_view *view,
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
	if (!view->in_engine || view->mode != CONN_MODE_SMCR)
		return;
	struct link_search search = { &view->engine, ret_info };
	ret_info->linkgroup = view->engine.lgr_id;
	ret_info->link = view->engine.link_number;
	ret_info->rmbe_size = view->engine.rmbe_size;
	ret_info->peer_rmbe_size = view->engine.peer_rmbe_size;
	smcr_engine_each_link(conns_engine(clients->conns), note_rnic, &search);
}

static void reply(struct session *session, const struct conn_view *view)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_info info;
	fill(session->clients, view, &info);
	int len = ipc_encode_info(&info, buf, sizeof(buf));
	session_reply(session, IPC_INFO, buf, (size_t)len, -1);
}

void info_request(struct session *session, const struct ipc_info_request *msg, int proof)
{
	struct conn_view view;
	struct conn_watcher *watcher = msg->flags & IPC_INFO_WAIT ? &session->watcher : NULL;
	int r = conns_info(session->clients->conns, proof, watcher, &view);
	if (r == -EACCES)
		query_no_proof(session);
	else if (r < 0)
		session_reply_error(session, -r, "smcrd does not remember this connection");
	else if (!session->watcher.conn)
		reply(session, &view);
}

/* ---- those who wait ---- */

static void on_settled(struct conn_watcher *watcher, const struct conn_view *view)
{
	struct session *session = container_of(watcher, struct session, watcher);
	if (!view) /* the daemon ends, and the session with it */
		return;
	reply(session, view);
	session_resume_later(session);
}

void info_init(struct session *session)
{
	session->watcher.settled = on_settled;
}
