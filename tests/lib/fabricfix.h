/* SPDX-License-Identifier: MIT */
/**
 * @file fabricfix.h
 * An engine on a fabric, made as the daemon makes it.
 */
#ifndef SMCRD_TESTS_LIB_FABRICFIX_H
#define SMCRD_TESTS_LIB_FABRICFIX_H

#include "daemon/fabric/fabric.h"

/** Make the fabric's engine. The caller frees the engine before the fabric. Nobody hears of the
 *  engine's events and of the outcome of commands. If the engine cannot be made, the test fails.
 *  @param conns  operations for connections; NULL: a test that has a connection fails */
struct smcr_engine *fabricfix_engine(struct fabric *fabric, const struct smcr_config *config,
				     const struct smcr_conn_ops *conns);

#endif
