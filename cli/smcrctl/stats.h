/* SPDX-License-Identifier: MIT */
/** @file stats.h How `smcrctl stats` looks. */
#ifndef SMCRD_SMCRCTL_STATS_H
#define SMCRD_SMCRCTL_STATS_H

#include <jansson.h>
#include <stdbool.h>

/** @param details  with the reasons, times and devices */
void stats_print(const json_t *result, bool details);

#endif
