/* SPDX-License-Identifier: MIT */
/** A filter for engine pairs that picks out one kind of message, and functions that find links of a
 * pair by state. */
#ifndef SMCRD_TESTS_ENGINEPAIR_FILTER_H
#define SMCRD_TESTS_ENGINEPAIR_FILTER_H

#include "tests/lib/enginepair.h"

/** Messages of one kind get `verdict`, after `skip` of them have passed. */
struct pair_pick {
	int from; /* side, or -1: either */
	bool clc;
	uint8_t type; /* CLC or LLC; SMCR_LLC_CDC */
	bool reply;   /* LLC */
	int link;     /* LLC: number, or 0: any */
	unsigned int skip;
	enum pair_verdict verdict;
	unsigned int seen; /* how many messages were picked out */
};

static inline bool pair_picked(const struct pair_pick *pick, const struct pair_msg *msg)
{
	if (pick->from >= 0 && msg->from != pick->from)
		return false;
	if (msg->is_clc || pick->clc)
		return msg->is_clc == pick->clc && msg->clc.type == pick->type;
	if (pick->link && msg->link != pick->link)
		return false;
	if (msg->is_cdc || pick->type == SMCR_LLC_CDC)
		return msg->is_cdc && pick->type == SMCR_LLC_CDC;
	return msg->llc.type == pick->type && msg->llc.reply == pick->reply;
}

static inline enum pair_verdict pair_pick_filter(struct pair *pair, const struct pair_msg *msg,
						 void *arg)
{
	struct pair_pick *pick = arg;
	(void)pair;
	if (!pair_picked(pick, msg))
		return PAIR_PASS;
	if (pick->skip) {
		pick->skip--;
		return PAIR_PASS;
	}
	pick->seen++;
	return pick->verdict;
}

static inline void pair_set_pick(struct pair *pair, struct pair_pick *pick)
{
	pair->filter = pick ? pair_pick_filter : NULL;
	pair->filter_arg = pick;
}

#endif
