/* SPDX-License-Identifier: MIT */
/**
 * @file clock.h
 * Virtual time in microseconds. Events come by time, then by the order of clock_at().
 */
#ifndef SMCRD_TESTS_SIM_CLOCK_H
#define SMCRD_TESTS_SIM_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*event_fn)(void *object, uint64_t arg);

struct clock_event {
	uint64_t when, order;
	event_fn fn;
	void *object;
	uint64_t arg;
};

struct clock {
	uint64_t now;
	uint64_t next_order;
	uint64_t fired;
	struct clock_event *heap;
	size_t len, cap;
};

void clock_free(struct clock *clock);
/** Call fn(object, arg) at `when` (not before now). Events cannot be cancelled: objects live as
 * long as the world, and `arg` tells an event that comes too late. */
void clock_at(struct clock *clock, uint64_t when, event_fn fn, void *object, uint64_t arg);
void clock_in(struct clock *clock, uint64_t delay, event_fn fn, void *object, uint64_t arg);
/** Fire the next event; one whose time is over fires late, at `now`. @return false when there is
 * none */
bool clock_step(struct clock *clock);

#define USEC  UINT64_C(1)
#define MSEC  UINT64_C(1000)
#define SEC   UINT64_C(1000000)
#define HOURS (3600 * SEC)

#endif
