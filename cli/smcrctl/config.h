/* SPDX-License-Identifier: MIT */
/** @file config.h What "smcrctl config" shows people. */
#ifndef SMCRD_SMCRCTL_CONFIG_H
#define SMCRD_SMCRCTL_CONFIG_H

#include <jansson.h>
#include <stdbool.h>

void config_print(const json_t *result, bool details);

#endif
