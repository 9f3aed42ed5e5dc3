/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/alarm.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct alarm {
	int fd;
	struct event *event; /* fires when the timer's descriptor is readable */
	struct event *due;   /* fires when the loop has served everything that was ready with it */
	uint64_t at;         /* 0: not set */
	uint64_t armed;      /* time of the kernel's timer, not later than `at`; 0: not set */
	void (*callback)(void *ctx);
	void *ctx;
};

uint64_t alarm_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void arm(struct alarm *alarm)
{
	const struct itimerspec when = {
		.it_value = { .tv_sec = (time_t)(alarm->at / 1000000),
			      .tv_nsec = (long)(alarm->at % 1000000 * 1000) },
	};
	if (alarm->armed && alarm->armed <= alarm->at)
		return;
	alarm->armed = alarm->at;
	timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Handle what has arrived first, as with libevent's own timers, so that an answer that has come
 * already does not count as missing. */
static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct alarm *alarm = arg;
	(void)fd;
	(void)what;
	if (alarm->at > alarm_now()) {
		arm(alarm);
	} else if (alarm->at) {
		alarm->at = 0;
		alarm->callback(alarm->ctx);
	}
}

/* The descriptor is not read: it is edge-triggered, and setting the timer empties it. */
static void on_expiry(evutil_socket_t fd, short what, void *arg)
{
	struct alarm *alarm = arg;
	(void)fd;
	(void)what;
	alarm->armed = 0;
	event_active(alarm->due, EV_TIMEOUT, 0);
}

int alarm_new(struct event_base *base, void (*callback)(void *ctx), void *ctx,
	      struct alarm **ret_alarm)
{
	struct alarm *alarm = calloc(1, sizeof(*alarm));
	if (!alarm)
		return -ENOMEM;
	alarm->callback = callback;
	alarm->ctx = ctx;
	alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (alarm->fd < 0) {
		int error = -errno;
		alarm_free(alarm);
		return error;
	}
	alarm->event = event_new(base, alarm->fd, EV_READ | EV_ET | EV_PERSIST, on_expiry, alarm);
	alarm->due = event_new(base, -1, 0, on_due, alarm);
	if (!alarm->event || !alarm->due || event_add(alarm->event, NULL) < 0) {
		alarm_free(alarm);
		return -ENOMEM;
	}
	*ret_alarm = alarm;
	return 0;
}

void alarm_free(struct alarm *alarm)
{
	if (!alarm)
		return;
	if (alarm->event)
		event_free(alarm->event);
	if (alarm->due)
		event_free(alarm->due);
	if (alarm->fd >= 0)
		close(alarm->fd);
	free(alarm);
}

void alarm_set(struct alarm *alarm, uint64_t at)
{
	alarm->at = at ? at : 1;
	arm(alarm);
}

void alarm_clear(struct alarm *alarm)
{
	alarm->at = 0;
}
