/* SPDX-License-Identifier: MIT */
/**
 * @file waiting.h
 * Whether the event loop looks for more work for a short while before it sleeps. To be woken takes
 * a process some ten microseconds or more, which is most of a round trip; to look in vain costs a
 * processor that somebody else may want. So the loop looks as long as looking has found something
 * lately, gives the processor to others between two looks, and sleeps otherwise.
 *
 * No thread, clock or system call in here but sched_yield().
 */
#ifndef SMCRD_HOST_WAITING_H
#define SMCRD_HOST_WAITING_H

#include <stdbool.h>
#include <stdint.h>

/** What waits came to since the start. */
struct waiting_counts {
	uint64_t spins;  /* the loop looked for more work without sleeping */
	uint64_t vain;   /* of these: there was none in time */
	uint64_t sleeps; /* the loop slept, or would have had there been no work already */
};

struct waiting {
	uint32_t most_us;     /* look for so long at most after the last work; 0: always sleep */
	uint32_t worth;       /* what looking has brought lately */
	uint64_t seen;        /* the count of work at the last look */
	uint64_t since;       /* when it grew last, microseconds; 0: not yet */
	bool spinning, slept; /* since then */
	struct waiting_counts counts;
};

/** @param most_us  microseconds to look for at most; 0: never */
void waiting_init(struct waiting *waiting, uint32_t most_us);

/** From here on look for so long at most; what was learnt and counted stays. */
void waiting_set_most(struct waiting *waiting, uint32_t most_us);

/**
 * Before each turn of the event loop: may the turn sleep? Gives the processor to others, when a
 * look has found nothing.
 * @param work    a count that grows with each piece of work done
 * @param now_us  microseconds of a clock that never goes back; not looked at if `most_us` is 0
 * @return true: look for more without sleeping
 */
bool waiting_look(struct waiting *waiting, uint64_t work, uint64_t now_us);

#endif
