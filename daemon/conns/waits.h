/* SPDX-License-Identifier: MIT */
/**
 * @file waits.h
 * Connections that wait for something, mostly all equally long. They are in the order of their
 * deadlines, so adding, removing and finding the next deadline cost the same however many there
 * are.
 */
#ifndef SMCRD_DAEMON_CONNS_WAITS_H
#define SMCRD_DAEMON_CONNS_WAITS_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/conns/batch.h"

/** A part of what waits. All zero: it does not wait. */
struct wait {
	struct wait *prev, *next;
	uint64_t due_ms; /* of conns_now_ms(); 0: it does not wait */
};

struct waits {
	struct event *timer;
	struct batch *batch;
	struct wait *first;
	void (*due)(struct wait *wait);
};

/** @param due  called inside the batch when the time of `wait` is over; it waits no more
 * @return 0 or -ENOMEM */
int waits_open(struct waits *waits, struct event_base *base, struct batch *batch,
	       void (*due)(struct wait *wait));
/** Nothing may wait any more. Does nothing if waits_open() was not called or has failed. */
void waits_close(struct waits *waits);

/** Wait from now on for so many milliseconds. What waits already waits anew. It costs little if
 * `ms` is the same number each time. */
void waits_add(struct waits *waits, struct wait *wait, uint32_t ms);
/** Does nothing if it does not wait. */
void waits_remove(struct waits *waits, struct wait *wait);

#endif
