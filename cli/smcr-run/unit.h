/* SPDX-License-Identifier: MIT */
/**
 * @file unit.h
 * smcr-run --unit: a drop-in with which a service of systemd runs as under smcr-run. The file sets
 * the environment that smcr-run would set, and systemd still starts the program itself.
 */
#ifndef SMCRD_CLI_SMCR_RUN_UNIT_H
#define SMCRD_CLI_SMCR_RUN_UNIT_H

#include <stdbool.h>

struct unit_request {
	const char *name;    /* as typed */
	const char *library; /* absolute path of the preload library */
	const char *socket;  /* where smcrd listens; NULL: at its default place */
	bool require, verbose;
	bool write; /* install the drop-in on this machine instead of printing it */
};

/**
 * Print the drop-in on standard output, or install it. Settings of the service that keep it from
 * using SMC-R are reported on standard error, as far as systemd tells the settings.
 * @return 0, or -1 after saying why
 */
int unit_drop_in(const struct unit_request *request);

#endif
