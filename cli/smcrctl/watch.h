/* SPDX-License-Identifier: MIT */
/** @file watch.h The same again and again: --watch. */
#ifndef SMCRD_SMCRCTL_WATCH_H
#define SMCRD_SMCRCTL_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct watch {
	double seconds;
	bool terminal;     /* the screen is painted anew; else one comes after the other */
	const char *title; /* of the line with the time; NULL: without such a line */
	/** Print once, to standard output. @return 0, or the exit status with which it ends */
	int (*print)(void *ctx);
	void *ctx;
	uint64_t count; /* it ends well after so many times; 0: never */
};

/** Until interrupted, which ends the program. @return the exit status */
int watch_run(const struct watch *watch);

/** Steps of the same length; what could not be done in time is left out. @param next
 * CLOCK_MONOTONIC: the step before, then the next one */
void watch_set_next(double seconds, struct timespec *next);

/** How long it is until then, of CLOCK_MONOTONIC. @return false: that is over */
bool watch_left(const struct timespec *end, struct timespec *ret_left);

/** How many characters a line of the terminal has, and how many lines there are; 0: it is none. */
void watch_screen(unsigned short *ret_columns, unsigned short *ret_lines);

#endif
