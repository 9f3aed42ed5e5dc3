/* SPDX-License-Identifier: MIT */
/**
 * @file unit_check.h
 * Finds settings of a service that keep its program from using SMC-R. Each is reported on standard
 * error. The drop-in overrides a setting where that permits no more than SMC-R needs.
 */
#ifndef SMCRD_CLI_SMCR_RUN_UNIT_CHECK_H
#define SMCRD_CLI_SMCR_RUN_UNIT_CHECK_H

#include <stdio.h>

#include "cli/smcr-run/unit.h"
#include "cli/smcr-run/unit_state.h"

/**
 * Does the service's program need a sanitizer's runtime in front of LD_PRELOAD? The service's other
 * commands then run with it too, which is reported.
 * @param ret_runtime  INSPECT_RUNTIME bytes: struct inspect_result's
 */
void unit_check_runtime(const struct unit_request *request, const struct unit_state *state,
			char *ret_runtime);

/**
 * @param socket  where smcrd listens
 * @param out     the drop-in's section [Service]
 */
void unit_check(const struct unit_request *request, const struct unit_state *state,
		const char *socket, FILE *out);

#endif
