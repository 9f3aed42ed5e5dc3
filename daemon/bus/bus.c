/* SPDX-License-Identifier: MIT */
/*
 * The part of the bus interface in the event loop. It answers the thread, in turns of a
 * millisecond. After a turn the loop does other work for four times as long, so that a flood of
 * calls takes no more than a fifth of the loop's time.
 */
#include "daemon/bus/bus.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/bus/internal.h"
#include "daemon/fabric/fabric.h"
#include "daemon/host/log.h"

#define ON_THE_BUS "smcrd is on the system bus as " BUS_NAME

#define TURN_US     1000
#define REST        4 /* times as long as a turn took */
#define SILENCE_MS  10000
#define PATIENCE_MS 30000

struct bus {
	struct bus_params params;
	enum config_dbus wanted;
	struct orders orders;
	struct bus_thread *thread; /* NULL: it was never needed, or could not be started */
	struct event *asked;       /* the thread has sent a letter */
	struct event *rested;
	uint64_t paid_until; /* until when the loop rests for the turns so far */
	enum bus_told told;
	struct letter *open; /* calls without an answer yet */
};

/* ---- what the log is told ---- */

static void tell_absence(const struct bus *bus, const char *why)
{
	log_message(bus->wanted == CONFIG_DBUS_YES ? LOG_WARNING : LOG_INFO,
		    "the system bus cannot be reached (%s): smcrd goes on without D-Bus, "
		    "and tries again now and then",
		    why);
}

static void tell_refusal(const struct bus *bus, const char *why)
{
	log_message(bus->wanted == CONFIG_DBUS_YES ? LOG_WARNING : LOG_NOTICE,
		    "the system bus refuses the name " BUS_NAME " (%s): 'smcrctl doctor' tells "
		    "what it needs",
		    why);
}

static bool is_absent(enum bus_told told)
{
	return told == BUS_TOLD_ABSENT || told == BUS_TOLD_GONE;
}

/* Log only changes. */
static void note_told(struct bus *bus, enum bus_told told, const char *why)
{
	const bool new = told != bus->told && !(is_absent(told) && is_absent(bus->told));
	if (!why)
		why = "it gives no reason";
	bus->told = told;
	if (!new || bus->wanted == CONFIG_DBUS_NO)
		return;
	switch (told) {
	case BUS_TOLD_NOTHING: break;
	case BUS_TOLD_ABSENT: tell_absence(bus, why); break;
	case BUS_TOLD_GONE:
		log_message(LOG_WARNING,
			    "the system bus has gone (%s): smcrd goes on, and comes back to it",
			    why);
		break;
	case BUS_TOLD_REFUSED: tell_refusal(bus, why); break;
	case BUS_TOLD_QUEUED:
		log_message(LOG_NOTICE, "another program has the name " BUS_NAME
					" on the system bus: smcrd gets it when that one ends");
		break;
	case BUS_TOLD_SERVED: log_message(LOG_INFO, ON_THE_BUS); break;
	}
}

const char *bus_state(const struct bus *bus)
{
	static const char *const names[] = {
		[BUS_TOLD_NOTHING] = "unreachable", [BUS_TOLD_ABSENT] = "unreachable",
		[BUS_TOLD_GONE] = "unreachable",    [BUS_TOLD_REFUSED] = "refused",
		[BUS_TOLD_QUEUED] = "waits",        [BUS_TOLD_SERVED] = "on",
	};
	return !bus || bus->wanted == CONFIG_DBUS_NO ? "off" : names[bus->told];
}

/* ---- what the thread asks ---- */

static void send_back(struct bus *bus, struct letter *letter, enum letter_kind kind, json_t *reply)
{
	json_decref(letter->json);
	letter->json = reply;
	letter->kind = kind;
	box_put(&bus->orders.thread, letter);
}

/* Without a caller's rights, because it is not known who reads properties and signals. */
static void look(struct bus *bus, struct letter *letter)
{
	const struct clients_asker asker = { .request = letter->request,
					     .cred = { .uid = (uid_t)-1, .gid = (gid_t)-1 },
					     .fd = -1 };
	json_t *reply = NULL;
	int r = bus->params.call(bus->params.ctx, &asker, letter->json, &reply);
	send_back(bus, letter, LETTER_LOOKED, r == 0 ? reply : NULL);
}

static struct letter *take_open(struct bus *bus, uint64_t request)
{
	struct letter *letter;
	DL_SEARCH_SCALAR(bus->open, letter, request, request);
	if (letter)
		DL_DELETE(bus->open, letter);
	return letter;
}

/* The reply that an open call has waited for. */
static void reply_later(void *ctx, uint64_t request, char *reply)
{
	struct bus *bus = ctx;
	struct letter *letter = take_open(bus, request);
	if (!letter) {
		free(reply);
		return;
	}
	letter->text = reply;
	send_back(bus, letter, LETTER_ANSWER, NULL);
}

static void call(struct bus *bus, struct letter *letter)
{
	const struct clients_asker asker = { .request = letter->request,
					     .reply = reply_later,
					     .reply_ctx = bus,
					     .cred = letter->cred,
					     .groups = letter->groups,
					     .num_groups = letter->num_groups,
					     .fd = -1 };
	json_t *reply = NULL;
	/* A command may end, and reply_later() be called, before the call returns. */
	DL_APPEND(bus->open, letter);
	int r = bus->params.call(bus->params.ctx, &asker, letter->json, &reply);
	if (r == -EINPROGRESS)
		return;
	DL_DELETE(bus->open, letter); /* nothing was begun that reply_later() could have answered */
	send_back(bus, letter, LETTER_ANSWER, r == 0 ? reply : NULL);
}

static void give_up(struct bus *bus, uint64_t request)
{
	struct letter *letter = take_open(bus, request);
	if (letter)
		bus->params.gone(bus->params.ctx, request);
	letter_free(letter);
}

static void read_letter(struct bus *bus, struct letter *letter)
{
	switch (letter->kind) {
	case LETTER_LOOK: look(bus, letter); return;
	case LETTER_CALL: call(bus, letter); return;
	case LETTER_GONE: give_up(bus, letter->request); break;
	case LETTER_TOLD: note_told(bus, letter->told, letter->text); break;
	case LETTER_LOOKED:
	case LETTER_ANSWER: break; /* the thread does not send this */
	}
	letter_free(letter);
}

/* A turn costs five times its length. Short answers follow each other without a rest, as long as
 * not more than one turn is owed. */
static uint64_t rest_after(struct bus *bus, uint64_t begun, uint64_t now)
{
	if (bus->paid_until < begun)
		bus->paid_until = begun;
	bus->paid_until += (now - begun) * (1 + REST);
	return bus->paid_until > now + TURN_US ? bus->paid_until - now : 0;
}

static void work(struct bus *bus)
{
	const uint64_t begun = fabric_now();
	struct letter *letter;
	uint64_t now = begun;
	if (bus->params.at_work)
		bus->params.at_work(bus->params.ctx);
	box_heard(&bus->orders.loop);
	while (now - begun < TURN_US && (letter = box_take(&bus->orders.loop))) {
		read_letter(bus, letter);
		now = fabric_now();
	}
	const uint64_t us = rest_after(bus, begun, now);
	if (!us) {
		event_add(bus->asked, NULL);
		return;
	}
	const struct timeval rest = { .tv_sec = (time_t)(us / 1000000),
				      .tv_usec = (suseconds_t)(us % 1000000) };
	evtimer_add(bus->rested, &rest);
}

static void on_asked(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	work(arg);
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	work(arg); /* the turn before may have left letters */
}

/* ---- what the thread is told ---- */

static void note_events(struct bus *bus)
{
	const struct events *events = bus->params.control->events;
	if (events)
		atomic_store(&bus->orders.last_event, events_last_id(events));
}

void bus_wake(struct bus *bus)
{
	if (!bus || !bus->thread)
		return;
	note_events(bus);
	box_poke(&bus->orders.thread);
}

void bus_configure(struct bus *bus, enum config_dbus wanted)
{
	bus->wanted = wanted;
	note_events(bus);
	atomic_store(&bus->orders.wanted, wanted != CONFIG_DBUS_NO);
	atomic_fetch_add(&bus->orders.given, 1);
	if (bus->thread) {
		box_poke(&bus->orders.thread);
		return;
	}
	int error = wanted == CONFIG_DBUS_NO
			    ? 0
			    : thread_start(&bus->orders, bus->params.address, &bus->thread);
	if (error)
		log_message(LOG_WARNING,
			    "smcrd goes on without D-Bus, for there is no thread for it (%s): a "
			    "reload tries again",
			    strerror(-error));
}

/* ---- */

int bus_new(const struct bus_params *params, struct bus **ret_bus)
{
	struct bus *bus = calloc(1, sizeof(*bus));
	if (!bus)
		return -ENOMEM;
	bus->params = *params;
	bus->wanted = CONFIG_DBUS_NO;
	bus->orders.thread.fd = -1;
	bus->orders.silence_us =
		UINT64_C(1000) * (params->silence_ms ? params->silence_ms : SILENCE_MS);
	bus->orders.patience_us =
		UINT64_C(1000) * (params->patience_ms ? params->patience_ms : PATIENCE_MS);
	int error = box_open(&bus->orders.loop);
	if (!error)
		error = box_open(&bus->orders.thread);
	if (!error)
		bus->asked = event_new(params->base, bus->orders.loop.fd, EV_READ, on_asked, bus);
	if (!error)
		bus->rested = evtimer_new(params->base, on_rested, bus);
	if (!error && (!bus->asked || !bus->rested || event_add(bus->asked, NULL) < 0))
		error = -ENOMEM;
	if (error) {
		bus_free(bus);
		return error;
	}
	*ret_bus = bus;
	return 0;
}

void bus_free(struct bus *bus)
{
	struct letter *letter, *next;
	if (!bus)
		return;
	thread_end(bus->thread);
	DL_FOREACH_SAFE (bus->open, letter, next)
		give_up(bus, letter->request);
	if (bus->asked)
		event_free(bus->asked);
	if (bus->rested)
		event_free(bus->rested);
	box_close(&bus->orders.loop);
	box_close(&bus->orders.thread);
	free(bus);
}
