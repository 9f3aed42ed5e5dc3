/* SPDX-License-Identifier: MIT */
/**
 * @file turns.h
 * Measures how long one kind of work keeps the event loop. Everything else that is ready waits
 * meanwhile, also the data of all programs. So no work should take longer than TURNS_LIMIT_US. Work
 * that does is counted, and logged at most once a minute.
 *
 * A function that begins a kind of work calls turns_begin() with a time that it has read anyway.
 * Work before the first such call of a turn is not measured. On a busy host the time that the
 * process waited for a processor counts too.
 */
#ifndef SMCRD_HOST_TURNS_H
#define SMCRD_HOST_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#define TURNS_LIMIT_US 5000

enum turns_work {
	TURNS_PROGRAMS, /* bytes, connections and requests of programs */
	TURNS_TOOLS,    /* requests of smcrctl */
	TURNS_ROCE,     /* completions of RNICs */
	TURNS_TIMERS,   /* timers of the engine */
	TURNS_CM,       /* messages, timers and events of the connection manager */
	TURNS_HOST,     /* interfaces and RNICs that come, go and change, signals, the heartbeat */
};
#define TURNS_WORKS (TURNS_HOST + 1)

struct turns_count {
	uint64_t times;      /* how often it took longer than TURNS_LIMIT_US */
	uint64_t longest_us; /* the longest time, also if below the limit */
};

/** Zeroed: nothing was measured. */
struct turns {
	bool at_work;
	enum turns_work work; /* valid if at_work */
	uint64_t since_us;
	struct turns_count counts[TURNS_WORKS];
	uint64_t told_us, untold; /* time of the last log line; how often over the limit since */
};

/** Work of this kind begins, and with that the work before has ended. Times are CLOCK_MONOTONIC. */
void turns_begin(struct turns *turns, enum turns_work work, uint64_t now_us);
/** The work has ended, and the event loop looks for ready events. */
void turns_end(struct turns *turns, uint64_t now_us);
/** "programs", "tools", "roce", "timers", "cm", "host"; static storage. */
const char *turns_name(enum turns_work work);

#endif
