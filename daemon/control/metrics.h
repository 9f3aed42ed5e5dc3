/* SPDX-License-Identifier: MIT */
/**
 * @file metrics.h
 * What smcrd counts, for monitoring systems: one table of metrics (metrics.c), written as
 * OpenMetrics.
 *
 * How many samples there are does not depend on peers or programs: labels are sides, reasons and
 * RNICs, never a connection, an address or a name that somebody has chosen.
 */
#ifndef SMCRD_CONTROL_METRICS_H
#define SMCRD_CONTROL_METRICS_H

#include <stddef.h>

#include "daemon/control/control.h"
#include "daemon/control/openmetrics.h"

/** All of them, of now. @return the text, malloc'ed; NULL: no memory */
char *metrics_text(const struct control *control);

/** For tests: the families, without their samples. @return NULL: there are no more */
const struct openmetrics_family *metrics_family(size_t i);

#endif
