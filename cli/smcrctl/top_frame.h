/* SPDX-License-Identifier: MIT */
/** @file top_frame.h A sample with its rates, as text for a screen or for a file, or as JSON. */
#ifndef SMCRD_SMCRCTL_TOP_FRAME_H
#define SMCRD_SMCRCTL_TOP_FRAME_H

#include "cli/smcrctl/sort.h"
#include "cli/smcrctl/top_rates.h"

/** How it is looked at. */
struct top_view {
	struct sort order;  /* of connections: a column of top_columns; of the others as far as
			       they have it, too */
	const char *filter; /* its words; "": none */
	double seconds;     /* from frame to frame */
	bool paused;
	bool details;           /* all columns */
	size_t lines;           /* that there are; 0: as many as it takes */
	size_t most[TOP_KINDS]; /* rows of each table; 0: all. Only without `lines` */
	uint64_t now_us;        /* since 1970 */
};

/** Of the connections: top_columns. */
#define TOP_NUM_COLUMNS 14
extern const struct column top_columns[TOP_NUM_COLUMNS];
/** The one that connections are sorted by first, the largest value first. */
extern const struct sort top_default_order;

/**
 * How many rows of each table are shown where there is not room for all: most of the room is for
 * connections, but each table that has rows shows some, as long as there is room for its titles.
 * @param lines  for the tables, each with a line of titles and an empty one before
 * @param have   how many rows there are
 */
void top_frame_share(size_t lines, const size_t have[TOP_KINDS], size_t ret_rows[TOP_KINDS]);

/**
 * Two lines about all of it, then the tables, each behind an empty line. Widths go by
 * table_set_style(); what is too wide all the same is for the caller to cut.
 * @return malloc'ed, in UTF-8, without control characters other than the ends of lines; NULL
 * without memory
 */
char *top_frame_text(const struct top_sample *sample, const struct top_sums *sums,
		     const struct top_view *view);

/** The same for programs: what "top" is in the document. @return a new reference, or NULL */
json_t *top_frame_json(const struct top_sample *sample, const struct top_sums *sums,
		       const struct top_view *view);

#endif
