/* SPDX-License-Identifier: MIT */
/**
 * @file timer.h
 * Deadlines of an engine, in a binary heap.
 */
#ifndef SMCRD_ENGINE_TIMER_H
#define SMCRD_ENGINE_TIMER_H

#include "daemon/engine/engine.h"

struct smcr_timer {
	uint64_t deadline;
	uint64_t seq; /* timers of one deadline fire in the order they were started */
	size_t pos;   /* 1-based place in the heap, 0 = not running */
	void (*fire)(struct smcr_engine *engine, void *arg);
	void *arg;
};

void smcr_timer_init(struct smcr_timer *timer, void (*fire)(struct smcr_engine *engine, void *arg),
		     void *arg);
/** (Re)start: fires `delay` microseconds from now. Delay 0 fires in the next smcr_engine_run(), or
 * in the running one: never inside this call. */
void smcr_timer_start(struct smcr_engine *engine, struct smcr_timer *timer, uint64_t delay);
void smcr_timer_stop(struct smcr_engine *engine, struct smcr_timer *timer);
/** Starting a timer cannot fail: whatever holds timers reserves room for them when it is made, and
 *  gives it back when it goes. @return 0 or -ENOMEM */
int smcr_timer_reserve(struct smcr_engine *engine, size_t more);
void smcr_timer_unreserve(struct smcr_engine *engine, size_t less);
/* At least as many as each holds. */
#define SMCR_TIMERS_CONN 6
#define SMCR_TIMERS_LINK 5
#define SMCR_TIMERS_LGR  8
#define SMCR_TIMERS_SLAB 2
static inline bool smcr_timer_running(const struct smcr_timer *timer)
{
	return timer->pos != 0;
}

#endif
