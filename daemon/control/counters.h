/* SPDX-License-Identifier: MIT */
/** @file counters.h The counters of RNICs by name, for every place that shows them. */
#ifndef SMCRD_CONTROL_COUNTERS_H
#define SMCRD_CONTROL_COUNTERS_H

#include <jansson.h>

#include "daemon/rnic/rnic.h"

struct counter {
	const char *name; /* a key of JSON; what follows "drop_" says why packets were dropped */
	const char *help; /* a sentence without its full stop */
	size_t at;        /* of the number in struct rnic_stats */
};

/** All of them, in the order in which they are shown; the last one has no name. */
extern const struct counter rnic_counters[];

uint64_t counter_value(const struct counter *counter, const struct rnic_stats *stats);
/** An object with each of them. */
json_t *counters_json(const struct rnic_stats *stats);

#endif
