/* SPDX-License-Identifier: MIT */
/*
 * How often one connection to the bus may call. All calls come through one queue that the bus has
 * for smcrd: who calls faster than smcrd answers keeps everybody waiting who calls later. So what
 * is too much goes before anything is looked up for it, and before the bus is asked who calls.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/bus/internal.h"

#define SECOND      1000000
#define MAX_CALLERS 4096 /* in a second: twice as many as a bus has at a time */

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
	const size_t size = strlen(name) + 1; /* D-Bus has no name of more than 255 bytes */
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
	/* Without room nobody is refused who may have called once. */
	return !caller || (caller->calls += weight) <= BUS_MAX_CALLS_A_SECOND;
}
