/* SPDX-License-Identifier: MIT */
/**
 * @file top_sample.h
 * What smcrd has at one moment, with its counters: link groups, links, and connections, those that
 * have ended since the moment before among them. One thread; nothing here waits.
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

#define TOP_NONE_ENDED 0  /* `last_ended`: smcrd remembers none */
#define TOP_NOT_KNOWN  -1 /* likewise: there is no moment before */

/** What is the same in two samples has the same one. */
struct top_key {
	uint64_t id, uid;
};

struct top_row {
	struct top_key key;
	uint64_t at_us; /* CLOCK_MONOTONIC: smcrd told it then */
	bool ended;
	json_t *row; /* as smcrd has told it; top_rates.h adds to it */
	UT_hash_handle hh;
};

struct top_sample {
	pid_t smcrd;                     /* the process that told it */
	uint64_t begun_us;               /* CLOCK_MONOTONIC, before smcrd was asked */
	struct top_row *rows[TOP_KINDS]; /* hash tables by key, in the order in which smcrd told */
	json_int_t
		last_ended; /* the connection that has ended last: its number, or TOP_NONE_ENDED */
};

/**
 * Add a page of what smcrd shows. Connections come with those that live first, then those that have
 * ended, the last one first, then those that were TCP from the beginning, which have no counters.
 * @param at_us       when it came
 * @param last_ended  of the sample before, or TOP_NOT_KNOWN: what had ended then is left out
 * @return 1: the next page is wanted, if there is one; 0: what follows is not; -ENOMEM
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
