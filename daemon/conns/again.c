/* SPDX-License-Identifier: MIT */
/*
 * A client's rendezvous broke: the peer answered with something that is no CLC message, reset the
 * connection, or said nothing. Perhaps the peer never promised SMC-R: a middlebox sent the option
 * back, or the program that accepts there knows nothing of SMC-R. No byte of the program has
 * passed, so the daemon makes the connection once more as plain TCP, and the program does not
 * notice (A56).
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "daemon/conns/internal.h"
#include "daemon/rendezvous/plain.h"

/* A server that accepts late has a queue for connections that may be full, and does not answer SYNs
 * then. With so many repetitions SYNs are 8 seconds apart at most, not a minute, so that the server
 * gets one soon after it has accepted another connection. */
#define SYN_RETRIES 3

static bool is_allowed(const struct conn *conn)
{
	bool somebody_waits = conn->asker || conn->pair.fd >= 0;
	bool undecided = conn->phase == PHASE_RENDEZVOUS || conn->phase == PHASE_DECLINING;
	return conn->kind != IPC_HANDOVER_ACCEPTED && undecided && conn->tcp >= 0 &&
	       somebody_waits && !conn->require && !conn->conns->stopped;
}

static void on_connected_again(void *ctx, int error, const struct rdv_option_state *state);

static int connect_again(struct conn *conn)
{
	const struct conns_config *config = &conn->conns->config;
	int r = rdv_connect_plain(conn->tcp, &conn->name.local, &conn->name.peer);
	return r < 0 ? r
		     : rdv_connect_wait(config->base, config->option, conn->tcp, on_connected_again,
					conn, &conn->wait);
}

static void repeat_syns(struct conn *conn, int times)
{
	setsockopt(conn->tcp, IPPROTO_TCP, TCP_SYNCNT, &times, sizeof(times));
}

/* How long TCP tries to send bytes, in milliseconds, if the program does not say: the time that it
 * takes to send them again net.ipv4.tcp_retries2 times, of which 15 is the default. */
#define RETRIES_MS (924 * 1000ull)

/*
 * How long a TCP connection would wait for a server that answers nothing, in milliseconds. The
 * program's connect() has succeeded. As long as it only waits there is no limit, but for the
 * keepalives that it wants; bytes that it has written are sent again for some time; and when it has
 * closed and has written nothing, nobody waits.
 */
static uint64_t patience_ms(struct conn *conn)
{
	const int user_ms = sockopt_number(conn->tcp, IPPROTO_TCP, TCP_USER_TIMEOUT);
	const bool closed = pair_closed(&conn->pair), unsent = pair_pending(&conn->pair) > 0;
	if (unsent && user_ms > 0)
		return (uint64_t)user_ms;
	if (unsent)
		return closed ? conn->conns->config.limits.close_wait_ms : RETRIES_MS;
	if (closed)
		return 0;
	const uint64_t idle_us = sockopt_keepalive(conn->tcp, &conn->keepalive);
	if (!idle_us)
		return UINT64_MAX;
	const int probes_s = sockopt_number(conn->tcp, IPPROTO_TCP, TCP_KEEPCNT) *
			     sockopt_number(conn->tcp, IPPROTO_TCP, TCP_KEEPINTVL);
	return idle_us / 1000 + (uint64_t)probes_s * 1000;
}

/* A server that answers no SYN may just be late. */
static bool goes_on(struct conn *conn, int error)
{
	return error == ETIMEDOUT && conn->pair.fd >= 0 && !conn->conns->stopped &&
	       conns_now_ms() - conn->again_since_ms < patience_ms(conn) &&
	       connect_again(conn) == 0;
}

static void on_connected_again(void *ctx, int error, const struct rdv_option_state *state)
{
	struct conn *conn = ctx;
	(void)state;
	conn->wait = NULL;
	if (goes_on(conn, error))
		return;
	repeat_syns(conn, conn->syn_retries);
	batch_begin(conn->conns->batch);
	if (error)
		conn_fail(conn, error, SMCR_REASON_NO_ANSWER);
	else
		conn_fall_back(conn, SMCR_REASON_NO_ANSWER);
	batch_end(conn->conns->batch);
}

/* A failure that this host caused teaches nothing about the peer. */
static void note_failure(struct conn *conn, int error, uint32_t reason)
{
	if (conn->meddled || (reason != SMCR_REASON_NONE && error != ECONNRESET))
		return;
	conn_note_failure(conn, error == ECONNRESET ? CONNS_RESET : CONNS_NO_ANSWER);
}

void again_or_fail(struct conn *conn, int error, uint32_t reason)
{
	if (!is_allowed(conn)) {
		conn_fail(conn, error, reason);
		return;
	}
	conn_let_go_of_tcp(conn);
	conn->phase = PHASE_AGAIN;
	conn->again = true;
	conn->again_since_ms = conns_now_ms();
	conn->error = 0;
	note_failure(conn, error, reason);
	conn->syn_retries = sockopt_number(conn->tcp, IPPROTO_TCP, TCP_SYNCNT);
	if (conn->syn_retries > SYN_RETRIES)
		repeat_syns(conn, SYN_RETRIES);
	int r = connect_again(conn);
	if (r < 0)
		conn_fail(conn, -r, SMCR_REASON_NO_ANSWER);
}
