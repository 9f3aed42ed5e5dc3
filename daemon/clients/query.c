/* SPDX-License-Identifier: MIT */
/* STATUS, SOCKOPT and MEMORY requests: questions of a program about a pair end, which it shows. */
#include <errno.h>

#include "daemon/clients/internal.h"

void query_no_proof(struct session *session)
{
	session_reply_error(session, EACCES, "the descriptor is no connection of smcrd's");
}

void query_status(struct session *session, const struct ipc_status_request *msg, int proof)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_status status;
	int tcp;
	if (conns_status(session->clients->conns, proof, msg->flags, &status, &tcp) < 0) {
		query_no_proof(session);
		return;
	}
	int len = ipc_encode_status(&status, buf, sizeof(buf));
	session_reply(session, IPC_STATUS, buf, (size_t)len, tcp);
}

void query_sockopt(struct session *session, struct ipc_sockopt *msg, int proof)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	if (conns_sockopt(session->clients->conns, proof, msg) < 0) {
		query_no_proof(session);
		return;
	}
	int len = ipc_encode_sockopt(msg, buf, sizeof(buf));
	session_reply(session, IPC_SOCKOPT, buf, (size_t)len, -1);
}

void query_memory(struct session *session, const struct ipc_memory_request *msg, int proof)
{
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_memory memory;
	int fd;
	if (conns_share(session->clients->conns, proof, msg, &memory, &fd) < 0) {
		query_no_proof(session);
		return;
	}
	int len = ipc_encode_memory(&memory, buf, sizeof(buf));
	session_reply(session, IPC_MEMORY, buf, (size_t)len, fd);
}
