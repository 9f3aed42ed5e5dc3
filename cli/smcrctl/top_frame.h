/* SPDX-License-Identifier: MIT */
/** @file top_frame.h A sample with its rates, as text for a screen or for a file, or as JSON. */
#ifndef SMCRD_SMCRCTL_TOP_FRAME_H
#define SMCRD_SMCRCTL_TOP_FRAME_H

#include "cli/smcrctl/sort.h"
#include "cli/smcrctl/top_rates.h"

/** How a sample is shown. */
struct top_view {
	struct sort order;  /* by a column of top_columns; for other tables, if they have it */
	const char *filter; /* the filter's words; "": none */
	double seconds;     /* between frames */
	bool paused;
	bool details;           /* all columns */
	size_t lines;           /* of the screen; 0: no limit */
	size_t most[TOP_KINDS]; /* rows of each table; 0: all. Only without `lines` */
	uint64_t now_us;        /* since 1970 */
};

/** The columns of the table of connections. */
#define TOP_NUM_COLUMNS 14
extern const struct column top_columns[TOP_NUM_COLUMNS];
/** The order of connections by default: the largest rate first. */
extern const struct sort top_default_order;

/**
 * Decide how many rows of each table are shown if not all fit. Connections get most of the lines,
 * but each table that has rows shows some, as long as its titles fit.
 * @param lines  for all tables; each takes a line of titles and an empty line before
 * @param have   how many rows each table has
 */
void top_frame_share(size_t lines, const size_t have[TOP_KINDS], size_t ret_rows[TOP_KINDS]);

/**
 * Two lines about the whole sample, then the tables, each behind an empty line. Columns are left
 * out as table_set_style() says; the caller has to cut lines that are still too wide.
 * @return malloc'ed, in UTF-8, without control characters other than the ends of lines; NULL
 * without memory
 */
char *top_frame_text(const struct top_sample *sample, const struct top_sums *sums,
		     const struct top_view *view);

/** The sample for programs: the value of "top" in the document. @return a new reference, or NULL */
json_t *top_frame_json(const struct top_sample *sample, const struct top_sums *sums,
		       const struct top_view *view);

#endif
