/* SPDX-License-Identifier: MIT */
/**
 * @file heartbeat.h
 * The event loop shows that it turns: to the BPF programs, which promise SMC-R to no peer while the
 * daemon stands still, and to the service manager, if that watches (WatchdogSec= of systemd). And
 * what those programs have refused is told to the log, and what they left on TCP is taken from
 * them.
 */
#ifndef SMCRD_HEARTBEAT_H
#define SMCRD_HEARTBEAT_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/events/events.h"
#include "daemon/events/plain.h"
#include "daemon/host/turns.h"
#include "daemon/rendezvous/egress.h"
#include "daemon/rendezvous/option.h"

struct heartbeat {
	struct event *timer;
	struct rdv_option *option;
	struct plain *plain;
	struct egress *egress;
	struct events *events;
	struct turns *turns;
	uint64_t watchdog_us; /* the service manager ends who says nothing for so long; 0: it does
				 not */
	uint64_t told_us;     /* when it was last told */
	uint32_t refused;     /* listeners, as the log was told */
	uint64_t logged_us;   /* when; 0: never */
	uint64_t egress_us[NUM_EGRESS_KINDS]; /* when events have told of it; likewise */
};

/** Whom it is for, and what is looked at with each beat. All but `turns` may be NULL. */
struct heartbeat_of {
	struct turns *turns; /* where the time that a beat takes is counted */
	struct rdv_option *option;
	struct plain *plain;
	struct egress *egress;
	struct events *events; /* NULL: no egress either */
};

/**
 * Beat from here on, twice a second. Where nobody looks there is no timer.
 * @return 0, -ENOMEM
 */
int heartbeat_start(struct heartbeat *heartbeat, struct event_base *base,
		    const struct heartbeat_of *of);

/** One that was never started is allowed. */
void heartbeat_stop(struct heartbeat *heartbeat);

#endif
