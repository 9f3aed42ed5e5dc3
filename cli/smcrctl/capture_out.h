/* SPDX-License-Identifier: MIT */
/**
 * @file capture_out.h
 * Where the bytes of a capture go. If the reader of a pipe is slow, signals and the end of the time
 * still end the capture: they are noticed during a write, too. For one thread, and one open
 * capture_out at a time.
 */
#ifndef SMCRD_SMCRCTL_CAPTURE_OUT_H
#define SMCRD_SMCRCTL_CAPTURE_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct capture_out {
	FILE *file; /* NULL: not open */
	int fd;
	bool own, whole;     /* own: opened here; whole: a regular file, which takes whole writes */
	uint64_t end_ms;     /* when the capture ends, by capture_out_now(); 0: no limit of time */
	const char *problem; /* why nothing is written any more; NULL: no problem */
};

/** Milliseconds of a clock that only goes forward. */
uint64_t capture_out_now(void);

/** From now on SIGINT, SIGTERM and SIGHUP (unless SIGHUP is ignored, as by nohup) are counted, and
 * interrupt system calls. @return 0 or -1 */
int capture_out_take_signals(void);
/** Has a signal come? */
bool capture_out_is_interrupted(void);

/** Is the capture over, for a signal or its time? */
bool capture_out_is_over(const struct capture_out *out);

/**
 * Open the file; only its owner may read a new file. Never waits.
 * @param name  NULL: standard output
 * @return 0, -EAGAIN: a FIFO that nobody reads yet, or another negative errno
 */
int capture_out_open(struct capture_out *out, const char *name);

/** Write what is buffered, and close. @return false: not everything was written, see `problem` */
bool capture_out_close(struct capture_out *out);

#endif
