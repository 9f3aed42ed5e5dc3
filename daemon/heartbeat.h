/* SPDX-License-Identifier: MIT */
/**
 * @file heartbeat.h
 * The event loop shows that it runs: to the BPF programs, which promise SMC-R to no peer while the
 * daemon stands still, and to the service manager, if that watches (WatchdogSec= of systemd). Each
 * beat also logs what the BPF programs have refused, and reads which connections they have left on
 * TCP.
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
	uint64_t watchdog_us; /* the service manager ends a daemon silent for so long; 0: never */
	uint64_t told_us;     /* when the service manager was last told */
	uint32_t refused;     /* refused listeners, as logged last */
	uint64_t logged_us;   /* when that was logged; 0: never */
	uint64_t egress_us[NUM_EGRESS_KINDS]; /* when the last event told of it; 0: never */
};

/** What each beat uses. All members except `turns` may be NULL. */
struct heartbeat_of {
	struct turns *turns; /* where the time that a beat takes is counted */
	struct rdv_option *option;
	struct plain *plain;
	struct egress *egress;
	struct events *events; /* NULL: `egress` is NULL too */
};

/**
 * Beat twice a second from now on. If nobody needs the beats there is no timer.
 * @return 0, -ENOMEM
 */
int heartbeat_start(struct heartbeat *heartbeat, struct event_base *base,
		    const struct heartbeat_of *of);

/** A heartbeat that was never started is allowed. */
void heartbeat_stop(struct heartbeat *heartbeat);

#endif
