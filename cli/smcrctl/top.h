/* SPDX-License-Identifier: MIT */
/**
 * @file top.h
 * smcrctl top: samples of what smcrd has (top_ask.h), the difference of two of them (top_rates.h),
 * as text (top_frame.h) on a terminal (top_live.c, top_screen.h) or one frame after the other.
 */
#ifndef SMCRD_SMCRCTL_TOP_H
#define SMCRD_SMCRCTL_TOP_H

#include "cli/smcrctl/tools.h"
#include "cli/smcrctl/top_ask.h"
#include "cli/smcrctl/top_frame.h"

#define TOP_FILTER_LEN 128

struct top {
	const struct tool_call *call;
	struct top_ask ask;
	struct top_view view;
	struct top_sums sums;
	json_t *filter;             /* as parameters */
	char words[TOP_FILTER_LEN]; /* the same as words */
	uint64_t earliest_us; /* CLOCK_MONOTONIC: not before that a step brings the next sample,
				 so that smcrd has time for other things */
	char note[SESSION_ERROR_LEN]; /* why there is no new sample; "": there is */
};

/**
 * The next sample, with its rates. Without one `note` says why.
 * @return 0, or as top_ask()
 */
int top_sample(struct top *top);

/** From now on by these words, which are pairs of a filter and its value; begin anew. @return
 * false: nothing has changed, and it was said why (words_refuse()) */
bool top_filter(struct top *top, int argc, char **argv);

/** On the terminal, until somebody ends it. There is a sample. @return the exit status */
int top_live(struct top *top);

#endif
