/* SPDX-License-Identifier: MIT */
/** @file watch.h Prints the same thing again and again: --watch. */
#ifndef SMCRD_SMCRCTL_WATCH_H
#define SMCRD_SMCRCTL_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct watch {
	double seconds;
	bool terminal;     /* paint the screen anew each time; else print one after the other */
	const char *title; /* stands in a line with the time; NULL: no such line */
	/** Print once, to standard output. @return 0, or an exit status, which ends watch_run() */
	int (*print)(void *ctx);
	void *ctx;
	uint64_t count; /* how many times; 0: without end */
};

/** Print until an interrupt ends the program, or `count` is reached. @return the exit status */
int watch_run(const struct watch *watch);

/** Set the time of the next step. Steps have the same length; those that are over are left out.
 * @param next  CLOCK_MONOTONIC: the step before, then the next one */
void watch_set_next(double seconds, struct timespec *next);

/** The time that is left until `end`, of CLOCK_MONOTONIC. @return false: `end` is over */
bool watch_left(const struct timespec *end, struct timespec *ret_left);

/** The size of the terminal in characters; 0: standard output is no terminal. */
void watch_screen(unsigned short *ret_columns, unsigned short *ret_lines);

#endif
