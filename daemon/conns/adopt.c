/* SPDX-License-Identifier: MIT */
/* A program hands a TCP socket over: whether it can use SMC-R, and which way it goes. */
#include <errno.h>
#include <linux/socket.h>
#include <string.h>
#include <sys/syslog.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

/* ---- facts ---- */

/* Fill in the addresses as the program knows them. During connect() the kernel does not tell the
 * peer's address, so the program's message has to.
 */
static int fill_name(struct conn *conn, const struct conn_offer *offer)
{
	int r = 0;
	conn->name.local = offer->verdict->local_name;
	conn->name.peer = offer->verdict->peer_name;
	if (!conn->name.local.sa.sa_family)
		r = rdv_read_name(conn->tcp, false, &conn->name.local);
	if (r == 0 && !conn->name.peer.sa.sa_family &&
	    rdv_read_name(conn->tcp, true, &conn->name.peer) < 0)
		conn->name.peer = offer->msg->peer;
	if (r == 0 && conn->name.local.sa.sa_family != conn->name.peer.sa.sa_family)
		r = -EAFNOSUPPORT;
	return r;
}

static bool to_itself(const struct conn *conn)
{
	return conn->local.port == conn->peer.port && conn->local.family == conn->peer.family &&
	       memcmp(conn->local.ip, conn->peer.ip, sizeof(conn->local.ip)) == 0;
}

static bool assumed_capable(const struct conn *conn)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	return callbacks->assume_capable && callbacks->assume_capable(callbacks->ctx, &conn->peer);
}

/** Why the connection with this TCP handshake stays plain TCP (TCPO-5, TCPO-6), or
 *  SMCR_REASON_NONE. */
static uint32_t judge_option(const struct conn *conn, const struct rdv_option_state *state)
{
	enum smcr_role role =
		conn->kind == IPC_HANDOVER_ACCEPTED ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT;
	if (!conn->conns->config.option && state->negotiated != IPC_NEGOTIATED_YES)
		return assumed_capable(conn) ? SMCR_REASON_NONE : SMCR_REASON_NO_BPF;
	switch (state->negotiated) {
	case IPC_NEGOTIATED_UNKNOWN:
	case IPC_NEGOTIATED_UNCLAIMED: return SMCR_REASON_NOT_CLAIMED;
	case IPC_NEGOTIATED_DOUBTFUL: /* the library has found no Proposal */
	case IPC_NEGOTIATED_NO:
		return state->reason != SMCR_REASON_NONE ? state->reason : SMCR_REASON_PEER_NO_SMC;
	case IPC_NEGOTIATED_YES: break;
	}
	return state->role == role ? SMCR_REASON_NONE : SMCR_REASON_SOCKET_OPTION;
}

/* @return why this socket stays plain TCP at once, or SMCR_REASON_NONE */
static uint32_t judge(const struct conn *conn, int verdict_error, const struct rdv_verdict *verdict)
{
	/* The TCP option cannot be seen (no BPF), and nothing else is wrong with the socket. During
	 * connect() rdv_verify_socket() ends one step earlier, with -ENOTCONN: without BPF it
	 * cannot learn the peer's address, which the program has told. */
	bool no_option = !conn->conns->config.option &&
			 (verdict_error == -EOPNOTSUPP ||
			  (verdict_error == -ENOTCONN && verdict->local.family != 0));
	if (conn->conns->stopped)
		return SMCR_REASON_SHUTTING_DOWN;
	switch (no_option ? 0 : verdict_error) {
	case 0: break;
	case -EACCES: return SMCR_REASON_NOT_CLAIMED;
	case -EPROTONOSUPPORT: /* MPTCP */
	case -EISCONN:
	case -ENOTCONN: return SMCR_REASON_SOCKET_OPTION;
	default: return SMCR_REASON_INTERNAL;
	}
	if (to_itself(conn))
		return SMCR_REASON_OWN_HOST;
	if (conn->kind == IPC_HANDOVER_CONNECTING && !no_option)
		return SMCR_REASON_NONE; /* judged when the TCP handshake is over */
	return judge_option(conn, &verdict->option);
}

/** Ask the kernel for the peer's address. @return 0 or a negative errno */
static int find_peer(struct conn *conn)
{
	union ipc_addr peer;
	int r = rdv_read_name(conn->tcp, true, &peer);
	if (r < 0) /* the peer has reset the connection after the handshake */
		return r == -ENOTCONN ? -ECONNRESET : r;
	/* The address that the program gave is used for its own getpeername() only. */
	conn->name.peer = peer;
	conn->peer = rdv_addr_of(&peer);
	return 0;
}

static void stay_tcp(struct conn *conn, const struct rdv_option_state *state, uint32_t reason)
{
	conn->settled_tcp = state->claimed && state->negotiated == IPC_NEGOTIATED_NO;
	conn_fall_back(conn, reason);
}

/* ---- connect() in progress ---- */

static void on_connected(void *ctx, int error, const struct rdv_option_state *state)
{
	struct conn *conn = ctx;
	uint32_t reason = SMCR_REASON_NONE;
	conn->wait = NULL;
	batch_begin(conn->conns->batch);
	if (!error)
		error = -find_peer(conn);
	if (!error)
		reason = to_itself(conn) ? (uint32_t)SMCR_REASON_OWN_HOST
					 : judge_option(conn, state);
	if (error)
		conn_fail(conn, error, SMCR_REASON_NONE);
	else if (reason != SMCR_REASON_NONE)
		stay_tcp(conn, state, reason);
	else
		conn_start_rendezvous(conn);
	batch_end(conn->conns->batch);
}

/* ---- the way it goes ---- */

/* Give the program its pair end, and wait for the handshake or begin the rendezvous. @return 0, or
 * a negative errno: the connection has ended
 */
static int hand_out_pair(struct conn *conn)
{
	struct conns *conns = conn->conns;
	bool connecting = conn->kind == IPC_HANDOVER_CONNECTING;
	int program = conn_open_pair(conn, connecting);
	int r = program < 0 ? program : 0;
	if (r == 0 && connecting)
		r = rdv_connect_wait(conns->config.base, conns->config.option, conn->tcp,
				     on_connected, conn, &conn->wait);
	if (r < 0) {
		if (program >= 0)
			close(program);
		conn_asker_forget(conn->asker);
		conn_end(conn);
		return r;
	}
	conn_reply(conn, IPC_OUTCOME_PAIR, 0, program);
	if (connecting)
		early_keep_end(conn);
	else
		conn_start_rendezvous(conn);
	return 0;
}

static void count_kind(struct conns_view *counts, enum ipc_handover_kind kind)
{
	switch (kind) {
	case IPC_HANDOVER_CONNECTED: counts->handovers_connected++; break;
	case IPC_HANDOVER_CONNECTING: counts->handovers_connecting++; break;
	case IPC_HANDOVER_ACCEPTED: counts->handovers_accepted++; break;
	}
}

static int go(struct conn *conn, const struct conn_offer *offer)
{
	const struct rdv_verdict *verdict = offer->verdict;
	int name_error = fill_name(conn, offer);
	if (name_error == 0) {
		conn->local = rdv_addr_of(&conn->name.local);
		conn->peer = rdv_addr_of(&conn->name.peer);
	}
	uint32_t reason = name_error < 0 ? (uint32_t)SMCR_REASON_SOCKET_OPTION
					 : judge(conn, offer->verdict_error, verdict);
	if (reason == SMCR_REASON_INTERNAL)
		conns_warn_of_user(conn->conns, conn->quota->uid, "handed over",
				   "pid %d: a connection that was handed over stays TCP: %s",
				   (int)conn->cred.pid,
				   *verdict->text ? verdict->text
						  : strerror(-offer->verdict_error));
	if (reason != SMCR_REASON_NONE) {
		conns_log(conn->conns, LOG_DEBUG, "pid %d: plain TCP: %s%s%s", (int)conn->cred.pid,
			  smcr_reason_text(reason), *verdict->text ? ": " : "", verdict->text);
		stay_tcp(conn, &verdict->option, reason);
	} else if (conn->kind == IPC_HANDOVER_CONNECTED) {
		conn_start_rendezvous(conn);
	} else {
		return hand_out_pair(conn);
	}
	return 0;
}

int conns_adopt(struct conns *conns, const struct conn_offer *offer, int tcp)
{
	const struct rdv_verdict *verdict = offer->verdict;
	struct conn *conn = conn_new(conns, offer, tcp);
	if (!conn) {
		close_foreign(tcp, offer->quota);
		limits_update(conns, offer->quota); /* others may have made its share smaller */
		return -EUSERS;
	}
	rdv_unmark(tcp, verdict);
	count_kind(&conns->counts, offer->msg->kind);
	conn->require = offer->msg->flags & IPC_HANDOVER_REQUIRE;
	conn->claim_uid = verdict->option.claimed ? verdict->option.uid : offer->cred.uid;
	conn->claim_program = verdict->option.program;
	conn->asker = offer->asker;
	conn->asker->conn = conn;
	return go(conn, offer);
}
