/* SPDX-License-Identifier: MIT */
/**
 * @file options.h
 * smcrd's command line.
 */
#ifndef SMCRD_OPTIONS_H
#define SMCRD_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

#include "daemon/host/config.h"

struct options {
	bool foreground;
	bool check_config; /* only check the configuration */
	/** Its paths are absolute, because the configuration may be read again from another
	 * directory. */
	struct config_source source;
	char config_path[PATH_MAX], socket_path[PATH_MAX]; /* `source` points to these */
};

/**
 * Parse argv. Prints help, version or the error itself.
 * @param ret_options  must not be moved afterwards
 * @return -1: go on; else exit with this status (0 after help or version, 2 for wrong usage)
 */
int options_parse(int argc, char **argv, struct options *ret_options);

#endif
