/* SPDX-License-Identifier: MIT */
/**
 * @file pump_internal.h
 * What the two ways that bytes take share: pump.c (through the pair) and shared.c (through memory).
 */
#ifndef SMCRD_DAEMON_CONNS_PUMP_INTERNAL_H
#define SMCRD_DAEMON_CONNS_PUMP_INTERNAL_H

#include "daemon/conns/pump.h"
#include "daemon/conns/shared.h"

/* Bytes a direction and turn: large enough to be cheap, small enough to be fair. */
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
/** May bytes go into the pair? An urgent byte makes room. */
bool pump_has_room(struct pump *pump);
/** Received bytes to the program: up to an urgent one, or that alone. As pair_write(). */
ssize_t pump_deliver(struct pump *pump, struct iovec iov[2], int n);
/** The program's end takes nothing any more. */
void pump_lose_reader(struct pump *pump);
/** What follows once bytes were received or delivered: end of file, no urgent byte any more. */
void pump_settle_rx(struct pump *pump);

/* shared.c, for pump->shared */
/** See what the program has taken and written, and tell it what has arrived and left. False: it has
 *  written nonsense, or memory is short: `violated` is set. */
bool shared_look(struct pump *pump);
/** Forward heads of the stream into the pair. */
enum step shared_rx(struct pump *pump);
/** Before bytes are taken from the pair: false: a writer of the library has the lock. */
bool shared_tx_begin(struct pump *pump);
/** Is it worth while to take bytes from the pair, with so much room? */
bool shared_tx_worth(struct pump *pump, size_t room);
/** Bytes of the pair lie in the send buffer, and are to be committed. */
bool shared_tx_put(struct pump *pump, size_t n);
/** No more are taken for now. */
void shared_tx_end(struct pump *pump);
/** The program writes no more, and nothing is left in the pair: what the memory has is the rest. */
bool shared_tx_finish(struct pump *pump);
/** Within RESET: the program gets the rest, as far as the pair has room. */
void shared_last(struct pump *pump);

#endif
