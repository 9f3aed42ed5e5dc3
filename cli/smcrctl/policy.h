/* SPDX-License-Identifier: MIT */
/** @file policy.h What "smcrctl policy" shows people. */
#ifndef SMCRD_SMCRCTL_POLICY_H
#define SMCRD_SMCRCTL_POLICY_H

#include <jansson.h>
#include <stdbool.h>

void policy_print(const json_t *result, bool details);

#endif
