/* SPDX-License-Identifier: MIT */
/*
 * Questions of a program about a pair end that it holds. The program shows a descriptor as proof.
 * The socket's name says which connection it belongs to, and its cookie proves that it is the end
 * that this daemon made. The name alone proves nothing: another network namespace may have the same
 * name. Nor do inode numbers of sockets: they have 32 bits and come again after some hours of
 * socket().
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "daemon/conns/internal.h"

int shown_look_up(const struct conns *conns, int proof, struct shown *ret_shown)
{
	struct ipc_pair_name name;
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	struct shown shown = { 0 };
	if (getsockname(proof, (struct sockaddr *)&addr, &len) < 0 ||
	    ipc_pair_name_decode(&addr, len, &name) < 0 || pair_cookie(proof, &shown.cookie) < 0)
		return -EACCES;
	shown.id = name.id;
	HASH_FIND(hh, conns->by_id, &name.id, sizeof(name.id), shown.conn);
	HASH_FIND(hh, conns->failed, &name.id, sizeof(name.id), shown.failed);
	if ((shown.conn && shown.conn->pair.program_cookie != shown.cookie) ||
	    (shown.failed && shown.failed->program_cookie != shown.cookie))
		return -EACCES;
	*ret_shown = shown;
	return 0;
}

/* ---- STATUS ---- */

/* Give the TCP socket back: of a relayed connection on which nothing has passed, or of a connect()
 * that failed. */
static int take_back(struct conns *conns, struct shown *shown)
{
	if (shown->conn)
		return conn_take_back(shown->conn);
	if (!shown->failed || shown->failed->tcp < 0)
		return -EBUSY;
	int tcp = shown->failed->tcp;
	shown->failed->tcp = -1;
	failed_remove(conns, shown->failed);
	return tcp;
}

/* connect() with AF_UNSPEC. */
static int disconnect(struct conns *conns, struct shown *shown)
{
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	if (shown->conn)
		return conn_disconnect(shown->conn);
	int tcp = take_back(conns, shown);
	if (tcp >= 0)
		(void)connect(tcp, &unspec, sizeof(unspec));
	return tcp;
}

static void describe_status(struct shown *shown, int proof, bool look,
			    struct ipc_status *ret_status)
{
	struct conn *conn = shown->conn;
	if (shown->failed) { /* also where the engine still waits for the peer */
		ret_status->state = IPC_CONN_FAILED;
		ret_status->error = shown->failed->error;
		ret_status->reason = shown->failed->reason;
		if (!look)
			shown->failed->error = 0; /* reported once, like SO_ERROR */
	} else if (conn) {
		pair_look_if_shut(&conn->pair);
		if (conn->phase == PHASE_SMCR || conn->phase == PHASE_RELAY || conn->opened_early)
			pair_widen(&conn->pair, proof);
		ret_status->state = (uint8_t)conn_state(conn);
		ret_status->error = conn->error;
		ret_status->reason = conn->reason;
	}
}

int conns_status(struct conns *conns, int proof, uint8_t flags, struct ipc_status *ret_status,
		 int *ret_tcp)
{
	struct ipc_status status = { .state = IPC_CONN_CLOSED };
	struct shown shown;
	int tcp = -1;
	int r = shown_look_up(conns, proof, &shown);
	if (r < 0)
		return r;
	describe_status(&shown, proof, flags & IPC_STATUS_LOOK, &status);
	if (flags & IPC_STATUS_DISCONNECT) {
		status = (struct ipc_status){ .state = IPC_CONN_CLOSED };
		tcp = disconnect(conns, &shown);
	} else if (flags & IPC_STATUS_MAY_TAKE_BACK) {
		tcp = take_back(conns, &shown);
	}
	if (tcp >= 0)
		status.flags = IPC_STATUS_TAKE_BACK;
	*ret_status = status;
	*ret_tcp = tcp >= 0 ? tcp : -1;
	return 0;
}

/* ---- SOCKOPT ---- */

int conns_sockopt(struct conns *conns, int proof, struct ipc_sockopt *msg)
{
	struct linger none = { 0 };
	struct shown shown;
	int r = shown_look_up(conns, proof, &shown);
	if (r < 0)
		return r;
	if (shown.conn)
		conn_look_at_memory(shown.conn);
	if (msg->op == IPC_SOCKOPT_CONTROL) {
		tcpinfo_control(shown.conn, msg);
	} else if (shown.conn && shown.conn->tcp >= 0) {
		bool armed = shown.conn->armed;
		sockopt_apply(shown.conn->tcp, msg, armed ? &shown.conn->linger : NULL);
		tcpinfo_correct(shown.conn, msg);
		sockopt_own_keepalive(msg, &shown.conn->keepalive);
		conn_options_changed(shown.conn);
	} else if (shown.failed && shown.failed->tcp >= 0) {
		sockopt_apply(shown.failed->tcp, msg, NULL);
	} else {
		sockopt_apply(-1, msg, &none);
	}
	return 0;
}

/* ---- INFO ---- */

/* Find the connection of a TCP socket that the daemon had and has given back. No two sockets ever
 * have the same cookie. */
static bool find_by_tcp(const struct conns *conns, int tcp, struct conn_view *ret_view)
{
	int protocol = 0;
	uint64_t cookie = 0;
	socklen_t len = sizeof(protocol);
	if (getsockopt(tcp, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) < 0 ||
	    protocol != IPPROTO_TCP || pair_cookie(tcp, &cookie) < 0 ||
	    !history_find_tcp(conns, cookie, ret_view))
		return false;
	ret_view->ended = false; /* it has ended for the daemon, but the program goes on with it */
	ret_view->error = 0;
	return true;
}

/**
 * Find the connection that the descriptor `proof` belongs to.
 * @param ret_conn  the connection if it has not ended, else NULL
 * @return 0; -EACCES: no descriptor of a connection; -ENOENT: the connection is not in the history
 *         any more
 */
static int find(const struct conns *conns, int proof, struct conn_view *ret_view,
		struct conn **ret_conn)
{
	struct shown shown;
	*ret_conn = NULL;
	if (shown_look_up(conns, proof, &shown) < 0)
		return find_by_tcp(conns, proof, ret_view) ? 0 : -EACCES;
	*ret_conn = shown.conn;
	if (shown.conn)
		history_describe(shown.conn, ret_view);
	else if (!history_find_pair(conns, shown.id, shown.cookie, ret_view))
		return -ENOENT;
	return 0;
}

int conns_info(struct conns *conns, int proof, struct conn_watcher *watcher,
	       struct conn_view *ret_view)
{
	struct conn *conn;
	int r = find(conns, proof, ret_view, &conn);
	if (r == 0 && watcher && conn && ret_view->mode == CONN_MODE_PENDING) {
		watcher->conn = conn;
		DL_APPEND(conn->watchers, watcher);
	}
	return r;
}
