/* SPDX-License-Identifier: MIT */
/**
 * @file top_rates.h
 * Bytes a second, from the difference between the counters of two samples.
 *
 * Of a connection that began after the sample before, all bytes count; of a connection that has
 * ended, its bytes until the end. A rate that cannot be known is null: in the first sample, and of
 * rows that the sample before did not have although they are older.
 */
#ifndef SMCRD_SMCRCTL_TOP_RATES_H
#define SMCRD_SMCRCTL_TOP_RATES_H

#include "cli/smcrctl/top_sample.h"

/* Keys that are added to a row: bytes a second. */
#define TOP_TX_RATE "tx_rate_bytes"
#define TOP_RX_RATE "rx_rate_bytes"
#define TOP_RATE    "rate_bytes" /* both */

/** Sums over a whole sample. */
struct top_sums {
	size_t groups, links, connections, smcr; /* smcr: connections that use SMC-R */
	size_t ended;                            /* connections, since the sample before */
	bool known;        /* there is a sample before, so what follows holds */
	double seconds;    /* since the sample before */
	json_int_t tx, rx; /* bytes a second of all connections */
};

/**
 * Add rates to every row of `now`, and take out the connections that have ended without a byte
 * since the sample before. The rate of a link group is the sum of its links' rates.
 * @param before    of the same filter; NULL: there is none. A sample of another smcrd is not used
 * @param ret_sums  may be NULL
 */
void top_rates(const struct top_sample *before, struct top_sample *now, struct top_sums *ret_sums);

#endif
