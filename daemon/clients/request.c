/* SPDX-License-Identifier: MIT */
/* CONTROL requests of tools. The answer may come at once or later. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/clients/internal.h"

ssize_t request_groups(int socket, gid_t **ret_groups)
{
	socklen_t len = 0;
	*ret_groups = NULL;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0)
		return 0;
	if (errno != ERANGE)
		return -errno;
	gid_t *groups = malloc(len);
	if (!groups)
		return -ENOMEM;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0) {
		int error = errno;
		free(groups);
		return -error;
	}
	*ret_groups = groups;
	return (ssize_t)(len / sizeof(*groups));
}

static void reply_now(struct session *session, int r, const char *reply)
{
	if (r == 0 && reply && strlen(reply) <= IPC_MAX_CONTROL_LEN)
		session_reply(session, IPC_CONTROL_REPLY, reply, strlen(reply), -1);
	else if (r == 0)
		session_reply_error(session, EMSGSIZE, "the answer is too long for one frame");
	else
		session_reply_error(session, -r, "%s", reply ? reply : strerror(-r));
}

/* A session that waits keeps its request, which therefore has to be small. */
static void wait_for_wake(struct session *session)
{
	if (session->payload != session->small) {
		session_reply_error(session, EMSGSIZE,
				    "the request is too long for one that waits");
		return;
	}
	session->waits = true;
	DL_APPEND2(session->clients->waiting, session, wait_prev, wait_next);
}

static void end_wait(struct session *session)
{
	if (!session->waits)
		return;
	session->waits = false;
	DL_DELETE2(session->clients->waiting, session, wait_prev, wait_next);
}

void clients_control_wake(struct clients *clients)
{
	while (clients->waiting) {
		struct session *session = clients->waiting;
		end_wait(session);
		session_resume_later(session); /* the session has kept its frame */
	}
}

void request_control(struct session *session)
{
	struct clients *clients = session->clients;
	const struct clients_callbacks *callbacks = &clients->config.callbacks;
	gid_t *groups;
	char *reply = NULL;
	if (!callbacks->control) {
		session_reply_error(session, EOPNOTSUPP, "this daemon takes no control requests");
		return;
	}
	ssize_t n = request_groups(session->socket, &groups);
	const struct clients_asker asker = { .request = ++clients->last_request,
					     .reply = clients_control_reply,
					     .reply_ctx = clients,
					     .cred = session->cred,
					     .groups = groups,
					     .num_groups = n > 0 ? (size_t)n : 0,
					     .fd = session_descriptor(session) };
	int r = callbacks->control(callbacks->ctx, &asker, (const char *)session->payload,
				   session->payload_len, &reply);
	if (r == -EINPROGRESS)
		session->asked = asker.request;
	else if (r == -EAGAIN)
		wait_for_wake(session);
	else
		reply_now(session, r, reply);
	free(reply);
	free(groups);
}

/* In the middle of anything: nothing here calls the engine. */
void clients_control_reply(void *ctx, uint64_t request, char *reply)
{
	struct clients *clients = ctx;
	struct session *session;
	DL_SEARCH_SCALAR(clients->sessions, session, asked, request);
	if (session) {
		session->asked = 0;
		reply_now(session, reply ? 0 : -ENOMEM, reply);
		session_resume_later(session); /* it may have asked for more */
	}
	free(reply);
}

void request_forget(struct session *session)
{
	const struct clients_callbacks *callbacks = &session->clients->config.callbacks;
	if (session->asked && callbacks->control_gone)
		callbacks->control_gone(callbacks->ctx, session->asked);
	end_wait(session);
	session->asked = 0;
}
