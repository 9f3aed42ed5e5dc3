/* SPDX-License-Identifier: MIT */
/**
 * @file timers.h
 * Timers in the order of their times. Room is made when a timer's owner is made, so setting a timer
 * cannot fail.
 */
#ifndef SMCRD_CM_TIMERS_H
#define SMCRD_CM_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** All zeros: not running. */
struct cm_timer {
	uint64_t at;
	size_t place; /* in the heap, from 1 on; 0: not running */
};

/** A heap: a timer is never before the one at half its place. All zeros: empty. */
struct cm_timers {
	struct cm_timer **heap; /* [1..used] */
	size_t used, room;
};

/** Make room for `count` timers in all. @return false: no memory */
bool cm_timers_reserve(struct cm_timers *timers, size_t count);
void cm_timers_free(struct cm_timers *timers);
/** Start a timer, or move it. */
void cm_timers_set(struct cm_timers *timers, struct cm_timer *timer, uint64_t at);
/** Stop a timer, which need not run. */
void cm_timers_stop(struct cm_timers *timers, struct cm_timer *timer);
/** The next timer. NULL: none runs. */
struct cm_timer *cm_timers_first(const struct cm_timers *timers);

#endif
