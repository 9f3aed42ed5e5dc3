/* SPDX-License-Identifier: MIT */
/**
 * @file sights.h
 * What has come up in runs: a rule is tested only by runs in which its situation came up.
 */
#ifndef SMCRD_TESTS_RNICSIM_SIGHTS_H
#define SMCRD_TESTS_RNICSIM_SIGHTS_H

#include <stdint.h>

struct rnic_stats;

enum sight {
	SAW_WRITE,
	SAW_SEND,
	SAW_READ,
	SAW_LONG_READ,    /* of more than one packet */
	SAW_CHANGED_READ, /* that found what was stored after it was posted */
	SAW_SEND_INVALIDATE,
	SAW_USER_BUFFER,
	SAW_WINDOW,
	SAW_TOKEN_DEATH,  /* while requests used it */
	SAW_FREED_MEMORY, /* of own requests under way */
	SAW_RETRANSMIT,
	SAW_HELD,
	SAW_DUPLICATE,
	SAW_DAMAGE,
	SAW_RNR,
	SAW_CONGESTION,
	SAW_TIMEOUT,
	SAW_SOCKET_FULL,
	SAW_DESTROY_IN_CALLBACK,
	SAW_DESTROY_OF_ANOTHER, /* in a callback */
	SAW_FAILURE,            /* the first of those by status */
	NUM_SIGHTS = SAW_FAILURE + 16,
};

struct sights {
	uint64_t count[NUM_SIGHTS];
};

/** Of all runs of this process. */
extern struct sights sights;

void saw(unsigned int sight);
/** An RNIC is about to be closed. */
void saw_stats(const struct rnic_stats *stats);
void sights_add(struct sights *to, const struct sights *from);
void sights_print(const struct sights *of);

#endif
