/* SPDX-License-Identifier: MIT */
/* HANDOVER requests: a program's TCP socket becomes a connection, whose outcome is the reply. */
#include <errno.h>

#include "daemon/clients/internal.h"

static void on_outcome(struct conn_asker *asker, enum ipc_outcome outcome, int error,
		       uint32_t reason, int fd)
{
	struct session *session = container_of(asker, struct session, asker);
	session_reply_result(session, outcome, error, reason, fd);
	if (!session->payload) /* otherwise serve() goes on itself after this request */
		session_resume_later(session);
}

void handover_init(struct session *session)
{
	session->asker.outcome = on_outcome;
}

/* The name is read once a session: a process usually keeps its name. */
static const char *name_of(struct session *session)
{
	if (!session->named)
		program_name(&session->clients->names, session->cred.pid, session->program);
	session->named = true;
	return session->program;
}

void handover_request(struct session *session, const struct ipc_handover *msg, int fd)
{
	struct clients *clients = session->clients;
	struct rdv_verdict verdict;
	int r = rdv_verify_socket(clients->config.option, fd, msg->kind, &verdict);
	if (refusal_of_socket(session, msg->kind, fd, r, &verdict)) {
		close_foreign(fd, session->quota);
		return;
	}
	const struct conn_offer offer = { .msg = msg,
					  .cred = session->cred,
					  .program = name_of(session),
					  .quota = session->quota,
					  .verdict_error = r,
					  .verdict = &verdict,
					  .asker = &session->asker };
	r = conns_adopt(clients->conns, &offer, fd);
	if (r == -EUSERS) {
		session_reply_error(session, EUSERS, "smcrd carries no more connections of user %u",
				    (unsigned int)session->cred.uid);
	} else if (r < 0) {
		refusal_of_pair(session, -r);
	}
}
