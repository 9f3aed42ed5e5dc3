/* SPDX-License-Identifier: MIT */
#include "tests/cmsim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fail(struct world *w, const char *format, ...)
{
	va_list args;
	if (w->failed)
		return;
	w->failed = true;
	int n = snprintf(w->failure, sizeof(w->failure), "%.6f s: ", (double)w->now / 1e6);
	va_start(args, format);
	vsnprintf(w->failure + n, sizeof(w->failure) - (size_t)n, format, args);
	va_end(args);
}

void say(struct world *w, const char *format, ...)
{
	va_list args;
	if (!w->verbose)
		return;
	printf("# %12.6f ", (double)w->now / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

struct random stream(uint64_t seed, uint64_t purpose)
{
	/* splitmix64, so that neighbours have nothing in common */
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + purpose + 1;
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	return (struct random){ x ? x : 1 };
}

bool chance(struct random *r, unsigned int permille)
{
	return random_below(r, 1000) < permille;
}

uint64_t between(struct random *r, uint64_t lo, uint64_t hi)
{
	return hi <= lo ? lo : lo + random_u64(r) % (hi - lo + 1);
}

/* ---- events in time */

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void after(struct world *w, uint64_t us, event_fn *fn, void *arg, uint64_t value)
{
	const struct event event = { w->now + us, w->order++, fn, arg, value };
	if (w->num_events + 2 > w->room) {
		w->room = w->room ? 2 * w->room : 256;
		w->events = realloc(w->events, w->room * sizeof(*w->events));
		if (!w->events)
			abort();
	}
	size_t at = ++w->num_events;
	for (; at > 1 && sooner(&event, &w->events[at / 2]); at /= 2)
		w->events[at] = w->events[at / 2];
	w->events[at] = event;
}

static struct event take_first(struct world *w)
{
	struct event first = w->events[1], last = w->events[w->num_events--];
	size_t at = 1, child;
	while ((child = 2 * at) <= w->num_events) {
		if (child < w->num_events && sooner(&w->events[child + 1], &w->events[child]))
			child++;
		if (!sooner(&w->events[child], &last))
			break;
		w->events[at] = w->events[child];
		at = child;
	}
	w->events[at] = last;
	return first;
}

bool step(struct world *w)
{
	if (w->num_events == 0)
		return false;
	struct event event = take_first(w);
	w->now = event.at;
	event.fn(w, event.arg, event.value);
	return true;
}
