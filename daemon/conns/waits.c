/* SPDX-License-Identifier: MIT */
#include "daemon/conns/waits.h"

#include <errno.h>
#include <sys/time.h>
#include <utlist.h>

#include "daemon/conns/conns.h"

static void arm(struct waits *waits, uint64_t now_ms)
{
	uint64_t at = waits->first->due_ms;
	uint64_t left = at > now_ms ? at - now_ms : 0;
	const struct timeval wait = { .tv_sec = (time_t)(left / 1000),
				      .tv_usec = (suseconds_t)(left % 1000 * 1000) };
	evtimer_add(waits->timer, &wait);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct waits *waits = arg;
	uint64_t now = conns_now_ms();
	(void)fd;
	(void)what;
	batch_begin(waits->batch);
	while (waits->first && waits->first->due_ms <= now) {
		struct wait *wait = waits->first;
		waits_remove(waits, wait);
		waits->due(wait);
	}
	if (waits->first)
		arm(waits, now);
	batch_end(waits->batch);
}

int waits_open(struct waits *waits, struct event_base *base, struct batch *batch,
	       void (*due)(struct wait *wait))
{
	*waits = (struct waits){ .batch = batch, .due = due };
	waits->timer = evtimer_new(base, on_timer, waits);
	return waits->timer ? 0 : -ENOMEM;
}

void waits_close(struct waits *waits)
{
	if (waits->timer)
		event_free(waits->timer);
	waits->timer = NULL;
}

/* All wait equally long, unless the configuration has changed. So the place is mostly the end of
 * the list. */
static void insert(struct wait **list, struct wait *wait)
{
	struct wait *before = *list ? (*list)->prev : NULL; /* the last one */
	while (before && before->due_ms > wait->due_ms)
		before = before == *list ? NULL : before->prev;
	if (before)
		DL_APPEND_ELEM(*list, before, wait);
	else
		DL_PREPEND(*list, wait);
}

void waits_add(struct waits *waits, struct wait *wait, uint32_t ms)
{
	uint64_t now = conns_now_ms();
	waits_remove(waits, wait);
	wait->due_ms = now + ms;
	insert(&waits->first, wait);
	if (waits->first == wait)
		arm(waits, now);
}

void waits_remove(struct waits *waits, struct wait *wait)
{
	if (!wait->due_ms)
		return;
	wait->due_ms = 0;
	DL_DELETE(waits->first, wait);
	if (!waits->first)
		evtimer_del(waits->timer);
}
