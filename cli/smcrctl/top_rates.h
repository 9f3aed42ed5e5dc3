/* SPDX-License-Identifier: MIT */
/**
 * @file top_rates.h
 * Bytes a second: what the counters of two samples differ by.
 *
 * A connection that has come since the sample before counts with all its bytes, one that has ended
 * with those until its end. What cannot be known is null: in the first sample, and of what was not
 * looked at before.
 */
#ifndef SMCRD_SMCRCTL_TOP_RATES_H
#define SMCRD_SMCRCTL_TOP_RATES_H

#include "cli/smcrctl/top_sample.h"

/* What is added to a row: bytes a second. */
#define TOP_TX_RATE "tx_rate_bytes"
#define TOP_RX_RATE "rx_rate_bytes"
#define TOP_RATE    "rate_bytes" /* both */

/** Of a whole sample. */
struct top_sums {
	size_t groups, links, connections, smcr; /* that are there; smcr: of the connections */
	size_t ended;                            /* connections, since the sample before */
	bool known;                              /* of what follows: there is a sample before */
	double seconds;                          /* since then */
	json_int_t tx, rx;                       /* bytes a second of all connections */
};

/**
 * Add rates to every row of `now`, and take out the connections that have ended without a byte
 * since the sample before. Link groups have what their links have.
 * @param before    of the same filter; NULL: there is none. One of another smcrd counts as none
 * @param ret_sums  may be NULL
 */
void top_rates(const struct top_sample *before, struct top_sample *now, struct top_sums *ret_sums);

#endif
