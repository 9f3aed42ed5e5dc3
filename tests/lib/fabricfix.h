/* SPDX-License-Identifier: MIT */
/**
 * @file fabricfix.h
 * An engine on a fabric, as the daemon makes it.
 */
#ifndef SMCRD_TESTS_LIB_FABRICFIX_H
#define SMCRD_TESTS_LIB_FABRICFIX_H

#include "daemon/fabric/fabric.h"

/** The fabric's engine, which the caller frees before the fabric. Nobody hears of the outcome of
 *  its commands, and of its events. Fails the test if there is none.
 *  @param conns  NULL: there is no connection, and a test that has one fails */
struct smcr_engine *fabricfix_engine(struct fabric *fabric, const struct smcr_config *config,
				     const struct smcr_conn_ops *conns);

#endif
