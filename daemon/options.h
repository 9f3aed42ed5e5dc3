/* SPDX-License-Identifier: MIT */
/**
 * @file options.h
 * smcrd's command line.
 */
#ifndef SMCRD_OPTIONS_H
#define SMCRD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/host/config.h"

struct options {
	bool foreground;
	const char *config_path;             /* NULL: the default */
	const char *socket_path;             /* NULL: as configured */
	const char *rnics[CONFIG_MAX_RNICS]; /* replace the configured ones */
	size_t num_rnics;
};

/**
 * Parse argv. Prints help, version or the error itself.
 * @return -1: go on; else exit with this status (0 after help or version, 2 for wrong usage)
 */
int options_parse(int argc, char **argv, struct options *ret_options);

#endif
