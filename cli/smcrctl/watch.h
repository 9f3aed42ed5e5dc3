/* SPDX-License-Identifier: MIT */
/** @file watch.h The same again and again: --watch. */
#ifndef SMCRD_SMCRCTL_WATCH_H
#define SMCRD_SMCRCTL_WATCH_H

#include <stdbool.h>

struct watch {
	double seconds;
	bool terminal;     /* the screen is painted anew; else one comes after the other */
	const char *title; /* of the line with the time; NULL: without such a line */
	/** Print once, to standard output. @return 0, or the exit status with which it ends */
	int (*print)(void *ctx);
	void *ctx;
};

/** Until interrupted, which ends the program. @return the exit status */
int watch_run(const struct watch *watch);

/** How many characters a line of the terminal has, and how many lines there are; 0: it is none. */
void watch_screen(unsigned short *ret_columns, unsigned short *ret_lines);

#endif
