/* SPDX-License-Identifier: MIT */
/**
 * @file stats.h
 * Counts since the start of an engine, for operators. They are incremented where things happen. No
 * clock is read for them, and the counts of a connection stay when it has ended.
 */
#ifndef SMCRD_SMCR_STATS_H
#define SMCRD_SMCR_STATS_H

#include <stdint.h>

#include "daemon/smcr/engine.h"

/** Classes of sizes: up to 8 KiB, 16 KiB, .. 512 KiB, and what is larger. */
#define SMCR_SIZE_CLASSES 8
/** The largest size of a class; UINT64_MAX for the last class. */
static inline uint64_t smcr_size_class_end(unsigned int class)
{
	return class + 1 < SMCR_SIZE_CLASSES ? UINT64_C(8192) << class : UINT64_MAX;
}

static inline unsigned int smcr_size_class(uint64_t size)
{
	if (size <= 8192)
		return 0;
	unsigned int class = 64 - 13 - (unsigned int)__builtin_clzll(size - 1);
	return class < SMCR_SIZE_CLASSES ? class : SMCR_SIZE_CLASSES - 1;
}

/** One direction of all connections. */
struct smcr_flow_stats {
	uint64_t bytes;    /* application bytes: written to peers (tx), written by peers (rx) */
	uint64_t messages; /* CDC messages that announced bytes */
	uint64_t cdcs;     /* all CDC messages */
	/** How often bytes were taken from programs (tx) or by programs (rx), and how many; `sizes`
	 * has the bytes at a time by class. Bytes of several calls of a program may be taken at
	 * once. */
	uint64_t requests, request_bytes;
	uint64_t sizes[SMCR_SIZE_CLASSES];
	uint64_t full;                        /* how often the own buffer became full */
	uint64_t window_full;                 /* tx: how often the peer's element became full */
	uint64_t urgent;                      /* urgent bytes */
	uint64_t buffers[SMCR_BSIZE_MAX + 1]; /* connections that got a buffer of this size code */
	uint64_t downgrades; /* connections whose buffer was smaller because memory was short */
};

/** Times, counted by classes. smcr_time_ends() are the ends of the classes; the last class has no
 * end. */
#define SMCR_TIME_CLASSES 15
struct smcr_times {
	uint64_t counts[SMCR_TIME_CLASSES];
	uint64_t sum_us;
};

/** SMCR_TIME_CLASSES - 1 microseconds, in ascending order. */
const uint64_t *smcr_time_ends(void);
void smcr_times_add(struct smcr_times *times, uint64_t us);

struct smcr_engine_stats {
	struct smcr_flow_stats tx, rx;
	/* Arrays by role: enum smcr_role. */
	uint64_t established[2][2]; /* connections over SMC-R; second index: version, 1 and 2 */
	uint64_t fallbacks[2];      /* rendezvous that ended in TCP */
	uint64_t failed[2];         /* rendezvous that broke the connection */
	uint64_t resets;            /* connections over SMC-R that ended abnormally */
	/** From the start of CLC until data may flow. [0]: connections that joined a group; [1]:
	 * first contacts. */
	struct smcr_times handshakes[2];
	uint64_t groups_up, groups_down, links_up, links_failed, links_deleted, links_refused;
	uint64_t failovers; /* how many of links_failed had connections that moved to other links */
	uint64_t moves;     /* how often a connection moved to another link */
	/** From the failure of a link until all its connections write on other links. */
	struct smcr_times failover_gaps;
};

/** [anywhere] */
void smcr_engine_get_stats(const struct smcr_engine *engine, struct smcr_engine_stats *ret_stats);

#endif
