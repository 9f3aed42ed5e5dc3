/* SPDX-License-Identifier: MIT */
/**
 * @file confine.h
 * Which files smcrd keeps when it gives up all others (docs/privileges.md).
 */
#ifndef SMCRD_HOST_CONFINE_H
#define SMCRD_HOST_CONFINE_H

#include "daemon/host/config.h"

#define CONFINE_TEXT 160

/**
 * Give up, by Landlock, all files but those that smcrd needs from here on, for a reload and for
 * devices that come later too. Where the kernel has no Landlock, or one of the places that it takes
 * cannot be allowed, all stays as it is: smcrd goes on without.
 *
 * To be called behind privileges_drop(), while the process has one thread, and before devices are
 * opened, since that may start threads.
 *
 * @param source      where the configuration is read again
 * @param config      that holds: the directories of its sockets are smcrd's own
 * @param ret_text    for operators: what became of it, without a full stop
 * @return 0 or a negative errno
 */
int confine(const struct config_source *source, const struct config *config,
	    char ret_text[CONFINE_TEXT]);

#endif
