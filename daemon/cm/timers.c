/* SPDX-License-Identifier: MIT */
#include "daemon/cm/timers.h"

#include <stdlib.h>

bool cm_timers_reserve(struct cm_timers *timers, size_t count)
{
	size_t room = timers->room ? timers->room : 16;
	while (room < count + 1)
		room *= 2;
	if (room == timers->room)
		return true;
	struct cm_timer **heap = realloc(timers->heap, room * sizeof(struct cm_timer *));
	if (!heap)
		return false;
	timers->heap = heap;
	timers->room = room;
	return true;
}

void cm_timers_free(struct cm_timers *timers)
{
	free(timers->heap);
	*timers = (struct cm_timers){ 0 };
}

static void put(struct cm_timers *timers, size_t place, struct cm_timer *timer)
{
	timers->heap[place] = timer;
	timer->place = place;
}

static void rise(struct cm_timers *timers, struct cm_timer *timer)
{
	size_t place = timer->place;
	for (; place > 1 && timers->heap[place / 2]->at > timer->at; place /= 2)
		put(timers, place, timers->heap[place / 2]);
	put(timers, place, timer);
}

static void sink(struct cm_timers *timers, struct cm_timer *timer)
{
	size_t place = timer->place, child;
	while ((child = 2 * place) <= timers->used) {
		if (child < timers->used && timers->heap[child + 1]->at < timers->heap[child]->at)
			child++;
		if (timers->heap[child]->at >= timer->at)
			break;
		put(timers, place, timers->heap[child]);
		place = child;
	}
	put(timers, place, timer);
}

void cm_timers_set(struct cm_timers *timers, struct cm_timer *timer, uint64_t at)
{
	timer->at = at;
	if (!timer->place)
		put(timers, ++timers->used, timer);
	rise(timers, timer);
	sink(timers, timer);
}

void cm_timers_stop(struct cm_timers *timers, struct cm_timer *timer)
{
	if (!timer->place)
		return;
	struct cm_timer *last = timers->heap[timers->used--];
	if (last != timer) {
		put(timers, timer->place, last);
		rise(timers, last);
		sink(timers, last);
	}
	timer->place = 0;
}

struct cm_timer *cm_timers_first(const struct cm_timers *timers)
{
	return timers->used ? timers->heap[1] : NULL;
}
