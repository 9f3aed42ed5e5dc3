/* SPDX-License-Identifier: MIT */
#include "tests/sim/clock.h"

#include <stdlib.h>

static bool before(const struct clock_event *a, const struct clock_event *b)
{
	return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void swap(struct clock_event *a, struct clock_event *b)
{
	struct clock_event t = *a;
	*a = *b;
	*b = t;
}

void clock_free(struct clock *clock)
{
	free(clock->heap);
	clock->heap = NULL;
	clock->len = clock->cap = 0;
}

void clock_at(struct clock *clock, uint64_t when, event_fn fn, void *object, uint64_t arg)
{
	if (clock->len == clock->cap) {
		clock->cap = clock->cap ? 2 * clock->cap : 256;
		clock->heap = realloc(clock->heap, clock->cap * sizeof(*clock->heap));
		if (!clock->heap)
			abort();
	}
	size_t i = clock->len++;
	clock->heap[i] = (struct clock_event){
		.when = when < clock->now ? clock->now : when,
		.order = clock->next_order++,
		.fn = fn,
		.object = object,
		.arg = arg,
	};
	for (; i > 0 && before(&clock->heap[i], &clock->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&clock->heap[i], &clock->heap[(i - 1) / 2]);
}

void clock_in(struct clock *clock, uint64_t delay, event_fn fn, void *object, uint64_t arg)
{
	clock_at(clock, clock->now + delay, fn, object, arg);
}

bool clock_step(struct clock *clock)
{
	if (!clock->len)
		return false;
	struct clock_event event = clock->heap[0];
	clock->heap[0] = clock->heap[--clock->len];
	for (size_t i = 0;;) {
		size_t least = i, left = 2 * i + 1, right = 2 * i + 2;
		if (left < clock->len && before(&clock->heap[left], &clock->heap[least]))
			least = left;
		if (right < clock->len && before(&clock->heap[right], &clock->heap[least]))
			least = right;
		if (least == i)
			break;
		swap(&clock->heap[i], &clock->heap[least]);
		i = least;
	}
	/* An event may have let time pass, so that others are late. */
	if (event.when > clock->now)
		clock->now = event.when;
	clock->fired++;
	event.fn(event.object, event.arg);
	return true;
}
