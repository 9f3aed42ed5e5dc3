/* SPDX-License-Identifier: MIT */
/** @file smbdirect.h "smcrctl smbdirect": connections of SMB Direct, and where they are taken. */
#ifndef SMCRD_SMCRCTL_SMBDIRECT_H
#define SMCRD_SMCRCTL_SMBDIRECT_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/smcrctl/table.h"

/** @param result  an object with the lists "connections" and "listeners" */
void smbdirect_print(const json_t *result, bool details);

/** Columns of the connections. */
#define SMBDIRECT_NUM_COLUMNS 26
extern const struct column smbdirect_columns[SMBDIRECT_NUM_COLUMNS];

#endif
