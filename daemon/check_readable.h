/* SPDX-License-Identifier: MIT */
/**
 * @file check_readable.h
 * Can the service read the files of the configuration? Root can read all, the service's user not.
 */
#ifndef SMCRD_CHECK_READABLE_H
#define SMCRD_CHECK_READABLE_H

#include "daemon/host/config.h"

/** If root asks, and the user "smcrd" is there: a warning on standard error for each file that this
 *  user cannot read. */
void check_readable(const struct config_source *source);

#endif
