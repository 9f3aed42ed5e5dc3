/* SPDX-License-Identifier: MIT */
/**
 * @file reload.h
 * Reads the configuration anew while the daemon serves: by a thread, because users and groups that
 * it names are looked up, which may take longer than the event loop can wait.
 *
 * All but the reading happens on the libevent base's thread.
 */
#ifndef SMCRD_HOST_RELOAD_H
#define SMCRD_HOST_RELOAD_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/host/config.h"

struct reload;

struct reload_params {
	struct event_base *base;
	const struct config_source *source; /* lives as long as the process */
	/**
	 * It was read: every request up to the one of that number has an outcome.
	 * @param next    NULL: there are errors. What the callee wants of it, it takes, and leaves
	 *                zero
	 * @param errors  as config_load() says them
	 */
	void (*loaded)(void *ctx, uint64_t number, struct config *next,
		       struct config_notes *errors);
	/** A reading has not ended after `slow_ms`: called once for each. It goes on, what was
	 * asked for meanwhile waits for it. */
	void (*slow)(void *ctx);
	unsigned int slow_ms;
	void *ctx;
};

/** @return 0 or a negative errno */
int reload_new(const struct reload_params *params, struct reload **ret_reload);
/** What is being read is of no interest any more. NULL is allowed. */
void reload_free(struct reload *reload);

/**
 * Read the files as they are now or will be soon: what changes after this call is seen next time.
 * @return the number of this request, from 1 on, the same for several that one reading serves; 0:
 *         there is no memory or no thread for it
 */
uint64_t reload_begin(struct reload *reload);

#endif
