/* SPDX-License-Identifier: MIT */
/* The rendezvous: CLC messages between the TCP socket and the engine, and what the engine is told
 * of the connection. */
#include <errno.h>
#include <linux/socket.h>
#include <string.h>

#include "daemon/conns/internal.h"

/* The kernel reports twice the value that was set. */
static uint32_t buffer_of(int tcp, int option)
{
	int bytes = sockopt_number(tcp, SOL_SOCKET, option);
	return bytes > 0 ? (uint32_t)bytes / 2 : 0;
}

/* SO_RCVBUF and SO_SNDBUF as the program set them (RMB-6, SOCK-2); 0 where the program set none,
 * since the kernel's own choice means nothing here. */
static void find_buffers(int tcp, struct smcr_conn_params *params)
{
	int set = sockopt_number(tcp, SOL_SOCKET, SO_BUF_LOCK);
	if (set & SOCK_RCVBUF_LOCK)
		params->rcvbuf = buffer_of(tcp, SO_RCVBUF);
	if (set & SOCK_SNDBUF_LOCK)
		params->sndbuf = buffer_of(tcp, SO_SNDBUF);
}

static void find_path(const struct conn *conn, struct smcr_conn_params *params)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
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

struct conns_candidate conn_candidate(const struct conn *conn)
{
	return (struct conns_candidate){ .local = &conn->local,
					 .peer = &conn->peer,
					 .server = conn->kind == IPC_HANDOVER_ACCEPTED,
					 .uid = conn->claim_uid,
					 .program = conn->claim_program };
}

static struct smcr_needs expect(const struct conn *conn)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	const struct conns_candidate candidate = conn_candidate(conn);
	return callbacks->expect ? callbacks->expect(callbacks->ctx, &candidate)
				 : (struct smcr_needs){ 0 };
}

static enum smcr_reason must_refuse(const struct conn *conn)
{
	const struct conns_callbacks *callbacks = &conn->conns->config.callbacks;
	struct conns_candidate candidate = conn_candidate(conn);
	if (!callbacks->refuse)
		return SMCR_REASON_NONE;
	candidate.mark = (uint32_t)sockopt_number(conn->tcp, SOL_SOCKET, SO_MARK);
	return callbacks->refuse(callbacks->ctx, &candidate);
}

void conn_update_stream(struct conn *conn)
{
	enum clc_stream_mode mode = CLC_STREAM_OFF;
	if (!conn->stream)
		return;
	if (conn->smc)
		mode = smcr_conn_wants_clc(conn->smc) ? CLC_STREAM_CLC : CLC_STREAM_WATCH;
	if (mode != clc_stream_mode(conn->stream) && clc_stream_set_mode(conn->stream, mode) < 0 &&
	    conn->smc)
		smcr_conn_tcp_event(conn->smc, SMCR_TCP_RESET);
}

void conn_free_stream(struct conn *conn)
{
	rdv_connect_wait_cancel(conn->wait);
	conn->wait = NULL;
	clc_stream_free(conn->stream);
	conn->stream = NULL;
}

static bool is_clc_wanted(void *ctx, const uint8_t *msg, size_t len)
{
	const struct conn *conn = ctx;
	return !conn->smc || smcr_conn_takes_clc(conn->smc, msg, len);
}

static void on_clc_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct conn *conn = ctx;
	batch_begin(conn->conns->batch);
	if (conn->smc)
		smcr_conn_clc_input(conn->smc, msg, len);
	conn_update_stream(conn);
	batch_end(conn->conns->batch);
}

static void on_clc_garbage(void *ctx)
{
	struct conn *conn = ctx;
	batch_begin(conn->conns->batch);
	if (conn->smc && conn->phase == PHASE_RENDEZVOUS)
		smcr_conn_clc_garbage(conn->smc);
	else if (conn->smc) /* TCP carries no byte while SMC-R carries the data (GEN-3) */
		smcr_conn_tcp_event(conn->smc, SMCR_TCP_RESET);
	batch_end(conn->conns->batch);
}

static void on_tcp_event(void *ctx, enum smcr_tcp_event event, int error)
{
	struct conn *conn = ctx;
	batch_begin(conn->conns->batch);
	conn->meddled = event == SMCR_TCP_RESET && error == CLC_STREAM_MEDDLED;
	if (event == SMCR_TCP_RESET && !conn->meddled)
		conn->tcp_error = error;
	if (conn->smc)
		smcr_conn_tcp_event(conn->smc, event);
	else if (conn->phase == PHASE_DECLINING && event == SMCR_TCP_RESET)
		conn_tcp_lost(conn);
	batch_end(conn->conns->batch);
}

static void on_flushed(void *ctx)
{
	struct conn *conn = ctx;
	batch_begin(conn->conns->batch);
	if (conn->phase == PHASE_DECLINING)
		conn_fall_back(conn, conn->reason);
	batch_end(conn->conns->batch);
}

static const struct clc_stream_callbacks stream_callbacks = {
	.wanted = is_clc_wanted,
	.message = on_clc_message,
	.garbage = on_clc_garbage,
	.tcp_event = on_tcp_event,
	.flushed = on_flushed,
};

/* The peer expects CLC messages now, so an error here breaks the rendezvous. */
void conn_start_rendezvous(struct conn *conn)
{
	struct conns *conns = conn->conns;
	struct smcr_conn *smc = NULL;
	conn->phase = PHASE_RENDEZVOUS;
	int r = rdv_linger_arm(conn->tcp, &conn->linger);
	conn->armed = r == 0;
	if (r == 0)
		r = clc_stream_new(conns->config.base, conn->tcp, &stream_callbacks, conn,
				   &conn->stream);
	if (r == 0) {
		struct smcr_conn_params params = {
			.role = conn->kind == IPC_HANDOVER_ACCEPTED ? SMCR_ROLE_SERVER
								    : SMCR_ROLE_CLIENT,
			.local = conn->local,
			.peer = conn->peer,
			.expected = expect(conn),
			.user = conn,
			.pid = conn->cred.pid > 0 ? (uint32_t)conn->cred.pid : 0,
			.uid = (uint32_t)conn->quota->uid,
			.refuse = must_refuse(conn),
		};
		find_buffers(conn->tcp, &params);
		find_path(conn, &params);
		r = smcr_conn_start(conns->config.engine, &params, &smc);
	}
	if (r < 0) {
		conns_warn_of_user(conns, conn->quota->uid, "rendezvous",
				   "pid %d: a rendezvous cannot be begun: %s", (int)conn->cred.pid,
				   strerror(-r));
		again_or_fail(conn, -r, SMCR_REASON_INTERNAL);
		return;
	}
	if (conn->kind != IPC_HANDOVER_ACCEPTED)
		early_expect(conn);
	if (!conn->let_go) /* false if the engine has declined inside smcr_conn_start() */
		conn->smc = smc;
	conn_update_stream(conn);
}
