/* SPDX-License-Identifier: MIT */
/**
 * @file metrics.h
 * The counts of smcrd for monitoring systems: one table of metrics (metrics.c), written as
 * OpenMetrics.
 *
 * The number of samples does not depend on peers or programs: labels are sides, reasons and RNICs,
 * never connections, addresses or names that a peer or program has chosen.
 */
#ifndef SMCRD_CONTROL_METRICS_H
#define SMCRD_CONTROL_METRICS_H

#include <stddef.h>

#include "daemon/control/control.h"
#include "daemon/control/openmetrics.h"

/** The present metrics. @return the text, malloc'ed; NULL: no memory */
char *metrics_text(const struct control *control);

/** For tests: family `i`, without its samples. @return NULL: there are no more */
const struct openmetrics_family *metrics_family(size_t i);

#endif
