/* SPDX-License-Identifier: MIT */
/**
 * @file waiting.h
 * Decides whether the event loop looks for more work for a short while before it sleeps. Waking a
 * process takes ten microseconds or more, which is most of a round trip. But looking in vain uses a
 * processor that others may need. So the loop looks as long as looking has found work lately, and
 * yields the processor between two looks. Otherwise it sleeps.
 *
 * Uses no thread, no clock, and no system call except sched_yield().
 */
#ifndef SMCRD_HOST_WAITING_H
#define SMCRD_HOST_WAITING_H

#include <stdbool.h>
#include <stdint.h>

/** Counts since the start. */
struct waiting_counts {
	uint64_t spins;  /* the loop looked for more work without sleeping */
	uint64_t vain;   /* of these: how often no work came in time */
	uint64_t sleeps; /* the loop was allowed to sleep */
};

struct waiting {
	uint32_t most_us;     /* how long to look after the last work; 0: always sleep */
	uint32_t worth;       /* rises when looking finds work, falls when it does not */
	uint64_t seen;        /* the count of work at the last look */
	uint64_t since;       /* when that count grew last, microseconds; 0: never */
	bool spinning, slept; /* since `since` */
	struct waiting_counts counts;
};

/** @param most_us most microseconds to look; 0: never look */
void waiting_init(struct waiting *waiting, uint32_t most_us);

/** Change `most_us`; what was learnt and counted stays. */
void waiting_set_most(struct waiting *waiting, uint32_t most_us);

/**
 * To be called before each turn of the event loop: may the turn sleep? Yields the processor if the
 * look before has found nothing.
 * @param work    a count that grows with each piece of work done
 * @param now_us  microseconds of a clock that never goes back; not used if `most_us` is 0
 * @return true: look for work without sleeping
 */
bool waiting_look(struct waiting *waiting, uint64_t work, uint64_t now_us);

#endif
