/* SPDX-License-Identifier: MIT */
/**
 * @file timer.h
 * Timers of an engine. A timer is embedded in the structure that it belongs to, so starting it
 * cannot fail.
 */
#ifndef SMCRD_SMCR_TIMER_H
#define SMCRD_SMCR_TIMER_H

#include "daemon/smcr/engine.h"

struct smcr_timer {
	uint64_t deadline;
	uint64_t seq; /* timers of one deadline fire in the order they were started */
	bool running;
	/* place in the heap; `prev` of a first child is the parent */
	struct smcr_timer *child, *next, *prev;
	void (*fire)(struct smcr_engine *engine, void *arg);
	void *arg;
};

void smcr_timer_init(struct smcr_timer *timer, void (*fire)(struct smcr_engine *engine, void *arg),
		     void *arg);
/** Start or restart a timer: it fires `delay` microseconds from now. With delay 0 it fires in the
 * next smcr_engine_run(), or in the one that is running, but never inside this call. */
void smcr_timer_start(struct smcr_engine *engine, struct smcr_timer *timer, uint64_t delay);
void smcr_timer_stop(struct smcr_engine *engine, struct smcr_timer *timer);
static inline bool smcr_timer_running(const struct smcr_timer *timer)
{
	return timer->running;
}

#endif
