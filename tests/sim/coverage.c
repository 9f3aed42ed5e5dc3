/* SPDX-License-Identifier: MIT */
#include "tests/sim/coverage.h"

#include <inttypes.h>
#include <stdio.h>

struct coverage coverage;

void coverage_add(const struct smcr_engine *engine)
{
	for (int row = 0; row < SMCR_NUM_ROWS; row++) {
		for (int role = 0; role < 2; role++)
			coverage.taken[row][role] +=
				smcr_engine_row(engine, (enum smcr_row)row, (enum smcr_role)role);
	}
}

void coverage_merge(const struct coverage *other)
{
	for (int row = 0; row < SMCR_NUM_ROWS; row++) {
		for (int role = 0; role < 2; role++)
			coverage.taken[row][role] += other->taken[row][role];
	}
}

static void print_role(unsigned int roles, unsigned int bit, uint64_t count, unsigned int *missing)
{
	if (!(roles & bit))
		printf(" %12s", "-");
	else
		printf(" %12" PRIu64, count);
	*missing += roles & bit && !count;
}

unsigned int coverage_print(void)
{
	unsigned int missing = 0;
	printf("# %12s %12s  row\n", "server", "client");
	for (int row = 0; row < SMCR_NUM_ROWS; row++) {
		unsigned int roles, before = missing;
		const char *name = smcr_row_name((enum smcr_row)row, &roles);
		printf("#");
		print_role(roles, SMCR_ROW_S, coverage.taken[row][SMCR_ROLE_SERVER], &missing);
		print_role(roles, SMCR_ROW_C, coverage.taken[row][SMCR_ROLE_CLIENT], &missing);
		printf("  %s%s\n", name, missing > before ? "  NOT TAKEN" : "");
	}
	return missing;
}
