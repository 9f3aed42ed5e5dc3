/* SPDX-License-Identifier: MIT */
/**
 * @file unit_check.h
 * Which settings of a service will not let its program use SMC-R: said on standard error, and
 * answered in the drop-in where that can be done without opening more than is needed.
 */
#ifndef SMCRD_CLI_SMCR_RUN_UNIT_CHECK_H
#define SMCRD_CLI_SMCR_RUN_UNIT_CHECK_H

#include <stdio.h>

#include "cli/smcr-run/unit.h"
#include "cli/smcr-run/unit_state.h"

/**
 * @param socket  where smcrd listens
 * @param out     the drop-in's section [Service]
 */
void unit_check(const struct unit_request *request, const struct unit_state *state,
		const char *socket, FILE *out);

#endif
