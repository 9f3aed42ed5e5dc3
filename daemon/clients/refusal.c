/* SPDX-License-Identifier: MIT */
/*
 * TCP sockets that the daemon does not take over. If the handshake has, or may have, promised SMC-R
 * to the peer, the program must not just go on with TCP: the peer's Proposal would be taken for
 * data. So the socket is left untouched, and an ERROR tells the program, which then connects again
 * or declines. Or the connection has ended already.
 */
#include <errno.h>
#include <string.h>

#include "daemon/clients/internal.h"

static bool may_be_promised(const struct clients *clients, enum ipc_handover_kind kind,
			    const struct rdv_option_state *state)
{
	if (kind == IPC_HANDOVER_ACCEPTED)
		return state->negotiated == IPC_NEGOTIATED_YES;
	/* Unknown counts too: the socket may have been claimed while another daemon ran. */
	return clients->config.option && state->negotiated != IPC_NEGOTIATED_NO;
}

/* Is the descriptor of no use for either the daemon or the program? */
static bool is_unusable(int error)
{
	return error == -ENOTSOCK || error == -EBADF || error == -EINVAL;
}

bool refusal_of_socket(struct session *session, enum ipc_handover_kind kind, int fd, int error,
		       const struct rdv_verdict *verdict)
{
	struct clients *clients = session->clients;
	/* The daemon cannot know what was promised in another network namespace. */
	bool promised = error == -EXDEV || may_be_promised(clients, kind, &verdict->option);
	if (!is_unusable(error) && !(promised && (error < 0 || conns_stopped(clients->conns))))
		return false;
	if (error == -EXDEV)
		conns_note_refused(clients->conns, &session->cred, fd,
				   kind == IPC_HANDOVER_ACCEPTED, SMCR_REASON_OTHER_NETWORK);
	if (kind == IPC_HANDOVER_ACCEPTED && (error == -ENOTCONN || error == -EISCONN))
		session_reply_result(session, IPC_OUTCOME_FAILED, ECONNRESET, 0, -1);
	else if (error < 0)
		session_reply_error(session, -error, "%s", verdict->text);
	else
		session_reply_error(session, ESHUTDOWN, "%s",
				    smcr_reason_text(SMCR_REASON_SHUTTING_DOWN));
	return true;
}

void refusal_of_pair(struct session *session, int error)
{
	limits_out_of_descriptors(session->clients->conns);
	if (error == EADDRINUSE)
		session_reply_error(session, error,
				    "smcrd has no name for the connection: other users have taken "
				    "all that it tried, its log says who");
	else
		session_reply_error(session, error, "smcrd cannot make a socket pair: %s",
				    strerror(error));
}
