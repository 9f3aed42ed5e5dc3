/* SPDX-License-Identifier: MIT */
/**
 * @file check_readable.h
 * Checks that the service can read the files of the configuration: root can read all files, but the
 * user of the service may not.
 */
#ifndef SMCRD_CHECK_READABLE_H
#define SMCRD_CHECK_READABLE_H

#include "daemon/host/config.h"

/** If root calls this, and the user "smcrd" exists: write a warning to standard error for each file
 * that this user cannot read. */
void check_readable(const struct config_source *source);

#endif
