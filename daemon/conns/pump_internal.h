/* SPDX-License-Identifier: MIT */
/**
 * @file pump_internal.h
 * What pump.c (bytes through the pair) and shared.c (bytes through shared memory) have in common.
 */
#ifndef SMCRD_DAEMON_CONNS_PUMP_INTERNAL_H
#define SMCRD_DAEMON_CONNS_PUMP_INTERNAL_H

#include "daemon/conns/pump.h"
#include "daemon/conns/shared.h"

/* Most bytes that one direction moves in one turn: large enough to be cheap, small enough to be
 * fair to other connections. */
#define TURN (256 * 1024)

/* Results of a step. */
enum step {
	STEP_WAIT, /* an event will tell when there is more to do */
	STEP_MORE, /* there is more to do now */
};

static inline bool pump_active(const struct pump *pump)
{
	return pump->conn && !pump->closing && !pump->violated;
}

/** Cut the segments down to `max` bytes. */
void pump_cut(struct iovec iov[2], int n, size_t max);
/** Has the pair room for bytes to the program? For an urgent byte the pair is enlarged. */
bool pump_has_room(struct pump *pump);
/** Deliver received bytes to the program: those before an urgent byte, or the urgent byte alone.
 * @return as pair_write() */
ssize_t pump_deliver(struct pump *pump, struct iovec iov[2], int n);
/** The program's end accepts no bytes any more. */
void pump_lose_reader(struct pump *pump);
/** After bytes were delivered: end pair_make_way() if no urgent byte is left, and pass end of file
 * on. */
void pump_settle_rx(struct pump *pump);

/* shared.c, for pump->shared */
/** Account for what the program has taken and written, and publish how much of the send buffer is
 * free. @return false: the program has written nonsense; `violated` is set */
bool shared_look(struct pump *pump);
/** Forward heads of the stream into the pair (docs/data-path.md). */
enum step shared_rx(struct pump *pump);
/** To be called before bytes are taken from the pair. @return false: a writer of the library has
 * the lock */
bool shared_tx_begin(struct pump *pump);
/** Is `room` in the send buffer enough to take bytes from the pair? */
bool shared_tx_worth(struct pump *pump, size_t room);
/** Bytes of the pair were read into the send buffer: publish them. @return false: `violated` is
 * set */
bool shared_tx_put(struct pump *pump, size_t n);
/** To be called when no more bytes are taken from the pair for now. */
void shared_tx_end(struct pump *pump);
/** The program writes no more and the pair is empty: take the rest from the memory. @return false:
 * `violated` is set */
bool shared_tx_finish(struct pump *pump);
/** Write the last bytes to the program. @return whether the pair took all of them */
bool pump_put_last(struct pump *pump, const struct iovec iov[2], int n);
/** Deliver bytes as pump_last() does. @return whether all were delivered */
bool shared_last(struct pump *pump);

#endif
