/* SPDX-License-Identifier: MIT */
/** @file cm.h "smcrctl cm": RDMA connections, and who listens for them. */
#ifndef SMCRD_SMCRCTL_CM_H
#define SMCRD_SMCRCTL_CM_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/table.h"

/** @param result  an object with the lists "connections" and "listeners" */
void cm_print(const json_t *result, bool details);

/** Columns of the connections. */
#define CM_NUM_COLUMNS 17
extern const struct column cm_columns[CM_NUM_COLUMNS];

#endif
