/* SPDX-License-Identifier: MIT */
/* Deadlines: a binary heap ordered by time, then by the order in which timers were started. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/engine/internal.h"

static bool sooner(const struct smcr_timer *a, const struct smcr_timer *b)
{
	return a->deadline != b->deadline ? a->deadline < b->deadline : a->seq < b->seq;
}

/** Put a timer at a place (1-based). */
static void place(struct smcr_engine *engine, size_t pos, struct smcr_timer *timer)
{
	engine->heap[pos - 1] = timer;
	timer->pos = pos;
}

static void sift_up(struct smcr_engine *engine, struct smcr_timer *timer)
{
	size_t pos = timer->pos;
	while (pos > 1) {
		struct smcr_timer *parent = engine->heap[pos / 2 - 1];
		if (!sooner(timer, parent))
			break;
		place(engine, pos, parent);
		pos /= 2;
	}
	place(engine, pos, timer);
}

static void sift_down(struct smcr_engine *engine, struct smcr_timer *timer)
{
	size_t pos = timer->pos;
	while (2 * pos <= engine->heap_len) {
		size_t child = 2 * pos;
		if (child < engine->heap_len &&
		    sooner(engine->heap[child], engine->heap[child - 1]))
			child++;
		if (!sooner(engine->heap[child - 1], timer))
			break;
		place(engine, pos, engine->heap[child - 1]);
		pos = child;
	}
	place(engine, pos, timer);
}

void smcr_timer_init(struct smcr_timer *timer, void (*fire)(struct smcr_engine *engine, void *arg),
		     void *arg)
{
	*timer = (struct smcr_timer){ .fire = fire, .arg = arg };
}

int smcr_timer_reserve(struct smcr_engine *engine, size_t more)
{
	size_t need = engine->timers_reserved + more;
	if (need > engine->heap_cap) {
		size_t cap = engine->heap_cap ? engine->heap_cap : 64;
		while (cap < need)
			cap *= 2;
		struct smcr_timer **heap = realloc(engine->heap, cap * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		engine->heap = heap;
		engine->heap_cap = cap;
	}
	engine->timers_reserved = need;
	return 0;
}

void smcr_timer_unreserve(struct smcr_engine *engine, size_t less)
{
	engine->timers_reserved -= less;
}

void smcr_timer_start(struct smcr_engine *engine, struct smcr_timer *timer, uint64_t delay)
{
	timer->deadline = delay < UINT64_MAX - engine->now ? engine->now + delay : UINT64_MAX - 1;
	timer->seq = engine->timer_seq++;
	assert(timer->pos || engine->heap_len < engine->heap_cap); /* smcr_timer_reserve() */
	if (!timer->pos)
		place(engine, ++engine->heap_len, timer);
	sift_up(engine, timer);
	sift_down(engine, timer);
}

void smcr_timer_stop(struct smcr_engine *engine, struct smcr_timer *timer)
{
	if (!timer->pos)
		return;
	struct smcr_timer *last = engine->heap[engine->heap_len - 1];
	engine->heap_len--;
	if (last != timer) {
		place(engine, timer->pos, last);
		sift_up(engine, last);
		sift_down(engine, last);
	}
	timer->pos = 0;
}

void smcr_engine_set_time(struct smcr_engine *engine, uint64_t now)
{
	if (now > engine->now)
		engine->now = now;
}

void smcr_engine_run(struct smcr_engine *engine, uint64_t now)
{
	smcr_engine_set_time(engine, now);
	while (engine->heap_len && engine->heap[0]->deadline <= engine->now) {
		struct smcr_timer *timer = engine->heap[0];
		smcr_timer_stop(engine, timer);
		timer->fire(engine, timer->arg);
	}
}

uint64_t smcr_engine_next_deadline(const struct smcr_engine *engine)
{
	return engine->heap_len ? engine->heap[0]->deadline : SMCR_NO_DEADLINE;
}
