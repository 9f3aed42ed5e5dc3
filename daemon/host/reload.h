/* SPDX-License-Identifier: MIT */
/**
 * @file reload.h
 * Reads the configuration again while the daemon runs. A thread does that, since looking up users
 * and groups may take longer than the event loop may wait.
 *
 * All callbacks run on the libevent base's thread.
 */
#ifndef SMCRD_HOST_RELOAD_H
#define SMCRD_HOST_RELOAD_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/host/config.h"

struct reload;

struct reload_params {
	struct event_base *base;
	const struct config_source *source; /* has to live as long as the process */
	/**
	 * The files were read: this is the outcome of all requests up to `number`.
	 * @param next  the configuration, or NULL: there are errors. The callee may take parts of
	 *              it and zero them; the rest is freed after the call
	 * @param errors  as from config_load()
	 */
	void (*loaded)(void *ctx, uint64_t number, struct config *next,
		       struct config_notes *errors);
	/** Called once for each reading that lasts longer than `slow_ms`. The reading goes on, and
	 * later requests wait for it. */
	void (*slow)(void *ctx);
	unsigned int slow_ms;
	void *ctx;
};

/** @return 0 or a negative errno */
int reload_new(const struct reload_params *params, struct reload **ret_reload);
/** Free it. The outcome of a reading that is under way is dropped. NULL is allowed. */
void reload_free(struct reload *reload);

/**
 * Read the files. Changes made before this call are seen; later ones perhaps only by the next call.
 * @return number of the request, from 1 on, the same for requests that one reading serves; 0: no
 *         memory or no thread
 */
uint64_t reload_begin(struct reload *reload);

#endif
