/* SPDX-License-Identifier: MIT */
/* libevent's calls and the alarms of an RNIC, on the virtual clock. The event base of an RNIC is
 * its host. */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>

#include "daemon/rnic/alarm.h"
#include "tests/rnicsim/loop.h"
#include "tests/rnicsim/world.h"

struct watch {
	struct watch *next;
	struct host *host;
	int fd;
	short what;
	event_callback_fn fn;
	void *arg;
	bool live, added, active;
};

struct alarm {
	struct alarm *next;
	struct host *host;
	void (*callback)(void *ctx);
	void *ctx;
	uint64_t at;    /* 0: not set */
	uint64_t armed; /* an event of the clock comes at this time; 0: none */
	bool live;
};

static struct watch *watches;
static struct alarm *alarms;
static size_t live;

size_t loop_live(void)
{
	return live;
}

void loop_free(void)
{
	while (watches) {
		struct watch *next = watches->next;
		free(watches);
		watches = next;
	}
	while (alarms) {
		struct alarm *next = alarms->next;
		free(alarms);
		alarms = next;
	}
	live = 0;
}

/* ---- events */

static bool is_ready(const struct watch *w)
{
	return (w->what & EV_READ && socket_is_readable(w->fd)) ||
	       (w->what & EV_WRITE && socket_is_writable(w->fd));
}

static void fire(void *object, uint64_t arg)
{
	struct watch *w = object;
	(void)arg;
	if (!w->live || !w->active)
		return;
	if (w->host->frozen_until > now()) {
		clock_at(&world->clock, w->host->frozen_until, fire, w, 0);
		return;
	}
	w->active = false;
	if (w->fd >= 0 && !(w->what & EV_PERSIST))
		w->added = false;
	spend(2);
	host_enter();
	w->fn(w->fd, w->what, w->arg);
	host_leave();
	if (w->live)
		loop_look(w);
}

static void activate(struct watch *w, uint64_t when)
{
	if (w->active)
		return;
	w->active = true;
	clock_at(&world->clock, when, fire, w, 0);
}

void loop_look(struct watch *w)
{
	if (w->live && w->added && w->fd >= 0 && is_ready(w))
		activate(w, now() + choose(0, world->set.latency));
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
			       event_callback_fn fn, void *arg);
int __wrap_event_add(struct event *event, const struct timeval *timeout);
void __wrap_event_active(struct event *event, int what, short times);
void __wrap_event_free(struct event *event);

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
			       event_callback_fn fn, void *arg)
{
	struct watch *w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct watch){ .next = watches,
			     .host = (struct host *)base,
			     .fd = fd,
			     .what = what,
			     .fn = fn,
			     .arg = arg,
			     .live = true };
	watches = w;
	live++;
	return (struct event *)w;
}

int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
	struct watch *w = (struct watch *)event;
	if (w->fd < 0) {
		activate(w, now() + (uint64_t)timeout->tv_sec * SEC + (uint64_t)timeout->tv_usec);
		return 0;
	}
	w->added = true;
	socket_watched(w->fd, w->what & EV_WRITE, w);
	loop_look(w);
	return 0;
}

void __wrap_event_active(struct event *event, int what, short times)
{
	(void)what;
	(void)times;
	activate((struct watch *)event, now());
}

void __wrap_event_free(struct event *event)
{
	struct watch *w = (struct watch *)event;
	if (!w->live)
		world_fail("an event is freed twice");
	w->live = w->added = w->active = false;
	live--;
}

/* ---- alarms */

uint64_t __wrap_alarm_now(void);
int __wrap_alarm_new(struct event_base *base, void (*callback)(void *ctx), void *ctx,
		     struct alarm **ret_alarm);
void __wrap_alarm_free(struct alarm *alarm);
void __wrap_alarm_set(struct alarm *alarm, uint64_t at);
void __wrap_alarm_clear(struct alarm *alarm);

static void arm(struct alarm *alarm);

static void expire(void *object, uint64_t arg)
{
	struct alarm *alarm = object;
	if (!alarm->live || arg != alarm->armed)
		return;
	if (alarm->host->frozen_until > now()) {
		alarm->armed = alarm->host->frozen_until;
		clock_at(&world->clock, alarm->armed, expire, alarm, alarm->armed);
		return;
	}
	alarm->armed = 0;
	if (alarm->at > now()) {
		arm(alarm);
	} else if (alarm->at) {
		alarm->at = 0;
		spend(2);
		host_enter();
		alarm->callback(alarm->ctx);
		host_leave();
	}
}

static void arm(struct alarm *alarm)
{
	if (alarm->armed && alarm->armed <= alarm->at)
		return;
	alarm->armed = alarm->at > now() ? alarm->at : now();
	clock_at(&world->clock, alarm->armed, expire, alarm, alarm->armed);
}

uint64_t __wrap_alarm_now(void)
{
	return now();
}

int __wrap_alarm_new(struct event_base *base, void (*callback)(void *ctx), void *ctx,
		     struct alarm **ret_alarm)
{
	struct alarm *alarm = calloc(1, sizeof(*alarm));
	if (!alarm)
		return -ENOMEM;
	*alarm = (struct alarm){ .next = alarms,
				 .host = (struct host *)base,
				 .callback = callback,
				 .ctx = ctx,
				 .live = true };
	alarms = alarm;
	live++;
	*ret_alarm = alarm;
	return 0;
}

void __wrap_alarm_free(struct alarm *alarm)
{
	if (!alarm)
		return;
	if (!alarm->live)
		world_fail("an alarm is freed twice");
	alarm->live = false;
	live--;
}

void __wrap_alarm_set(struct alarm *alarm, uint64_t at)
{
	if (!alarm->live)
		world_fail("an alarm is set that was freed");
	alarm->at = at ? at : 1;
	arm(alarm);
}

void __wrap_alarm_clear(struct alarm *alarm)
{
	alarm->at = 0;
}
