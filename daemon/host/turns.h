/* SPDX-License-Identifier: MIT */
/**
 * @file turns.h
 * How long the event loop is kept by one kind of work. Whatever is ready waits meanwhile, the data
 * of all programs too, so nothing should take more than TURNS_LIMIT_US: what does is counted, and
 * told in the log now and then.
 *
 * Whoever begins with something marks it with a time that it has read anyway. What comes before the
 * first mark of a turn is not seen. A process that has to wait for a processor takes longer: on a
 * host with too much to do, all of this counts that too.
 */
#ifndef SMCRD_HOST_TURNS_H
#define SMCRD_HOST_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#define TURNS_LIMIT_US 5000

enum turns_work {
	TURNS_PROGRAMS, /* bytes, connections and requests of programs */
	TURNS_TOOLS,    /* what smcrctl asks for */
	TURNS_ROCE,     /* what RNICs have completed */
	TURNS_TIMERS,   /* of the engine */
	TURNS_HOST,     /* interfaces and RNICs that come, go and change, signals, the heartbeat */
};
#define TURNS_WORKS (TURNS_HOST + 1)

struct turns_count {
	uint64_t times;      /* over the limit */
	uint64_t longest_us; /* whether that was over it or not */
};

/** Zeroed: nothing has happened. */
struct turns {
	bool at_work;
	enum turns_work work; /* if it is */
	uint64_t since_us;
	struct turns_count counts[TURNS_WORKS];
	uint64_t told_us, untold; /* the last log line was then; so many since */
};

/** Work of this kind begins, and what was before has ended. Times are CLOCK_MONOTONIC. */
void turns_begin(struct turns *turns, enum turns_work work, uint64_t now_us);
/** The loop looks for what is ready. */
void turns_end(struct turns *turns, uint64_t now_us);
/** "programs", "tools", "roce", "timers", "host"; static storage. */
const char *turns_name(enum turns_work work);

#endif
