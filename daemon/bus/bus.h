/* SPDX-License-Identifier: MIT */
/**
 * @file bus.h
 * smcrd on the system bus (D-Bus): the methods of the one table of methods, objects for RNICs, link
 * groups and links with their properties, and events as signals. org.smcrd.Manager1(5) describes
 * what programs see of it.
 *
 *   bus.c         the loop's side: it answers what the thread asks, and tells the log
 *   letters.c     what the two tell each other
 *   thread.c      the thread: the connection to the bus, which comes back by itself
 *   calls.c       method calls: who asks, and the answers
 *   callers.c     how often one connection to the bus may call
 *   objects.c     what lies where: paths, and what sd-bus is told
 *   properties.c  properties of objects
 *   places.c      many objects at once
 *   track.c       signals of objects that come, go and change
 *   signals.c     events
 *   form.c        names and signatures that follow from the table of methods
 *   values.c      JSON as values of D-Bus, and back
 *
 * Whoever calls by the bus has the rights that the same process has at the Unix socket. Anybody may
 * call, so all of it is bounded: the bus gets a fifth of the loop's time, whoever calls how often,
 * and half a processor for its thread; calls of one connection to the bus in a second; calls at a
 * time, of one connection to the bus and of all; what a call may bring: its path, options, their
 * names and texts; and what waits to be sent. A bus that stands still, goes away or never answers
 * costs nothing but the bus.
 *
 * These functions are for the libevent base's thread, and none of them blocks but bus_free().
 */
#ifndef SMCRD_BUS_BUS_H
#define SMCRD_BUS_BUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/clients/clients.h"
#include "daemon/control/control.h"
#include "daemon/host/config.h"

#define BUS_NAME "org.smcrd"

#define BUS_MAX_CALLS           512  /* that have no answer yet */
#define BUS_MAX_CALLS_OF_SENDER 8    /* likewise, of one connection to the bus */
#define BUS_MAX_CALLS_A_SECOND  250  /* of one connection to the bus, whatever is called */
#define BUS_MAX_ALL_A_SECOND    10   /* for all objects at once; each counts as 25 calls */
#define BUS_MAX_QUEUED          64   /* messages that wait to be sent; then none is read */
#define BUS_SIGNALS_PAUSE_MS    100  /* between parts of events: peers make them, whoever listens */
#define BUS_MAX_OBJECTS         4096 /* of a kind, when all are told at once */

struct bus;

struct bus_params {
	struct event_base *base;
	const char *address; /* of the bus, as D-Bus has them; NULL: the system bus. Not copied */
	const struct control *control; /* whose events are signals */
	/** As control_handle_json(), with all that the engine wants. Requests have numbers that no
	 *  session of the Unix socket gives. The reply belongs to the thread from then on. */
	int (*call)(void *ctx, const struct clients_asker *asker, const json_t *request,
		    json_t **ret_reply);
	/** Nobody waits for that reply any more. */
	void (*gone)(void *ctx, uint64_t request);
	/** What follows is done for the bus; NULL: nobody wants to know. */
	void (*at_work)(void *ctx);
	void *ctx;
	/* For tests, which have less patience; 0: as it is meant. */
	unsigned int silence_ms;  /* so long nobody hears of what changes without an event */
	unsigned int patience_ms; /* with a bus that takes nothing */
};

/** It is off. @return 0 or -ENOMEM */
int bus_new(const struct bus_params *params, struct bus **ret_bus);
/** Be on the bus, or not; soon. Without a bus smcrd says so once and goes on trying, without hurry.
 */
void bus_configure(struct bus *bus, enum config_dbus wanted);
/** What has become of it: "on", "waits" (for the name), "refused", "unreachable" or "off". NULL is
 *  allowed. Static storage. */
const char *bus_state(const struct bus *bus);
/** An event has come. From anywhere, NULL is allowed. */
void bus_wake(struct bus *bus);
/** Waits for the thread, which is done with one message in 0.1 s. NULL is allowed. */
void bus_free(struct bus *bus);

#endif
