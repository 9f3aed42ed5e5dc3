/* SPDX-License-Identifier: MIT */
/**
 * @file top_sample.h
 * A sample: smcrd's link groups, links and connections at one moment, with their counters, and the
 * connections that have ended since the sample before. One thread; nothing here waits.
 */
#ifndef SMCRD_SMCRCTL_TOP_SAMPLE_H
#define SMCRD_SMCRCTL_TOP_SAMPLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

enum top_kind { TOP_GROUPS, TOP_LINKS, TOP_CONNECTIONS, TOP_KINDS };

#define TOP_NONE_ENDED 0  /* `last_ended`: smcrd remembers no connection that has ended */
#define TOP_NOT_KNOWN  -1 /* `last_ended`: there is no sample before */

/** The same thing has the same key in each sample. */
struct top_key {
	uint64_t id, uid;
};

struct top_row {
	struct top_key key;
	uint64_t at_us; /* CLOCK_MONOTONIC: when smcrd's page with the row came */
	bool ended;
	json_t *row; /* as smcrd has sent it; top_rates.h adds rates */
	UT_hash_handle hh;
};

struct top_sample {
	pid_t smcrd;                     /* the process that was asked */
	uint64_t begun_us;               /* CLOCK_MONOTONIC, before smcrd was asked */
	struct top_row *rows[TOP_KINDS]; /* hash tables by key, in smcrd's order */
	json_int_t last_ended; /* id of the connection that ended last, or TOP_NONE_ENDED */
};

/**
 * Add a page of a view. Pages of connections have living ones first, then those that have ended,
 * the last one first, then those that were TCP from the beginning, which have no counters.
 * @param at_us       when the page came
 * @param last_ended  of the sample before, or TOP_NOT_KNOWN: connections that had ended by then are
 *                    left out
 * @return 1: the next page is wanted, if there is one; 0: no further page is wanted; -ENOMEM
 */
int top_sample_add(struct top_sample *sample, enum top_kind kind, const json_t *page,
		   uint64_t at_us, json_int_t last_ended);

/** The row with the same key; NULL: there is none. */
struct top_row *top_sample_find(const struct top_sample *sample, enum top_kind kind,
				const struct top_key *key);

/** Take a row out, and free it. */
void top_sample_remove(struct top_sample *sample, enum top_kind kind, struct top_row *row);

/** Leaves an empty sample. */
void top_sample_free(struct top_sample *sample);

#endif
