/* SPDX-License-Identifier: MIT */
/*
 * How often one connection to the bus may call. All calls come through one queue of the bus for
 * smcrd, so a caller that calls faster than smcrd answers delays all others. Therefore calls beyond
 * the limit are refused before anything is looked up for them, and before the bus is asked who
 * calls.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"

#define SECOND      1000000
#define MAX_CALLERS 4096 /* in a second: twice the connections of a usual bus */

struct caller {
	unsigned int calls;
	UT_hash_handle hh;
	char name[];
};

void callers_forget(struct bus_thread *thread)
{
	struct caller *caller, *next;
	HASH_ITER (hh, thread->callers, caller, next) {
		HASH_DEL(thread->callers, caller);
		free(caller);
	}
}

/* @return NULL: there is no room */
static struct caller *add(struct bus_thread *thread, const char *name)
{
	const size_t size = strlen(name) + 1; /* names in D-Bus have at most 255 bytes */
	if (HASH_COUNT(thread->callers) >= MAX_CALLERS)
		return NULL;
	struct caller *caller = calloc(1, sizeof(*caller) + size);
	if (!caller)
		return NULL;
	memcpy(caller->name, name, size);
	HASH_ADD_STR(thread->callers, name, caller);
	return caller;
}

bool callers_admit(struct bus_thread *thread, const char *sender, unsigned int weight, uint64_t now)
{
	struct caller *caller;
	if (now >= thread->callers_until) {
		callers_forget(thread);
		thread->callers_until = now + SECOND;
	}
	HASH_FIND_STR(thread->callers, sender, caller);
	if (!caller)
		caller = add(thread, sender);
	/* Without room for the caller the call is allowed, as it may be the first. */
	return !caller || (caller->calls += weight) <= BUS_MAX_CALLS_A_SECOND;
}
