/* SPDX-License-Identifier: MIT */
/**
 * @file counted.h
 * Check that an engine's counters for operators (daemon/smcr/stats.h) agree with what its programs
 * have done, and with the events that it has told about groups.
 */
#ifndef SMCRD_TESTS_SIM_COUNTED_H
#define SMCRD_TESTS_SIM_COUNTED_H

#include <stdint.h>

struct host;

/** What programs have written to an engine and read from it. */
struct counted {
	uint64_t tx_requests, tx_bytes, rx_requests, rx_bytes;
	uint64_t groups; /* link groups that came up */
};

void counted_tx(struct host *host, uint64_t len);
void counted_rx(struct host *host, uint64_t len);
/** The run fails if the engine's counters differ from host->counted. */
void counted_check(struct host *host);
/** A new engine has counted nothing. */
void counted_forget(struct host *host);

#endif
