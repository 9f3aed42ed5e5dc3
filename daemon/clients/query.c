/* SPDX-License-Identifier: MIT */
/*
 * What a program asks about a pair end that it holds. The descriptor itself is the proof: its name
 * says which connection it claims to be, its inode that it is the end we made (a name alone could
 * be made up in another network namespace).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

#define FAILED_MAX         1024
#define FAILED_LIFETIME_MS 60000

/* ---- connections that failed ---- */

static void failed_remove(struct clients *clients, struct failed_conn *failed)
{
	HASH_DELETE(hh, clients->failed, failed);
	close_foreign(failed->tcp, failed->quota);
	failed->quota->failed--;
	quota_put(clients, failed->quota);
	free(failed);
}

void failed_add(struct client_conn *conn, int error, uint32_t reason, int tcp)
{
	struct clients *clients = conn->clients;
	struct failed_conn *failed = calloc(1, sizeof(*failed));
	if (!failed || clients->freeing) {
		free(failed);
		close_foreign(tcp, conn->quota);
		return;
	}
	if (HASH_COUNT(clients->failed) >= FAILED_MAX)
		failed_remove(clients, clients->failed); /* the oldest */
	failed->id = conn->id;
	failed->program_inode = conn->pair.program_inode;
	failed->error = error;
	failed->reason = reason;
	failed->tcp = tcp;
	failed->quota = conn->quota;
	failed->quota->failed++;
	failed->expires_ms = clients_now_ms() + FAILED_LIFETIME_MS;
	HASH_ADD(hh, clients->failed, id, sizeof(failed->id), failed);
	clients_need_sweep(clients);
}

void failed_expire(struct clients *clients, uint64_t now_ms)
{
	while (clients->failed && clients->failed->expires_ms <= now_ms)
		failed_remove(clients, clients->failed);
}

/* ---- proof ---- */

int query_look_up(const struct clients *clients, int proof, struct shown *ret_shown)
{
	struct ipc_pair_name name;
	struct sockaddr_un addr;
	struct stat st;
	socklen_t len = sizeof(addr);
	struct shown shown = { 0 };
	if (getsockname(proof, (struct sockaddr *)&addr, &len) < 0 ||
	    ipc_pair_name_decode(&addr, len, &name) < 0 || fstat(proof, &st) < 0)
		return -EACCES;
	shown.id = name.id;
	shown.inode = st.st_ino;
	HASH_FIND(hh, clients->conns_by_id, &name.id, sizeof(name.id), shown.conn);
	HASH_FIND(hh, clients->failed, &name.id, sizeof(name.id), shown.failed);
	if ((shown.conn && shown.conn->pair.program_inode != st.st_ino) ||
	    (shown.failed && shown.failed->program_inode != st.st_ino))
		return -EACCES;
	*ret_shown = shown;
	return 0;
}

static void no_proof(struct session *session)
{
	session_reply_error(session, EACCES, "the descriptor is no connection of smcrd's");
}

/* ---- STATUS ---- */

static enum ipc_conn_state state_of(const struct client_conn *conn)
{
	switch (conn->phase) {
	case PHASE_CONNECTING: return IPC_CONN_CONNECTING;
	case PHASE_RENDEZVOUS:
	case PHASE_FALLBACK:
	case PHASE_AGAIN: return conn->released ? IPC_CONN_OPEN : IPC_CONN_CONNECTING;
	case PHASE_SMCR: return IPC_CONN_SMCR;
	case PHASE_RELAY: return IPC_CONN_RELAY;
	case PHASE_CLOSING:
		/* Shut in both directions by the program: there until the peer ends it, as in TCP.
		 */
		if (conn->tcp >= 0)
			return IPC_CONN_SMCR;
		break;
	case PHASE_DEAD: break;
	}
	return IPC_CONN_CLOSED;
}

/* A relayed connection on which nothing has passed, or a connect() that failed. */
static int take_back(struct session *session, struct shown *shown)
{
	if (shown->conn)
		return conn_take_back(shown->conn);
	if (!shown->failed || shown->failed->tcp < 0)
		return -EBUSY;
	int tcp = shown->failed->tcp;
	shown->failed->tcp = -1;
	failed_remove(session->clients, shown->failed);
	return tcp;
}

/* connect() with AF_UNSPEC. */
static int disconnect(struct session *session, struct shown *shown)
{
	const struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	if (shown->conn)
		return conn_disconnect(shown->conn);
	int tcp = take_back(session, shown);
	if (tcp >= 0)
		connect(tcp, &unspec, sizeof(unspec));
	return tcp;
}

void query_status(struct session *session, const struct ipc_status_request *msg, int proof)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_status status = { .state = IPC_CONN_CLOSED };
	struct shown shown;
	int tcp = -1;
	if (query_look_up(session->clients, proof, &shown) < 0) {
		no_proof(session);
		return;
	}
	if (shown.conn) {
		if (shown.conn->phase == PHASE_SMCR || shown.conn->phase == PHASE_RELAY ||
		    shown.conn->released)
			pair_widen(&shown.conn->pair, proof);
		status.state = (uint8_t)state_of(shown.conn);
		status.error = shown.conn->error;
		status.reason = shown.conn->reason;
	} else if (shown.failed) {
		status.state = IPC_CONN_FAILED;
		status.error = shown.failed->error;
		status.reason = shown.failed->reason;
		shown.failed->error = 0; /* told once, as SO_ERROR does */
	}
	if (msg->flags & IPC_STATUS_DISCONNECT) {
		status = (struct ipc_status){ .state = IPC_CONN_CLOSED };
		tcp = disconnect(session, &shown);
	} else if (msg->flags & IPC_STATUS_MAY_TAKE_BACK) {
		tcp = take_back(session, &shown);
	}
	if (tcp >= 0)
		status.flags = IPC_STATUS_TAKE_BACK;
	int len = ipc_encode_status(&status, buf, sizeof(buf));
	session_reply(session, IPC_STATUS, buf, (size_t)len, tcp >= 0 ? tcp : -1);
}

/* ---- SOCKOPT ---- */

void query_sockopt(struct session *session, struct ipc_sockopt *msg, int proof)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct linger none = { 0 };
	struct shown shown;
	if (query_look_up(session->clients, proof, &shown) < 0) {
		no_proof(session);
		return;
	}
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
	int len = ipc_encode_sockopt(msg, buf, sizeof(buf));
	session_reply(session, IPC_SOCKOPT, buf, (size_t)len, -1);
}
