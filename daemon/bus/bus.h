/* SPDX-License-Identifier: MIT */
/**
 * @file bus.h
 * smcrd on the system bus (D-Bus): the methods of daemon/control, objects for RNICs, link groups
 * and links with their properties, and events as signals. org.smcrd.Manager1(5) describes the
 * interface.
 *
 *   bus.c         the part in the event loop: answers the thread, and writes to the log
 *   letters.c     the messages between loop and thread
 *   thread.c      the thread: the connection to the bus, which it makes again when that breaks
 *   calls.c       method calls: who asks, and the answers
 *   callers.c     how often one connection to the bus may call
 *   objects.c     paths of objects, and what sd-bus is told of them
 *   properties.c  properties of objects
 *   places.c      many objects at once
 *   track.c       signals of objects that come, go and change
 *   signals.c     events
 *   form.c        names and signatures that follow from the table of methods
 *   values.c      JSON as values of D-Bus, and back
 *
 * A caller on the bus has the rights that the same process has at the Unix socket. Any process may
 * call, so everything is bounded. The bus gets a fifth of the loop's time, however often it is
 * called, and half a processor for its thread. Bounded too are calls of one connection to the bus
 * in a second; calls at a time, of one connection and of all; the size of a call: its path,
 * options, their names and texts; and the messages that wait to be sent. If the bus hangs, ends or
 * never answers, only the bus interface of smcrd is affected.
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

#define BUS_MAX_CALLS           512  /* calls without an answer yet */
#define BUS_MAX_CALLS_OF_SENDER 8    /* the same, of one connection to the bus */
#define BUS_MAX_CALLS_A_SECOND  250  /* of one connection to the bus, of any methods */
#define BUS_MAX_ALL_A_SECOND    10   /* for all objects at once; each counts as 25 calls */
#define BUS_MAX_QUEUED          64   /* messages that wait to be sent; with as many, none is read */
#define BUS_SIGNALS_PAUSE_MS    100  /* between batches of events, which peers can cause */
#define BUS_MAX_OBJECTS         4096 /* of a class, when all are told at once */

struct bus;

struct bus_params {
	struct event_base *base;
	const char *address; /* D-Bus address of the bus; NULL: the system bus. Not copied */
	const struct control *control; /* source of the events for signals */
	/** As control_handle_json(), with everything that the engine needs around it. Requests have
	 * numbers that the Unix socket never uses. The reply belongs to the thread afterwards. */
	int (*call)(void *ctx, const struct clients_asker *asker, const json_t *request,
		    json_t **ret_reply);
	/** Nobody waits for the reply to this request any more. */
	void (*gone)(void *ctx, uint64_t request);
	/** Work for the bus begins; may be NULL. */
	void (*at_work)(void *ctx);
	void *ctx;
	/* Shorter times for tests; 0: the normal ones. */
	unsigned int silence_ms;  /* how long changes without an event are not told */
	unsigned int patience_ms; /* how long the bus may take no message */
};

/** Make a struct bus, which is not on the bus yet. @return 0 or -ENOMEM */
int bus_new(const struct bus_params *params, struct bus **ret_bus);
/** Connect to the bus, or disconnect, soon. If there is no bus, smcrd logs that once and tries
 * again from time to time.
 */
void bus_configure(struct bus *bus, enum config_dbus wanted);
/** The present state: "on", "waits" (for the name), "refused", "unreachable" or "off". NULL is
 * allowed. Static storage. */
const char *bus_state(const struct bus *bus);
/** An event has come. From anywhere, NULL is allowed. */
void bus_wake(struct bus *bus);
/** Wait for the thread, which needs at most 0.1 s for a message, and free. NULL is allowed. */
void bus_free(struct bus *bus);

#endif
