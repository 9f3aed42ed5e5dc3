/* SPDX-License-Identifier: MIT */
/**
 * @file confine.h
 * smcrd gives up access to all files but those that it needs (docs/privileges.md).
 */
#ifndef SMCRD_HOST_CONFINE_H
#define SMCRD_HOST_CONFINE_H

#include "daemon/host/config.h"

#define CONFINE_TEXT 160

/**
 * Give up, by Landlock, access to all files but those that smcrd needs from now on, including those
 * for a reload and for devices that come later. If the kernel has no Landlock, or one of the places
 * cannot be allowed, nothing is given up and smcrd runs without this protection.
 *
 * To be called after privileges_drop(), while the process has one thread. That is before devices
 * are opened, since opening one may start threads.
 *
 * @param source  the files that a reload reads again
 * @param config  the configuration in force; the directories of its sockets stay writable
 * @param ret_text  for operators: whether files are restricted, without a full stop
 * @return 0 or a negative errno
 */
int confine(const struct config_source *source, const struct config *config,
	    char ret_text[CONFINE_TEXT]);

#endif
