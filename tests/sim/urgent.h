/* SPDX-License-Identifier: MIT */
/**
 * @file urgent.h
 * Urgent bytes in the streams of programs. The plan alone decides where they are: the last of every
 * `urgent_gap` bytes is urgent. So the reader's program and the observer know where the next one
 * must be.
 */
#ifndef SMCRD_TESTS_SIM_URGENT_H
#define SMCRD_TESTS_SIM_URGENT_H

#include "tests/sim/side.h"

/** One past the first urgent byte at or after this position of a stream with urgent bytes. */
static inline uint64_t urgent_after(const struct plan *plan, uint64_t pos)
{
	return pos - pos % plan->urgent_gap + plan->urgent_gap;
}

/** Does the stream have an urgent byte right before this position? */
static inline bool urgent_before(const struct plan *plan, uint64_t pos)
{
	return plan->urgent_gap && pos && pos % plan->urgent_gap == 0;
}

/** Let some programs send urgent data. This choice does not change any other choice of the plan. */
void urgent_plan(struct pair *pair);
/** How far the program may write in one call: to the next urgent byte, or to the byte before if the
 * engine cannot take an urgent byte now (URG-8). */
uint64_t urgent_limit(const struct side *side, uint64_t limit);
/** The send buffer is full before the program has written all. If an urgent byte is among the rest,
 * the program may announce that byte. */
void urgent_announce(struct side *side);
/** Has the program announced an urgent byte that is not in the send buffer yet? */
static inline bool urgent_is_announced(const struct side *side)
{
	return side->urgent_announced > side->committed;
}
/** The program has put `len` bytes into the send buffer: side->committed counts them. */
void urgent_commit(struct side *side, size_t len);
/** The program is about to read `len` of `have` bytes. If an urgent byte is among them, check that
 * it stands where the plan puts it, was announced, and is the last byte of `have`. */
void urgent_read(struct side *side, size_t len, size_t have);
/** The engine has raised the event URGENT. */
void urgent_raised(struct side *side);

/* obs_urgent.c: the observer's part. */
struct smcr_cdc;
struct obs_flow;
/** A WRITE of `len` bytes at flow->written is posted. */
void obs_urgent_write(struct obs_flow *flow, uint32_t len);
/** A CDC with this position is posted; flow->last is the one before. */
void obs_urgent_cdc(struct obs_flow *flow, const struct smcr_cdc *cdc, uint64_t produced);
/** Is there an urgent byte in from..to of the stream that the peer of this flow's writer sends? */
bool obs_urgent_consumed(const struct obs_flow *flow, uint64_t from, uint64_t to);

#endif
