/* SPDX-License-Identifier: MIT */
/**
 * @file urgent.h
 * Urgent bytes in the streams of programs. Where they are is a matter of the plan alone: the last
 * of every `urgent_gap` bytes. So everybody knows where the next one must be: the reader's program,
 * and the observer.
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

/** Some programs send urgent data: no choice of the plan's is changed by this one. */
void urgent_plan(struct pair *pair);
/** How far the program may write in one call: up to an urgent byte, and not that, if the engine
 * cannot take it now (URG-8). */
uint64_t urgent_limit(const struct side *side, uint64_t limit);
/** The program has no room for all that it wants to write: of an urgent byte among that it may
 * tell.
 */
void urgent_announce(struct side *side);
/** Has it told of one that has not been put into the send buffer yet? */
static inline bool urgent_is_announced(const struct side *side)
{
	return side->urgent_announced > side->committed;
}
/** The program has put `len` bytes into the send buffer: side->committed counts them. */
void urgent_commit(struct side *side, size_t len);
/** The program is about to read `len` of `have` bytes: an urgent one among them is where it
 * belongs, was announced, and is the last of what there is. */
void urgent_read(struct side *side, size_t len, size_t have);
/** URGENT was raised. */
void urgent_raised(struct side *side);

/* obs_urgent.c: what the observer makes of it. */
struct smcr_cdc;
struct obs_flow;
/** A WRITE of `len` bytes at flow->written is posted. */
void obs_urgent_write(struct obs_flow *flow, uint32_t len);
/** A CDC with this position is posted; flow->last is the one before. */
void obs_urgent_cdc(struct obs_flow *flow, const struct smcr_cdc *cdc, uint64_t produced);
/** Is there an urgent byte in from..to of the stream that the peer of this flow's writer sends? */
bool obs_urgent_consumed(const struct obs_flow *flow, uint64_t from, uint64_t to);

#endif
