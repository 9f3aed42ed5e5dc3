/* SPDX-License-Identifier: MIT */
/**
 * @file host_ops.h
 * What the engine asks of the host that it runs on: random bytes of the kernel, and the log.
 */
#ifndef SMCRD_HOST_HOST_OPS_H
#define SMCRD_HOST_HOST_OPS_H

#include "daemon/smcr/ops.h"

/** For the engine's operations (ops.h); they take no context. */
extern const struct smcr_host_ops host_ops;

#endif
