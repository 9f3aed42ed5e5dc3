/* SPDX-License-Identifier: MIT */
#include "daemon/clients/pump.h"

#include <errno.h>
#include <sys/epoll.h>

/* Bytes a direction and turn: large enough to be cheap, small enough to be fair. */
#define TURN (256 * 1024)

/* Results of a step. */
enum step {
	STEP_WAIT, /* an event will tell when there is more to do */
	STEP_MORE, /* there is more to do now */
};

static bool active(const struct pump *pump)
{
	return pump->conn && !pump->closing;
}

void pump_note(struct pump *pump, uint32_t events)
{
	if (!events || events & ~(uint32_t)EPOLLOUT)
		pump->tx_ready = true;
	if (!events || events & EPOLLOUT)
		pump->rx_full = false;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		pump->write_ended = true;
	/* Both directions ended counts as close() too (CLOSE-5). */
	if (events & (EPOLLHUP | EPOLLERR))
		pump->closed = true;
	if (events & EPOLLERR)
		pair_closed(pump->pair); /* left unread data behind? */
}

static void close_conn(struct pump *pump)
{
	pump->closing = true;
	if (pump->linger_reset)
		smcr_conn_abort(pump->conn);
	else
		smcr_conn_close(pump->conn, pump->pair->unread);
}

/* The program writes no more and all was taken. */
static void end_tx(struct pump *pump)
{
	pump->tx_ready = false;
	/* The event that tells close() from shutdown() may still be on its way. */
	pump->closed = pump->closed || pair_closed(pump->pair);
	if (pump->closed) {
		close_conn(pump);
	} else if (!pump->tx_ended) {
		pump->tx_ended = true;
		smcr_conn_shutdown(pump->conn);
	}
}

static void cut(struct iovec iov[2], int n, size_t max)
{
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > max)
			iov[i].iov_len = max;
		max -= iov[i].iov_len;
	}
}

/* URG-8: a new urgent byte waits until the peer has consumed the last one. @return false: it waits
 */
static bool commit_urgent(struct pump *pump)
{
	pump->urgent_waits = smcr_conn_tx_commit_urgent(pump->conn, 1) == -EAGAIN;
	return !pump->urgent_waits;
}

/* The peer shall hear of an urgent byte though what stands before it does not fit (URG-2). */
static void announce_urgent(struct pump *pump)
{
	if (pair_urgent_pending(pump->pair))
		smcr_conn_tx_announce_urgent(pump->conn);
}

static enum step pump_tx(struct pump *pump)
{
	size_t moved = 0;
	while (active(pump) && pump->tx_ready) {
		struct iovec iov[2];
		if (moved >= TURN)
			return STEP_MORE;
		if (pump->urgent_waits && !commit_urgent(pump)) /* WRITABLE will come */
			return STEP_WAIT;
		if (pump->tx_ended) {
			end_tx(pump);
			break;
		}
		int n = smcr_conn_tx_space(pump->conn, iov);
		if (n == 0) { /* WRITABLE will come, but the end needs no room */
			announce_urgent(pump);
			break;
		}
		cut(iov, n, TURN - moved);
		ssize_t got = pair_read(pump->pair, iov, n);
		if (got == -EAGAIN) {
			pump->tx_ready = false;
			break;
		}
		if (got <= 0) {
			end_tx(pump);
			break;
		}
		moved += (size_t)got;
		pump->tx_bytes += (size_t)got;
		/* The usual case: no need to be told by EAGAIN. */
		if (pump->pair->drained && !pump->write_ended)
			pump->tx_ready = false;
		if (pump->pair->urgent)
			commit_urgent(pump);
		else
			smcr_conn_tx_commit(pump->conn, (size_t)got);
		pair_settle(pump->pair);
	}
	if (active(pump) && pump->write_ended && pump->tx_ready && pair_pending(pump->pair) == 0)
		end_tx(pump);
	return STEP_WAIT;
}

/* The program's end takes nothing any more. */
static void lose_reader(struct pump *pump)
{
	if (pair_closed(pump->pair)) {
		/* It is gone, and what has arrived for it since is unread data. */
		pump->closed = pump->write_ended = true;
		pump->pair->unread = true;
	} else {
		pump->deaf = true; /* shutdown(RD) sends nothing (CLOSE-5) */
	}
}

/* An urgent byte is announced or here: the program is told though the pair is full (URG-4). */
static bool has_room(struct pump *pump)
{
	size_t before;
	if (!pump->rx_full)
		return true;
	if (smcr_conn_rx_urgent(pump->conn, &before) == SMCR_URGENT_NONE ||
	    !pair_make_way(pump->pair))
		return false;
	pump->rx_full = false;
	return true;
}

/* Received bytes to the program: up to an urgent one, or that alone. */
static ssize_t deliver(struct pump *pump, struct iovec iov[2], int n)
{
	size_t before;
	if (pump->deaf)
		return (ssize_t)(iov[0].iov_len + (n > 1 ? iov[1].iov_len : 0));
	if (smcr_conn_rx_urgent(pump->conn, &before) != SMCR_URGENT_PRESENT)
		return pair_write(pump->pair, iov, n);
	if (before == 0)
		return pair_write_urgent(pump->pair, iov[0].iov_base);
	cut(iov, n, before);
	return pair_write(pump->pair, iov, n);
}

static enum step pump_rx(struct pump *pump)
{
	size_t moved = 0, before;
	while (active(pump) && has_room(pump)) {
		struct iovec iov[2];
		if (moved >= TURN)
			return STEP_MORE;
		int n = smcr_conn_rx_data(pump->conn, iov);
		if (n == 0)
			break;
		cut(iov, n, TURN - moved);
		ssize_t put = deliver(pump, iov, n);
		if (put == -EAGAIN) {
			pump->rx_full = true;
			continue;
		}
		if (put == -ENOBUFS)
			return STEP_MORE;
		if (put < 0) {
			lose_reader(pump);
			if (pump->closed)
				return STEP_WAIT;
			continue;
		}
		moved += (size_t)put;
		pump->rx_bytes += (size_t)put;
		smcr_conn_rx_consume(pump->conn, (size_t)put);
	}
	if (active(pump) && smcr_conn_rx_urgent(pump->conn, &before) == SMCR_URGENT_NONE)
		pair_end_way(pump->pair);
	if (active(pump) && !pump->rx_ended && smcr_conn_rx_eof(pump->conn)) {
		pump->rx_ended = true;
		pair_shutdown(pump->pair);
	}
	return STEP_WAIT;
}

/*
 * Closed with data left unread: TCP resets at once. What fits into the window would have been sent
 * before, by the program's own write: an answer to a request that was not read to its end.
 */
static void close_hard(struct pump *pump)
{
	pump->tx_ready = true;
	pump_tx(pump);
	if (active(pump))
		close_conn(pump);
}

void pump_last(struct pump *pump)
{
	struct iovec iov[2];
	if (!active(pump) || pump->closed || pump->deaf || pump->rx_full)
		return;
	int n = smcr_conn_rx_data(pump->conn, iov);
	ssize_t put = n > 0 ? pair_write(pump->pair, iov, n) : 0;
	if (put > 0)
		pump->rx_bytes += (size_t)put;
}

bool pump_run(struct pump *pump)
{
	enum step rx = STEP_WAIT, tx = STEP_WAIT;
	if (active(pump) && !pump->closed)
		rx = pump_rx(pump);
	if (active(pump) && pump->closed && (pump->pair->unread || pump->linger_reset))
		close_hard(pump);
	if (active(pump))
		tx = pump_tx(pump);
	return active(pump) && (rx == STEP_MORE || tx == STEP_MORE);
}
