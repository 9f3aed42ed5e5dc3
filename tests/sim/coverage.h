/* SPDX-License-Identifier: MIT */
/**
 * @file coverage.h
 * Which rows of the collision matrix (RFC 7609 3.5.5.3) and of the recovery tables (C.7.1, C.8) the
 * engines of all runs have taken, in which role.
 */
#ifndef SMCRD_TESTS_SIM_COVERAGE_H
#define SMCRD_TESTS_SIM_COVERAGE_H

#include "daemon/smcr/rows.h"

/** How often each row was taken, in each role. */
struct coverage {
	uint64_t taken[SMCR_NUM_ROWS][2];
};

/** The sum over the engines of this process that have ended, and over what was merged. */
extern struct coverage coverage;

/** An engine ends: add the rows that it has taken. */
void coverage_add(const struct smcr_engine *engine);
/** Add the rows that another process has counted. */
void coverage_merge(const struct coverage *other);
/** Print the table, as TAP comments. @return how many rows were never taken */
unsigned int coverage_print(void);

#endif
