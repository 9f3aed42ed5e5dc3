/* SPDX-License-Identifier: MIT */
#include "daemon/conns/batch.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <utlist.h>

#define MOST_AT_ONCE 4096 /* tasks run before the event loop gets its turn */

struct batch {
	struct batch_callbacks callbacks;
	unsigned int depth;
	struct event *now_event;   /* active: `now` or `buried` has tasks and no batch is open */
	struct event *later_timer; /* fires at once, but after other events */
	struct task *now, *later, *buried;
};

static void put(struct task **list, struct task *task)
{
	task->list = list;
	DL_APPEND(*list, task);
}

/** A task was added. Outside of a batch, the event loop runs the task. */
static void wake(struct batch *batch)
{
	if (batch->depth == 0)
		event_active(batch->now_event, EV_TIMEOUT, 0);
}

void batch_cancel(struct task *task)
{
	if (!task->list)
		return;
	DL_DELETE(*task->list, task);
	task->list = NULL;
}

static struct task *take_first(struct task **list)
{
	struct task *task = *list;
	batch_cancel(task);
	return task;
}

/* ---- batches */

void batch_begin(struct batch *batch)
{
	if (batch->depth++ == 0)
		batch->callbacks.enter(batch->callbacks.ctx);
}

static void run_now(struct batch *batch)
{
	unsigned int left = MOST_AT_ONCE;
	while (batch->now && left-- > 0) {
		struct task *task = take_first(&batch->now);
		task->run(task);
	}
}

void batch_free_buried(struct batch *batch)
{
	while (batch->buried) {
		struct task *task = take_first(&batch->buried);
		task->run(task);
	}
}

void batch_end(struct batch *batch)
{
	if (batch->depth == 1) {
		run_now(batch);
		batch->callbacks.leave(batch->callbacks.ctx);
		if (batch->now) /* more than MOST_AT_ONCE, or added by leave() */
			event_active(batch->now_event, EV_TIMEOUT, 0);
		batch_free_buried(batch);
	}
	batch->depth--;
}

/* ---- putting off */

void batch_now(struct batch *batch, struct task *task)
{
	if (task->list)
		return;
	put(&batch->now, task);
	wake(batch);
}

void batch_later(struct batch *batch, struct task *task)
{
	const struct timeval at_once = { 0 };
	if (task->list)
		return;
	put(&batch->later, task);
	if (!evtimer_pending(batch->later_timer, NULL))
		evtimer_add(batch->later_timer, &at_once);
}

void batch_bury(struct batch *batch, struct task *task)
{
	put(&batch->buried, task);
	wake(batch);
}

static void on_now(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	batch_begin(arg);
	batch_end(arg);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	struct batch *batch = arg;
	struct task *task;
	unsigned int count;
	(void)fd;
	(void)what;
	batch_begin(batch);
	DL_COUNT(batch->later, task, count);
	/* Tasks that are added while these run wait for the next turn. */
	while (batch->later && count-- > 0) {
		task = take_first(&batch->later);
		task->run(task);
	}
	batch_end(batch);
}

/* ---- life */

int batch_new(struct event_base *base, const struct batch_callbacks *callbacks,
	      struct batch **ret_batch)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	batch->callbacks = *callbacks;
	batch->now_event = event_new(base, -1, 0, on_now, batch);
	batch->later_timer = evtimer_new(base, on_later, batch);
	if (!batch->now_event || !batch->later_timer) {
		batch_free(batch);
		return -ENOMEM;
	}
	*ret_batch = batch;
	return 0;
}

void batch_free(struct batch *batch)
{
	if (!batch)
		return;
	batch_free_buried(batch);
	if (batch->now_event)
		event_free(batch->now_event);
	if (batch->later_timer)
		event_free(batch->later_timer);
	free(batch);
}
