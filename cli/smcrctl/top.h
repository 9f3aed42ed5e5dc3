/* SPDX-License-Identifier: MIT */
/**
 * @file top.h
 * smcrctl top: takes samples of smcrd's views (top_ask.h), computes rates from two of them
 * (top_rates.h), and prints them as text (top_frame.h), on a terminal (top_live.c, top_screen.h) or
 * one frame after the other.
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
	char words[TOP_FILTER_LEN]; /* the filter as words */
	uint64_t earliest_us; /* CLOCK_MONOTONIC: the next step takes no sample before then, so that
				 smcrd has time for other things */
	char note[SESSION_ERROR_LEN]; /* why there is no new sample; "": there is one */
};

/**
 * Take the next sample, with its rates. On failure `note` says why.
 * @return 0, or as top_ask()
 */
int top_sample(struct top *top);

/** From now on use these filters, pairs of a word and its value; rates begin anew. @return false
 * after an error message: the filters are as before */
bool top_filter(struct top *top, int argc, char **argv);

/** Show frames on the terminal until the user ends that. There has to be a sample. @return the exit
 * status */
int top_live(struct top *top);

#endif
