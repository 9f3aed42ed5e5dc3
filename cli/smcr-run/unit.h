/* SPDX-License-Identifier: MIT */
/**
 * @file unit.h
 * smcr-run --unit: a drop-in that lets a service of systemd run as under smcr-run. The file sets
 * the environment that smcr-run would set, so that systemd goes on to start the program itself.
 */
#ifndef SMCRD_CLI_SMCR_RUN_UNIT_H
#define SMCRD_CLI_SMCR_RUN_UNIT_H

#include <stdbool.h>

struct unit_request {
	const char *name;    /* as typed */
	const char *library; /* absolute path of the preload library */
	const char *socket;  /* where smcrd listens; NULL: at its default place */
	bool require, verbose;
	bool write; /* install it for this machine instead of printing it */
};

/**
 * Print the drop-in on standard output, or write it. What the service's settings will not let work
 * is said on standard error, as far as systemd can be asked.
 * @return 0, or -1 after saying why
 */
int unit_drop_in(const struct unit_request *request);

#endif
