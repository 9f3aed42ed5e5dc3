/* SPDX-License-Identifier: MIT */
/**
 * @file capture_out.h
 * Where the bytes of a capture go. A pipe whose reader is slow holds nobody for good: a signal or
 * the end of the time is noticed while something is being written, too. One thread, one at a time.
 */
#ifndef SMCRD_SMCRCTL_CAPTURE_OUT_H
#define SMCRD_SMCRCTL_CAPTURE_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct capture_out {
	FILE *file; /* NULL: it is not open */
	int fd;
	bool own, whole;     /* whole: a regular file, which takes what it is given */
	uint64_t end_ms;     /* when the capture ends, by capture_out_now(); 0: it has no end */
	const char *problem; /* why nothing is written any more; NULL: there is none */
};

/** Milliseconds of a clock that only goes forward. */
uint64_t capture_out_now(void);

/** From now on SIGINT, SIGTERM and SIGHUP (unless that is ignored, as by nohup) are counted, and
 * end no system call unnoticed. */
int capture_out_take_signals(void);
/** Has one come? */
bool capture_out_is_interrupted(void);

/** Is the capture over, for a signal or its time? */
bool capture_out_is_over(const struct capture_out *out);

/**
 * Open it; a new file is its owner's only. Never waits.
 * @param name  NULL: standard output
 * @return 0, -EAGAIN: a FIFO that nobody reads yet, or what open() says, negative
 */
int capture_out_open(struct capture_out *out, const char *name);

/** Write what is left, and close. @return false: not all of it was written, see `problem` */
bool capture_out_close(struct capture_out *out);

#endif
