/* SPDX-License-Identifier: MIT */
#include "daemon/conns/pump.h"

#include <errno.h>
#include <sys/epoll.h>

#include "daemon/conns/pump_internal.h"

void pump_note(struct pump *pump, uint32_t events)
{
	if (!events || events & ~(uint32_t)EPOLLOUT) {
		pump->tx_ready = true;
		pump->tx_full = false; /* urgent bytes and the end are told without room */
	}
	if (!events || events & EPOLLOUT)
		pump->rx_full = false;
	if (!events)
		pump->rx_ready = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		pump->write_ended = true;
	/* The end of both directions counts as close() too (CLOSE-5). */
	if (events & (EPOLLHUP | EPOLLERR))
		pump->closed = true;
	if (events & EPOLLERR)
		pair_closed(pump->pair); /* sets pair->unread */
}

void pump_note_readable(struct pump *pump)
{
	pump->rx_ready = true;
}

void pump_note_writable(struct pump *pump)
{
	pump->tx_full = false;
}

static void close_conn(struct pump *pump)
{
	pump->closing = true;
	if (pump->linger_reset)
		smcr_conn_abort(pump->conn);
	else
		smcr_conn_close(pump->conn, pump->pair->unread);
}

/* The program writes no more, and everything it wrote was taken. */
static void end_tx(struct pump *pump)
{
	pump->tx_ready = false;
	if (pump->shared && !shared_tx_finish(pump))
		return;
	if (!pump_active(pump))
		return;
	/* The program may have closed, and the event that says so may not have come yet. */
	pump->closed = pump->closed || pair_closed(pump->pair);
	/* If the program had shut writing down before it closed, the peer's program gets end of
	 * file, even if the close() becomes a reset. */
	if (!pump->tx_ended && (!pump->closed || pump->pair->shut)) {
		pump->tx_ended = true;
		smcr_conn_shutdown(pump->conn);
	}
	if (pump_active(pump) && pump->closed)
		close_conn(pump);
}

void pump_cut(struct iovec iov[2], int n, size_t max)
{
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > max)
			iov[i].iov_len = max;
		max -= iov[i].iov_len;
	}
}

/* URG-8: an urgent byte waits until the peer has consumed the one before. @return false: it waits
 */
static bool commit_urgent(struct pump *pump)
{
	pump->urgent_waits = smcr_conn_tx_commit_urgent(pump->conn, 1) == -EAGAIN;
	if (!pump->urgent_waits && pump->shared)
		shared_tx_put(pump, 1);
	return !pump->urgent_waits;
}

static void commit(struct pump *pump, size_t n)
{
	if (!pump->shared || shared_tx_put(pump, n))
		smcr_conn_tx_commit(pump->conn, n);
}

static size_t bytes_of(const struct iovec iov[2], int n)
{
	return (n > 0 ? iov[0].iov_len : 0) + (n > 1 ? iov[1].iov_len : 0);
}

/* If the room is too small, the engine tells WRITABLE later. */
static bool has_space(struct pump *pump, const struct iovec iov[2], int n)
{
	return n > 0 && (!pump->shared || shared_tx_worth(pump, bytes_of(iov, n)));
}

/* Announce an urgent byte to the peer even if the bytes before it do not fit (URG-2). */
static void announce_urgent(struct pump *pump)
{
	if (pair_urgent_pending(pump->pair))
		smcr_conn_tx_announce_urgent(pump->conn);
}

static enum step take_from_pair(struct pump *pump)
{
	size_t moved = 0;
	while (pump_active(pump) && pump->tx_ready && !pump->tx_full) {
		struct iovec iov[2];
		if (moved >= TURN)
			return STEP_MORE;
		if (pump->urgent_waits && !commit_urgent(pump)) {
			pump->tx_full = true;
			return STEP_WAIT;
		}
		if (pump->tx_ended) {
			end_tx(pump);
			break;
		}
		int n = smcr_conn_tx_space(pump->conn, iov);
		if (!has_space(pump, iov, n)) {
			pump->tx_full = true;
			announce_urgent(pump);
			break;
		}
		pump_cut(iov, n, TURN - moved);
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
		/* The usual case: the pair is known to be empty, without another call that gives
		 * EAGAIN. */
		if (pump->pair->drained && !pump->write_ended)
			pump->tx_ready = false;
		if (pump->pair->urgent)
			commit_urgent(pump);
		else
			commit(pump, (size_t)got);
		pair_settle(pump->pair);
	}
	return STEP_WAIT;
}

/* End the sending direction if everything was taken. Perhaps no event tells of that. */
static enum step end_if_last(struct pump *pump)
{
	bool last_taken = pump->write_ended && pump->tx_ready && !pump->urgent_waits;
	if (pump_active(pump) && last_taken && pair_pending(pump->pair) == 0)
		end_tx(pump);
	return STEP_WAIT;
}

static enum step pump_tx(struct pump *pump)
{
	if (!pump->tx_ready || pump->tx_full || !pump_active(pump))
		return end_if_last(pump);
	if (pump->shared && !shared_tx_begin(pump))
		return end_if_last(pump);
	enum step step = take_from_pair(pump);
	if (step == STEP_WAIT)
		end_if_last(pump);
	if (pump->shared)
		shared_tx_end(pump);
	return step;
}

void pump_lose_reader(struct pump *pump)
{
	if (pair_closed(pump->pair)) {
		/* The program has closed, and the bytes that could not be delivered are unread
		 * data. */
		pump->closed = pump->write_ended = true;
		pump->pair->unread = true;
	} else {
		pump->deaf = true; /* shutdown(RD) sends nothing (CLOSE-5) */
	}
}

/* If an urgent byte was announced or has arrived, the program hears of it even if the pair is full
 * (URG-4). */
bool pump_has_room(struct pump *pump)
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

ssize_t pump_deliver(struct pump *pump, struct iovec iov[2], int n)
{
	size_t before;
	if (pump->deaf)
		return (ssize_t)bytes_of(iov, n);
	if (smcr_conn_rx_urgent(pump->conn, &before) != SMCR_URGENT_PRESENT)
		return pair_write(pump->pair, iov, n);
	if (before == 0)
		return pair_write_urgent(pump->pair, iov[0].iov_base);
	pump_cut(iov, n, before);
	return pair_write(pump->pair, iov, n);
}

static void pass_end_on(struct pump *pump)
{
	if (pump->rx_ended)
		return;
	pump->rx_ended = true;
	pair_shutdown(pump->pair);
}

void pump_settle_rx(struct pump *pump)
{
	size_t before;
	if (pump_active(pump) && smcr_conn_rx_urgent(pump->conn, &before) == SMCR_URGENT_NONE)
		pair_end_way(pump->pair);
	if (pump_active(pump) && smcr_conn_rx_eof(pump->conn))
		pass_end_on(pump);
}

static enum step pump_rx(struct pump *pump)
{
	size_t moved = 0;
	while (pump_active(pump) && pump->rx_ready && pump_has_room(pump)) {
		struct iovec iov[2];
		if (moved >= TURN)
			return STEP_MORE;
		int n = smcr_conn_rx_data(pump->conn, iov);
		if (n == 0) {
			pump->rx_ready = false;
			break;
		}
		pump_cut(iov, n, TURN - moved);
		ssize_t put = pump_deliver(pump, iov, n);
		if (put == -EAGAIN) {
			pump->rx_full = true;
			continue;
		}
		if (put == -ENOBUFS)
			return STEP_MORE;
		if (put < 0) {
			pump_lose_reader(pump);
			if (pump->closed)
				return STEP_WAIT;
			continue;
		}
		moved += (size_t)put;
		pump->rx_bytes += (size_t)put;
		smcr_conn_rx_consume(pump->conn, (size_t)put);
	}
	pump_settle_rx(pump);
	return STEP_WAIT;
}

/*
 * The program has closed with data unread: TCP would reset at once. But TCP would have sent what
 * fits into the window when the program wrote it, for example the answer to a request that was not
 * read to its end. So that is sent before the reset. @return STEP_MORE: more of it is sent in the
 * next turn
 */
static enum step close_hard(struct pump *pump)
{
	pump->tx_ready = true;
	pump->tx_full = false;
	enum step step = pump_tx(pump);
	if (step == STEP_WAIT && pump_active(pump))
		close_conn(pump);
	return step;
}

/* The program has closed, not all that it wrote can be sent yet, and bytes of the peer have come
 * that nobody will read. TCP answers such bytes with a reset. The peer's program may wait until its
 * bytes are taken before it takes ours. */
static void close_if_peer_writes(struct pump *pump)
{
	struct iovec iov[2];
	if (smcr_conn_rx_data(pump->conn, iov) == 0)
		return;
	pump->pair->unread = true;
	close_conn(pump);
}

bool pump_put_last(struct pump *pump, const struct iovec iov[2], int n)
{
	ssize_t put = n > 0 ? pair_write(pump->pair, iov, n) : 0;
	if (put > 0)
		pump->rx_bytes += (size_t)put;
	return put == (ssize_t)bytes_of(iov, n);
}

/* @return whether all bytes were delivered */
static bool deliver_last(struct pump *pump)
{
	struct iovec iov[2];
	if (pump->shared)
		return shared_last(pump);
	return !pump->rx_full && pump_put_last(pump, iov, smcr_conn_rx_data(pump->conn, iov));
}

void pump_last(struct pump *pump, bool all)
{
	if (!pump_active(pump) || pump->closed || pump->deaf)
		return;
	if (deliver_last(pump) && all)
		pass_end_on(pump);
}

void pump_look(struct pump *pump)
{
	if (pump_active(pump) && pump->shared)
		shared_look(pump);
}

static enum step run_rx(struct pump *pump)
{
	enum step step = STEP_WAIT;
	if (pump->shared && !pump->shared->rx_over)
		step = shared_rx(pump);
	if (!pump->shared || pump->shared->rx_over)
		step = pump_rx(pump);
	return step;
}

bool pump_run(struct pump *pump)
{
	enum step rx = STEP_WAIT, tx = STEP_WAIT;
	pump_look(pump);
	if (pump_active(pump) && !pump->closed)
		rx = run_rx(pump);
	if (pump_active(pump) && pump->closed && (pump->pair->unread || pump->linger_reset))
		tx = close_hard(pump);
	else if (pump_active(pump))
		tx = pump_tx(pump);
	if (pump_active(pump) && pump->closed && tx == STEP_WAIT)
		close_if_peer_writes(pump);
	return pump_active(pump) && (rx == STEP_MORE || tx == STEP_MORE);
}
