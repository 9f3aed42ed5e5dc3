/* SPDX-License-Identifier: MIT */
/**
 * @file coverage.h
 * Which rows of the collision matrix (RFC 7609 3.5.5.3) and of the recovery tables (C.7.1, C.8) the
 * engines of all runs have taken, in which role.
 */
#ifndef SMCRD_TESTS_SIM_COVERAGE_H
#define SMCRD_TESTS_SIM_COVERAGE_H

#include "daemon/engine/rows.h"

/** An engine ends: what it has taken counts. */
void coverage_add(const struct smcr_engine *engine);
/** Print the table, as TAP comments. @return how many rows were never taken */
unsigned int coverage_print(void);

#endif
