/* SPDX-License-Identifier: MIT */
/** @file counters.h The names of the counters of RNICs, for all views. */
#ifndef SMCRD_CONTROL_COUNTERS_H
#define SMCRD_CONTROL_COUNTERS_H

#include <jansson.h>

#include "daemon/rnic/rnic.h"

struct counter {
	const char *name; /* JSON key; "drop_" is followed by why packets were dropped */
	const char *help; /* a sentence without its full stop */
	size_t at;        /* offset of the counter in struct rnic_stats */
};

/** All counters, in the order of views; the last entry has no name. */
extern const struct counter rnic_counters[];

uint64_t counter_value(const struct counter *counter, const struct rnic_stats *stats);
/** A JSON object with all counters. */
json_t *counters_json(const struct rnic_stats *stats);

#endif
