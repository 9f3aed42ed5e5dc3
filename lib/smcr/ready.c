/* SPDX-License-Identifier: MIT */
#include "lib/smcr/ready.h"

#include <errno.h>
#include <stdatomic.h>

#include "lib/smcr/log.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/unanswered.h"

enum { NOT_STARTED, UNDER_WAY, DONE };
static _Atomic int state = NOT_STARTED;

/*
 * pthread_once() would not do: dlsym() and pthread_atfork() may allocate memory, a preloaded
 * allocator may open a socket, and then this function is called again on the same thread.
 */
bool pre_ready(void)
{
	int expected = NOT_STARTED;
	if (atomic_load_explicit(&state, memory_order_acquire) == DONE)
		return true;
	if (!atomic_compare_exchange_strong(&state, &expected, UNDER_WAY))
		return expected == DONE;
	int saved = errno;
	pre_next_find();
	pre_settings_read();
	pre_log_begin();
	pre_pending_begin();
	pre_unanswered_begin();
	errno = saved;
	atomic_store_explicit(&state, DONE, memory_order_release);
	return true;
}

/* Call it early, while there is one thread and no signal handler runs: dlsym() is not
 * async-signal-safe. */
__attribute__((constructor)) static void prepare(void)
{
	pre_ready();
}
