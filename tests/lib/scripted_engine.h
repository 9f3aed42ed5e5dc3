/* SPDX-License-Identifier: MIT */
/**
 * @file scripted_engine.h
 * This replaces the engine in tests of the code above it: connections do what the test says, and
 * send every byte back. A caller that breaks a rule of engine.h (consumes more bytes than there
 * are, commits more than fit) is aborted. A test program includes this once.
 */
#ifndef SMCRD_TESTS_LIB_SCRIPTED_ENGINE_H
#define SMCRD_TESTS_LIB_SCRIPTED_ENGINE_H

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "daemon/conns/conns.h"
#include "daemon/smcr/engine.h"
#include "daemon/smcr/view.h"

/* ---- what the engine has to do, and what it was told (in shared memory) ---- */

enum scripted_outcome {
	OUTCOME_HOLD, /* until the test says otherwise */
	OUTCOME_ESTABLISHED,
	OUTCOME_FALLBACK,
	OUTCOME_FAILED,
};

static struct script {
	_Atomic int outcome;     /* of smcr_conn_start(), raised before that returns */
	_Atomic int start_error; /* what smcr_conn_start() returns instead; 0: nothing */
	_Atomic int decline;     /* a fallback first sends 28 bytes (a Decline) on TCP */
	_Atomic int no_sharing;
	_Atomic int administrator; /* the test's own user is an administrator */
	_Atomic int capable;       /* peers are assumed to speak SMC-R */
	_Atomic int peer_first;    /* the peer has ended each connection first */
	_Atomic int
		hold_emptied; /* memory that was shared is empty: nothing goes on until this is 0 */
	_Atomic int emptied;  /* how often memory that was shared was given away */
	_Atomic int slow_aborts; /* they are only counted, and nothing more is told */
	_Atomic int silent;      /* nothing is sent back, and nothing consumed, until command 'g' */
	_Atomic int starts, shutdowns, closes, closes_unread, aborts, tcp_resets, tcp_fins, clc;
	_Atomic int warnings; /* lines of the log */
	char warning[512];    /* the last of them, complete when `warnings` has counted it */
	_Atomic int give_ups, last_role, last_rcvbuf, last_sndbuf, last_family;
	_Atomic uint64_t last_keepalive;
	_Atomic long taken;         /* bytes that programs wrote */
	_Atomic long consumed;      /* bytes that programs read, as far as the engine was told */
	_Atomic long most_consumed; /* at once */
	_Atomic int urgent_taken, urgent_refused, urgent_announced;
} * script;

#ifndef RING
#define RING 102400 /* whole pages */
#endif

struct smcr_conn {
	void *user;
	uint8_t *tx, *rx;
	uint64_t tx_head, tx_tail, rx_head, rx_tail; /* bytes put in and taken out so far */
	bool established, shut, eof;
	bool shared; /* unshare() has to come before the memory goes */
	bool was_shared;
	bool urgent;         /* an urgent byte was written and has not been consumed */
	bool announced;      /* an urgent byte is announced */
	uint64_t urgent_end; /* position behind the urgent byte, the same in both rings */
	struct smcr_conn *next;
};

static struct smcr_conn *fake_conns;

static void fake_event(struct smcr_conn *conn, struct smcr_conn_event event)
{
	conns_event(conn->user, &event);
}

static void fake_unshare(struct smcr_conn *conn)
{
	if (conn->shared)
		conns_unshare(conn->user);
	conn->shared = false;
}

static void fake_closed(struct smcr_conn *conn, struct smcr_conn_event event)
{
	fake_unshare(conn);
	event.type = SMCR_CONN_CLOSED;
	fake_event(conn, event);
}

/* As the engine and its host do: the file's pages are gone, also for the program that has mapped
 * them. */
static void fake_empty(struct smcr_conn *conn)
{
	fake_unshare(conn);
	if (!conn->was_shared)
		return;
	madvise(conn->rx, RING, MADV_REMOVE);
	madvise(conn->tx, RING, MADV_REMOVE); /* no effect after a takeover */
	script->emptied++;
	while (script->hold_emptied)
		sched_yield();
}

static void fake_free(struct smcr_conn *conn)
{
	fake_empty(conn);
	for (struct smcr_conn **at = &fake_conns; *at; at = &(*at)->next)
		if (*at == conn) {
			*at = conn->next;
			break;
		}
	munmap(conn->tx, 2 * RING);
	free(conn);
}

static void fake_settle(struct smcr_conn *conn, int outcome)
{
	static const uint8_t decline[28] = { 0xe2, 0xd4, 0xc3, 0xd9 };
	switch (outcome) {
	case OUTCOME_ESTABLISHED:
		conn->established = true;
		fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_ESTABLISHED });
		break;
	case OUTCOME_FALLBACK:
		if (script->decline)
			conns_clc_send(conn->user, decline, sizeof(decline));
		fake_event(conn, (struct smcr_conn_event){ .type = SMCR_CONN_FALLBACK,
							   .reason = SMCR_REASON_PEER_DECLINED,
							   .peer_reason = 0x03070000 });
		fake_free(conn);
		break;
	case OUTCOME_FAILED:
		fake_event(conn, (struct smcr_conn_event){ .type = SMCR_CONN_FAILED,
							   .error = ETIMEDOUT });
		fake_free(conn);
		break;
	default: break;
	}
}

int smcr_conn_start(struct smcr_engine *engine, const struct smcr_conn_params *params,
		    struct smcr_conn **ret_conn)
{
	(void)engine;
	if (script->start_error)
		return script->start_error;
	struct smcr_conn *conn = calloc(1, sizeof(*conn));
	conn->user = params->user;
	conn->tx = mmap(NULL, 2 * RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	conn->rx = conn->tx + RING;
	conn->next = fake_conns;
	fake_conns = conn;
	script->starts++;
	script->last_role = (int)params->role;
	script->last_rcvbuf = (int)params->rcvbuf;
	script->last_sndbuf = (int)params->sndbuf;
	script->last_family = params->peer.family;
	*ret_conn = conn;
	fake_settle(conn, script->outcome);
	return 0;
}

bool smcr_conn_takes_clc(const struct smcr_conn *conn, const uint8_t *msg, size_t len)
{
	(void)conn;
	(void)msg;
	(void)len;
	return true;
}

void smcr_conn_clc_input(struct smcr_conn *conn, const uint8_t *msg, size_t len)
{
	(void)conn;
	(void)msg;
	(void)len;
	script->clc++;
}

void smcr_conn_clc_garbage(struct smcr_conn *conn)
{
	fake_settle(conn, OUTCOME_FAILED);
}

bool smcr_conn_wants_clc(const struct smcr_conn *conn)
{
	return !conn->established;
}

void smcr_conn_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event)
{
	if (event == SMCR_TCP_FIN) {
		script->tcp_fins++;
		return;
	}
	script->tcp_resets++;
	if (!conn->established) {
		fake_event(conn, (struct smcr_conn_event){ .type = SMCR_CONN_FAILED,
							   .error = ECONNRESET });
		fake_free(conn);
		return;
	}
	fake_event(conn, (struct smcr_conn_event){ .type = SMCR_CONN_RESET, .error = ECONNRESET });
	fake_closed(conn, (struct smcr_conn_event){ .tcp_reset = true });
	fake_free(conn);
}

void smcr_conn_give_up(struct smcr_conn *conn, enum smcr_reason reason)
{
	(void)reason;
	script->give_ups++;
	fake_settle(conn, OUTCOME_FALLBACK);
}

static int ring_segments(uint8_t *ring, size_t size, uint64_t at, size_t len, struct iovec iov[2])
{
	size_t split = at % size, first = len < size - split ? len : size - split;
	iov[0] = (struct iovec){ ring + split, first };
	iov[1] = (struct iovec){ ring, len - first };
	return len == 0 ? 0 : len > first ? 2 : 1;
}

/* Send back what was written, as far as the receive ring takes it, but nothing behind an urgent
 * byte.
 */
static void fake_echo(struct smcr_conn *conn)
{
	bool moved = false;
	uint64_t end =
		conn->urgent && conn->urgent_end < conn->tx_head ? conn->urgent_end : conn->tx_head;
	while (!script->silent && conn->tx_tail < end && conn->rx_head - conn->rx_tail < RING) {
		size_t from = conn->tx_tail % RING, to = conn->rx_head % RING;
		size_t n = end - conn->tx_tail, room = RING - (conn->rx_head - conn->rx_tail);
		n = n < room ? n : room;
		n = n < RING - from ? n : RING - from;
		n = n < RING - to ? n : RING - to;
		memcpy(conn->rx + to, conn->tx + from, n);
		conn->tx_tail += n;
		conn->rx_head += n;
		moved = true;
	}
	bool ended = conn->shut && conn->tx_tail == conn->tx_head && !conn->eof;
	conn->eof |= ended;
	if (moved || ended)
		fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_READABLE });
	if (moved)
		fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_WRITABLE });
}

int smcr_conn_tx_space(struct smcr_conn *conn, struct iovec iov[2])
{
	size_t room = RING - (conn->tx_head - conn->tx_tail);
	return ring_segments(conn->tx, RING, conn->tx_head, conn->shut ? 0 : room, iov);
}

void smcr_conn_tx_commit(struct smcr_conn *conn, size_t n)
{
	if (n > RING - (conn->tx_head - conn->tx_tail))
		abort();
	conn->tx_head += n;
	script->taken += (long)n;
	fake_echo(conn);
}

int smcr_conn_tx_commit_urgent(struct smcr_conn *conn, size_t n)
{
	if (conn->urgent) {
		script->urgent_refused++;
		return -EAGAIN;
	}
	conn->urgent = true;
	conn->announced = false;
	conn->urgent_end = conn->tx_head + n;
	script->urgent_taken++;
	fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_URGENT });
	smcr_conn_tx_commit(conn, n);
	return 0;
}

void smcr_conn_tx_announce_urgent(struct smcr_conn *conn)
{
	if (conn->announced)
		return;
	conn->announced = true;
	script->urgent_announced++;
	fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_URGENT });
}

enum smcr_urgent smcr_conn_rx_urgent(const struct smcr_conn *conn, size_t *ret_offset)
{
	if (!conn->urgent || conn->rx_head < conn->urgent_end)
		return conn->urgent || conn->announced ? SMCR_URGENT_PENDING : SMCR_URGENT_NONE;
	*ret_offset = conn->urgent_end - 1 - conn->rx_tail;
	return SMCR_URGENT_PRESENT;
}

int smcr_conn_rx_data(struct smcr_conn *conn, struct iovec iov[2])
{
	return ring_segments(conn->rx, RING, conn->rx_tail, conn->rx_head - conn->rx_tail, iov);
}

void smcr_conn_rx_consume(struct smcr_conn *conn, size_t n)
{
	if (n > conn->rx_head - conn->rx_tail)
		abort();
	conn->rx_tail += n;
	script->consumed += (long)n;
	if ((long)n > script->most_consumed)
		script->most_consumed = (long)n;
	if (conn->urgent && conn->rx_tail >= conn->urgent_end) {
		conn->urgent = false;
		fake_event(conn, (struct smcr_conn_event){ SMCR_CONN_WRITABLE });
	}
	fake_echo(conn);
}

bool smcr_conn_rx_eof(const struct smcr_conn *conn)
{
	return conn->eof && conn->rx_tail == conn->rx_head;
}

int smcr_conn_share(struct smcr_conn *conn, struct smcr_conn_memory *ret_memory)
{
	conn->shared = conn->was_shared = true;
	*ret_memory = (struct smcr_conn_memory){
		.element = conn->rx, .element_size = RING, .buffer = conn->tx, .buffer_size = RING
	};
	return 0;
}

void smcr_conn_get_positions(const struct smcr_conn *conn,
			     struct smcr_conn_positions *ret_positions)
{
	*ret_positions = (struct smcr_conn_positions){ .consumed = conn->rx_tail,
						       .produced = conn->rx_head,
						       .completed = conn->tx_tail,
						       .committed = conn->tx_head };
}

void smcr_conn_shutdown(struct smcr_conn *conn)
{
	script->shutdowns++;
	conn->shut = true;
	fake_echo(conn);
}

void smcr_conn_close(struct smcr_conn *conn, bool unread)
{
	bool reset = unread || conn->rx_tail != conn->rx_head;
	script->closes++;
	script->closes_unread += reset;
	fake_closed(conn, (struct smcr_conn_event){ .tcp_reset = reset,
						    .peer_first = script->peer_first });
	fake_free(conn);
}

void smcr_conn_abort(struct smcr_conn *conn)
{
	script->aborts++;
	if (script->slow_aborts)
		return;
	fake_closed(conn, (struct smcr_conn_event){ .tcp_reset = true });
	fake_free(conn);
}

void smcr_conn_keepalive(struct smcr_conn *conn, uint64_t interval)
{
	(void)conn;
	script->last_keepalive = interval;
}

void *smcr_conn_user(const struct smcr_conn *conn)
{
	return conn->user;
}

void smcr_conn_get_view(const struct smcr_conn *conn, struct smcr_conn_view *ret_view)
{
	*ret_view = (struct smcr_conn_view){ .lgr_id = conn->established ? 3 : 0,
					     .link_number = conn->established ? 2 : 0,
					     .rmbe_size = 65536,
					     .peer_rmbe_size = 32768,
					     .user = conn->user };
}

/* Two links of the group that all connections are in, and one link of another group. */
void smcr_engine_each_link(const struct smcr_engine *engine,
			   void (*fn)(void *arg, const struct smcr_link_view *view), void *arg)
{
	(void)engine;
	fn(arg, &(struct smcr_link_view){ .lgr_id = 2, .number = 2, .device_name = "roce_x" });
	fn(arg, &(struct smcr_link_view){ .lgr_id = 3, .number = 1, .device_name = "roce_0" });
	fn(arg, &(struct smcr_link_view){ .lgr_id = 3, .number = 2, .device_name = "roce_1" });
}

#endif
