/* SPDX-License-Identifier: MIT */
/**
 * @file openmetrics.h
 * The text format of OpenMetrics 1.0: families of samples. To write a family, begin it and then
 * write all its samples.
 */
#ifndef SMCRD_CONTROL_OPENMETRICS_H
#define SMCRD_CONTROL_OPENMETRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum openmetrics_kind {
	OPENMETRICS_GAUGE,
	OPENMETRICS_COUNTER, /* samples are called NAME_total */
	OPENMETRICS_INFO,    /* NAME_info; always 1 */
	OPENMETRICS_HISTOGRAM,
};

struct openmetrics_family {
	const char *name;
	enum openmetrics_kind kind;
	const char *unit; /* "bytes", "seconds", also the end of the name; "": none */
	const char *help; /* a sentence without its full stop */
};

/** A label of a sample. `value` is escaped here. */
struct openmetrics_label {
	const char *name, *value;
};

struct openmetrics {
	FILE *out;
	const struct openmetrics_family *family;
	char *text;
	size_t len;
};

/** @return false: no memory */
bool openmetrics_begin(struct openmetrics *metrics);
/** Begin a family: HELP, TYPE and UNIT. */
void openmetrics_family(struct openmetrics *metrics, const struct openmetrics_family *family);
/** Write a sample of the family, a gauge or counter. */
void openmetrics_sample(struct openmetrics *metrics, const struct openmetrics_label *labels,
			size_t num_labels, uint64_t value);
/** The same for microseconds, which are written as seconds. */
void openmetrics_seconds(struct openmetrics *metrics, const struct openmetrics_label *labels,
			 size_t num_labels, uint64_t us);
/**
 * Write the samples of a histogram.
 * @param ends    ends of the classes, smallest first, one less than there are classes
 * @param counts  counts of the classes, not cumulative
 * @param scale   divisor of `ends` and `sum`: 1000000 if they are microseconds, else 1
 */
void openmetrics_histogram(struct openmetrics *metrics, const struct openmetrics_label *labels,
			   size_t num_labels, const uint64_t *ends, const uint64_t *counts,
			   size_t num_classes, uint64_t sum, uint64_t scale);
/** End the text. @return the text, malloc'ed; NULL: no memory */
char *openmetrics_end(struct openmetrics *metrics);

#endif
