/* SPDX-License-Identifier: MIT */
/**
 * @file counted.h
 * What an engine counts for operators (engine/stats.h) agrees with what its programs have done, and
 * with what it has told of groups.
 */
#ifndef SMCRD_TESTS_SIM_COUNTED_H
#define SMCRD_TESTS_SIM_COUNTED_H

#include <stdint.h>

struct host;

/** What programs have given to an engine, and taken of it. */
struct counted {
	uint64_t tx_requests, tx_bytes, rx_requests, rx_bytes;
	uint64_t groups; /* that came up */
};

void counted_tx(struct host *host, uint64_t len);
void counted_rx(struct host *host, uint64_t len);
/** The run fails if the engine has counted something else. */
void counted_check(struct host *host);
/** A new engine has counted nothing. */
void counted_forget(struct host *host);

#endif
