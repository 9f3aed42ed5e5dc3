/* SPDX-License-Identifier: MIT */
#include "lib/smcr/status.h"

#include <stdio.h>
#include <string.h>

#include "lib/smcr/dups.h"
#include "lib/smcr/log.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/pushing.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/replace.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/unanswered.h"
#include "lib/smcr/unasked.h"
#include "lib/smcr/watch.h"
#include "proto/smcr/reason.h"

/* Epoll registrations are known by number. One that was made by the number of the connect(), where
 * another file may be now, would be lost with the pair end. */
static bool may_take_back(int fd, uint64_t cookie)
{
	struct pre_watch unused[PRE_WATCH_MAX];
	int first;
	return pre_sees_calls && pre_pending_is_ours(cookie, &first) &&
	       (first == fd || pre_watch_list(first, cookie, unused) == 0) &&
	       pre_watch_complete(first) && pre_watch_complete(fd) && !pre_dups_any(fd, cookie);
}

/* Put the TCP socket in the place of the pair end. @param tcp  is closed in any case */
static int take_back(int fd, int tcp)
{
	struct pre_file_state state;
	int rc = pre_file_state(fd, &state);
	if (rc < 0) {
		sys_close(tcp);
		return rc;
	}
	pre_pushing_restore(fd, tcp);
	rc = pre_replace(fd, &state, tcp, PRE_REPLACE_BACK);
	if (rc == 0)
		pre_pending_drop(state.cookie);
	return rc;
}

static void log_failure(int fd, int error)
{
	const char *words = strerrordesc_np(error);
	char line[128];
	snprintf(line, sizeof(line), "failed%s%s", words ? ": " : "", words ? words : "");
	pre_log(fd, line);
}

static void log_status(int fd, const struct ipc_status *status)
{
	switch ((enum ipc_conn_state)status->state) {
	case IPC_CONN_SMCR: pre_log(fd, "SMC-R"); break;
	case IPC_CONN_OPEN: pre_log(fd, PRE_LOG_OPEN); break;
	case IPC_CONN_RELAY: pre_log_fallback(fd, NULL, status->reason); break;
	case IPC_CONN_FAILED: log_failure(fd, status->error); break;
	case IPC_CONN_CONNECTING:
	case IPC_CONN_CLOSED: break;
	}
}

static bool is_unanswered(const struct ipc_status *status)
{
	return status->state == IPC_CONN_RELAY && status->reason == SMCR_REASON_PEER_NO_SMC;
}

static bool is_answered(const struct ipc_status *status)
{
	return status->state == IPC_CONN_SMCR || status->state == IPC_CONN_OPEN ||
	       (status->state == IPC_CONN_RELAY && status->reason != SMCR_REASON_PEER_NO_SMC);
}

/* An answer of the server to a connect() in the background. */
static void note_answer(int fd)
{
	struct ipc_pair_name name;
	if (pre_pair_name(fd, &name) == 0)
		pre_unanswered_break(&name.peer);
}

/* The TCP socket has come with the answer and takes the place of the pair end.
 * @param news  this process hears of the outcome for the first time */
static int came_back(int fd, int tcp, const struct ipc_status *status, bool news)
{
	const bool failed = status->state == IPC_CONN_FAILED;
	struct ipc_pair_name name;
	const bool named = pre_pair_name(fd, &name) == 0;
	/* Before, since the TCP socket of a connection that has failed does not know its peer. */
	if (news && failed)
		log_status(fd, status);
	int rc = take_back(fd, tcp);
	if (rc < 0)
		return rc;
	if (named && is_unanswered(status))
		pre_unasked_plain(fd, &name.peer);
	if (!failed)
		pre_watch_forget(fd);
	if (news && !failed)
		log_status(fd, status);
	return 0;
}

/* The outcome of connect() is known, and the pair end stays where it is. */
static void settle(int fd, uint64_t cookie, const struct ipc_status *status, bool news)
{
	if (news && is_answered(status))
		note_answer(fd);
	pre_pending_drop(cookie);
	pre_watch_forget(fd);
	if (news)
		log_status(fd, status);
}

/* @param may  the TCP socket may come back */
static int status_of(int fd, uint64_t cookie, bool may, struct pre_status *ret_status)
{
	struct pre_status status = { 0 };
	int tcp;
	const bool news = pre_pending_open_at(fd);
	int rc = pre_ask_status(fd, may ? IPC_STATUS_MAY_TAKE_BACK : 0, &status.ipc, &tcp);
	if (rc < 0)
		return rc;
	status.taken_back = tcp >= 0;
	if (status.taken_back)
		rc = came_back(fd, tcp, &status.ipc, news);
	else if (status.ipc.state != IPC_CONN_CONNECTING)
		settle(fd, cookie, &status.ipc, news);
	if (rc == 0)
		*ret_status = status;
	return rc;
}

int pre_status(int fd, struct pre_status *ret_status)
{
	uint64_t cookie;
	int rc = pre_cookie(fd, &cookie);
	return rc < 0 ? rc : status_of(fd, cookie, may_take_back(fd, cookie), ret_status);
}

int pre_status_look(int fd, enum ipc_conn_state *ret_state)
{
	struct ipc_status status;
	int tcp;
	int rc = pre_ask_status(fd, IPC_STATUS_LOOK, &status, &tcp);
	if (rc == 0)
		*ret_state = (enum ipc_conn_state)status.state;
	return rc;
}

int pre_status_taking_back(int fd, struct pre_status *ret_status)
{
	uint64_t cookie;
	int rc = pre_cookie(fd, &cookie);
	return rc < 0 ? rc : status_of(fd, cookie, !pre_dups_any(fd, cookie), ret_status);
}

int pre_status_disconnect(int fd, const struct ipc_pair_name *pair)
{
	struct ipc_status status;
	int tcp;
	int rc = pre_ask_status(fd, IPC_STATUS_DISCONNECT, &status, &tcp);
	if (rc < 0 || tcp < 0)
		tcp = pre_unconnected(pair);
	if (tcp < 0)
		return tcp;
	return take_back(fd, tcp);
}
