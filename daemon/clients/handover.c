/* SPDX-License-Identifier: MIT */
/* A program hands its TCP socket over: is it fit, which way does it go. */
#include <errno.h>
#include <linux/socket.h>
#include <string.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/clients/internal.h"

/* ---- facts ---- */

static int read_name(int fd, bool peer, union ipc_addr *ret_addr)
{
	union ipc_addr addr = { 0 };
	socklen_t len = sizeof(addr);
	if ((peer ? getpeername(fd, &addr.sa, &len) : getsockname(fd, &addr.sa, &len)) < 0)
		return -errno;
	if (addr.sa.sa_family == AF_INET6)
		addr.in6.sin6_flowinfo = 0;
	*ret_addr = addr;
	return 0;
}

/* The addresses as the program knows them. During connect() only the program can tell the peer's.
 */
static int fill_name(struct client_conn *conn, const union ipc_addr *connecting_to)
{
	int r = read_name(conn->tcp, false, &conn->name.local);
	if (r == 0 && read_name(conn->tcp, true, &conn->name.peer) < 0)
		conn->name.peer = *connecting_to;
	if (r == 0 && conn->name.local.sa.sa_family != conn->name.peer.sa.sa_family)
		r = -EAFNOSUPPORT;
	return r;
}

static void to_smcr_addr(const union ipc_addr *from, struct smcr_addr *ret_addr)
{
	struct smcr_addr addr = { .family = AF_INET };
	if (from->sa.sa_family == AF_INET) {
		memcpy(addr.ip, &from->in.sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&from->in6.sin6_addr)) {
		memcpy(addr.ip, from->in6.sin6_addr.s6_addr + 12, 4);
	} else {
		addr.family = AF_INET6;
		memcpy(addr.ip, &from->in6.sin6_addr, 16);
	}
	addr.port = ntohs(from->in.sin_port); /* at the same place in both families */
	*ret_addr = addr;
}

static bool connected_to_itself(const struct client_conn *conn)
{
	return conn->local.port == conn->peer.port && conn->local.family == conn->peer.family &&
	       memcmp(conn->local.ip, conn->peer.ip, sizeof(conn->local.ip)) == 0;
}

static bool assumed_capable(const struct client_conn *conn)
{
	const struct clients_callbacks *callbacks = &conn->clients->config.callbacks;
	return callbacks->assume_capable && callbacks->assume_capable(callbacks->ctx, &conn->peer);
}

/* What the TCP handshake settled (TCPO-5, TCPO-6). @return why not SMC-R, or SMCR_REASON_NONE */
static uint32_t judge_option(const struct client_conn *conn, const struct rdv_option_state *state)
{
	enum smcr_role role =
		conn->kind == IPC_HANDOVER_ACCEPTED ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT;
	if (!conn->clients->config.option && state->negotiated != IPC_NEGOTIATED_YES)
		return assumed_capable(conn) ? SMCR_REASON_NONE : SMCR_REASON_NO_BPF;
	switch (state->negotiated) {
	case IPC_NEGOTIATED_UNKNOWN: return SMCR_REASON_NOT_CLAIMED;
	case IPC_NEGOTIATED_NO:
		return state->reason != SMCR_REASON_NONE ? state->reason : SMCR_REASON_PEER_NO_SMC;
	case IPC_NEGOTIATED_YES: break;
	}
	return state->role == role ? SMCR_REASON_NONE : SMCR_REASON_SOCKET_OPTION;
}

/* @return why this socket stays plain TCP at once, or SMCR_REASON_NONE */
static uint32_t judge(const struct client_conn *conn, int verdict_error,
		      const struct rdv_verdict *verdict)
{
	/* The socket is fit but for the option. During connect() the check ends one step earlier:
	 * without BPF it cannot learn the peer's address, which the program has told us. */
	bool no_option = !conn->clients->config.option &&
			 (verdict_error == -EOPNOTSUPP ||
			  (verdict_error == -ENOTCONN && verdict->local.family != 0));
	if (conn->clients->stopped)
		return SMCR_REASON_SHUTTING_DOWN;
	switch (no_option ? 0 : verdict_error) {
	case 0: break;
	case -EACCES: return SMCR_REASON_NOT_CLAIMED;
	case -EPROTONOSUPPORT: /* MPTCP */
	case -EISCONN:
	case -ENOTCONN: return SMCR_REASON_SOCKET_OPTION;
	default: return SMCR_REASON_INTERNAL;
	}
	if (connected_to_itself(conn))
		return SMCR_REASON_LOCAL_POLICY;
	if (conn->kind == IPC_HANDOVER_CONNECTING && !no_option)
		return SMCR_REASON_NONE; /* settled later */
	return judge_option(conn, &verdict->option);
}

/* ---- rendezvous ---- */

/* SO_RCVBUF or SO_SNDBUF as the program set it (RMB-6, SOCK-2), or 0: what the kernel chose by
 * itself says nothing. */
static uint32_t buffer_of(int tcp, int option, int locked)
{
	int lock = 0, bytes = 0;
	socklen_t len = sizeof(lock);
	if (getsockopt(tcp, SOL_SOCKET, SO_BUF_LOCK, &lock, &len) < 0 || !(lock & locked))
		return 0;
	len = sizeof(bytes);
	if (getsockopt(tcp, SOL_SOCKET, option, &bytes, &len) < 0 || bytes < 0)
		return 0;
	return (uint32_t)bytes / 2; /* the kernel doubles what is set, for its bookkeeping */
}

static void find_path(const struct client_conn *conn, struct smcr_conn_params *params)
{
	const struct clients_callbacks *callbacks = &conn->clients->config.callbacks;
	struct rdv_path path;
	if (callbacks->path) {
		if (callbacks->path(callbacks->ctx, &conn->local, &params->local_prefix_len,
				    &params->vlan) == 0)
			return;
	} else if (rdv_path_of(&conn->local, &path) == 0) {
		params->local_prefix_len = path.prefix_len;
		params->vlan = path.vlan;
		return;
	}
	params->local_prefix_len = conn->local.family == AF_INET ? 32 : 128;
	params->vlan = SMCR_NO_VLAN;
}

static enum smcr_reason must_refuse(const struct client_conn *conn)
{
	const struct clients_callbacks *callbacks = &conn->clients->config.callbacks;
	uint32_t mark = 0;
	socklen_t len = sizeof(mark);
	if (!callbacks->refuse)
		return SMCR_REASON_NONE;
	if (getsockopt(conn->tcp, SOL_SOCKET, SO_MARK, &mark, &len) < 0)
		mark = 0;
	const struct clients_candidate candidate = { .local = &conn->local,
						     .peer = &conn->peer,
						     .server = conn->kind == IPC_HANDOVER_ACCEPTED,
						     .mark = mark,
						     .uid = conn->claim_uid,
						     .program = conn->claim_program };
	return callbacks->refuse(callbacks->ctx, &candidate);
}

static bool is_clc_wanted(void *ctx, const uint8_t *msg, size_t len)
{
	const struct client_conn *conn = ctx;
	return !conn->engine || smcr_conn_takes_clc(conn->engine, msg, len);
}

static void on_clc_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct client_conn *conn = ctx;
	clients_begin(conn->clients);
	if (conn->engine)
		smcr_conn_clc_input(conn->engine, msg, len);
	conn_update_stream(conn);
	clients_end(conn->clients);
}

static void on_clc_garbage(void *ctx)
{
	struct client_conn *conn = ctx;
	clients_begin(conn->clients);
	if (conn->engine && conn->phase == PHASE_RENDEZVOUS)
		smcr_conn_clc_garbage(conn->engine);
	else if (conn->engine) /* no byte belongs there while SMC-R carries the data (GEN-3) */
		smcr_conn_tcp_event(conn->engine, SMCR_TCP_RESET);
	clients_end(conn->clients);
}

static void on_tcp_event(void *ctx, enum smcr_tcp_event event, int error)
{
	struct client_conn *conn = ctx;
	(void)error;
	clients_begin(conn->clients);
	if (conn->engine)
		smcr_conn_tcp_event(conn->engine, event);
	else if (conn->phase == PHASE_FALLBACK && event == SMCR_TCP_RESET)
		conn_tcp_lost(conn);
	clients_end(conn->clients);
}

static void on_flushed(void *ctx)
{
	struct client_conn *conn = ctx;
	clients_begin(conn->clients);
	if (conn->phase == PHASE_FALLBACK)
		conn_fall_back(conn, conn->reason);
	clients_end(conn->clients);
}

static const struct clc_stream_callbacks stream_callbacks = {
	.wanted = is_clc_wanted,
	.message = on_clc_message,
	.garbage = on_clc_garbage,
	.tcp_event = on_tcp_event,
	.flushed = on_flushed,
};

/* The peer counts on CLC now, so whatever goes wrong here breaks the connection. */
void conn_start_rendezvous(struct client_conn *conn)
{
	struct clients *clients = conn->clients;
	struct smcr_conn *engine = NULL;
	conn->phase = PHASE_RENDEZVOUS;
	int r = rdv_linger_arm(conn->tcp, &conn->linger);
	conn->armed = r == 0;
	if (r == 0)
		r = clc_stream_new(clients->config.base, conn->tcp, &stream_callbacks, conn,
				   &conn->stream);
	if (r == 0) {
		struct smcr_conn_params params = {
			.role = conn->kind == IPC_HANDOVER_ACCEPTED ? SMCR_ROLE_SERVER
								    : SMCR_ROLE_CLIENT,
			.local = conn->local,
			.peer = conn->peer,
			.rcvbuf = buffer_of(conn->tcp, SO_RCVBUF, SOCK_RCVBUF_LOCK),
			.sndbuf = buffer_of(conn->tcp, SO_SNDBUF, SOCK_SNDBUF_LOCK),
			.user = conn,
			.pid = conn->cred.pid > 0 ? (uint32_t)conn->cred.pid : 0,
			.refuse = must_refuse(conn),
		};
		find_path(conn, &params);
		r = smcr_conn_start(clients->config.engine, &params, &engine);
	}
	if (r < 0) {
		again_or_fail(conn, -r, SMCR_REASON_INTERNAL);
		return;
	}
	if (conn->kind != IPC_HANDOVER_ACCEPTED)
		early_expect(conn);
	if (!(conn->noted & NOTED_GONE)) /* it may have declined at once */
		conn->engine = engine;
	conn_update_stream(conn);
}

/* ---- connect() in progress ---- */

static void on_connected(void *ctx, int error, const struct rdv_option_state *state)
{
	struct client_conn *conn = ctx;
	union ipc_addr peer;
	conn->wait = NULL;
	clients_begin(conn->clients);
	if (!error)
		error = -read_name(conn->tcp, true, &peer);
	if (!error) { /* the program's word counts for its own getpeername() only */
		conn->name.peer = peer;
		to_smcr_addr(&peer, &conn->peer);
	}
	uint32_t reason = SMCR_REASON_NONE;
	if (!error)
		reason = connected_to_itself(conn) ? (uint32_t)SMCR_REASON_LOCAL_POLICY
						   : judge_option(conn, state);
	if (error)
		conn_fail(conn, error, SMCR_REASON_NONE);
	else if (reason != SMCR_REASON_NONE)
		conn_fall_back(conn, reason);
	else
		conn_start_rendezvous(conn);
	clients_end(conn->clients);
}

/* ---- the request ---- */

/* Give the program its pair end, and go on. */
static void hand_out_pair(struct client_conn *conn, struct session *session)
{
	struct clients *clients = conn->clients;
	bool connecting = conn->kind == IPC_HANDOVER_CONNECTING;
	int program = conn_open_pair(conn, connecting);
	int r = program < 0 ? program : 0;
	if (r == 0 && connecting)
		r = rdv_connect_wait(clients->config.base, clients->config.option, conn->tcp,
				     on_connected, conn, &conn->wait);
	if (r < 0) {
		if (program >= 0)
			close(program);
		refusal_of_pair(conn, -r);
		return;
	}
	conn->session = NULL;
	session->waiting = NULL;
	session_reply_result(session, IPC_OUTCOME_PAIR, 0, 0, program);
	if (!connecting)
		conn_start_rendezvous(conn);
}

static void count_kind(struct clients_view *counts, enum ipc_handover_kind kind)
{
	switch (kind) {
	case IPC_HANDOVER_CONNECTED: counts->handovers_connected++; break;
	case IPC_HANDOVER_CONNECTING: counts->handovers_connecting++; break;
	case IPC_HANDOVER_ACCEPTED: counts->handovers_accepted++; break;
	}
}

void conn_handover(struct session *session, const struct ipc_handover *msg, int fd)
{
	struct clients *clients = session->clients;
	struct rdv_verdict verdict;
	int r = rdv_verify_socket(clients->config.option, fd, msg->kind, &verdict);
	if (refusal_of_socket(session, msg->kind, r, &verdict)) {
		close_foreign(fd, session->quota);
		return;
	}
	struct client_conn *conn = conn_new(session, msg->kind, fd);
	if (!conn) {
		clients->counts.handovers_refused++;
		session_reply_error(session, EUSERS, "smcrd carries no more connections of user %u",
				    (unsigned int)session->cred.uid);
		close_foreign(fd, session->quota);
		return;
	}
	rdv_unmark(fd, &verdict);
	count_kind(&clients->counts, msg->kind);
	conn->require = msg->flags & IPC_HANDOVER_REQUIRE;
	conn->claim_uid = verdict.option.claimed ? verdict.option.uid : session->cred.uid;
	conn->claim_program = verdict.option.program;
	conn->session = session;
	session->waiting = conn;
	int name_error = fill_name(conn, &msg->peer);
	if (name_error == 0) {
		to_smcr_addr(&conn->name.local, &conn->local);
		to_smcr_addr(&conn->name.peer, &conn->peer);
	}
	uint32_t reason =
		name_error < 0 ? (uint32_t)SMCR_REASON_SOCKET_OPTION : judge(conn, r, &verdict);
	if (reason != SMCR_REASON_NONE) {
		clients_log(clients, LOG_DEBUG, "pid %d: plain TCP: %s%s%s", (int)conn->cred.pid,
			    smcr_reason_text(reason), *verdict.text ? ": " : "", verdict.text);
		conn_fall_back(conn, reason);
	} else if (conn->kind == IPC_HANDOVER_CONNECTED) {
		conn_start_rendezvous(conn);
	} else {
		hand_out_pair(conn, session);
	}
}
