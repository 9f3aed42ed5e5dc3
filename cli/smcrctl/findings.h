/* SPDX-License-Identifier: MIT */
/**
 * @file findings.h
 * What "smcrctl doctor" and "smcrctl check" find out. A finding has a level, says what is so and
 * where, and what to do.
 */
#ifndef SMCRD_SMCRCTL_FINDINGS_H
#define SMCRD_SMCRCTL_FINDINGS_H

#include <jansson.h>
#include <stddef.h>

enum finding_level {
	FINDING_OK,
	FINDING_WARNING, /* SMC-R works, but could work better; or something was not checked */
	FINDING_PROBLEM, /* connections stay TCP because of this */
};

struct findings {
	json_t *list;        /* objects with check, level, text and advice (or null) */
	const char *subject; /* "check" of the next findings; static storage */
};

void findings_open(struct findings *findings);
void findings_close(struct findings *findings);

/**
 * Add a finding.
 * @param format  "WHAT, WHERE", or "WHAT, WHERE\nWHAT TO DO"
 */
void findings_add(struct findings *findings, enum finding_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** How many findings of this level there are. */
size_t findings_count(const struct findings *findings, enum finding_level level);

/** Print each finding as a line: "problem: WHAT, WHERE; WHAT TO DO". */
void findings_print(const struct findings *findings);

#endif
