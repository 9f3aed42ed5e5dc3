/* SPDX-License-Identifier: MIT */
/**
 * @file interrupt.h
 * Commands that run until they are interrupted then end with status 0, and not in the middle of a
 * line.
 */
#ifndef SMCRD_SMCRCTL_INTERRUPT_H
#define SMCRD_SMCRCTL_INTERRUPT_H

#include <poll.h>
#include <stdbool.h>

/** From now on SIGINT and SIGTERM end the program with status 0. */
void interrupt_is_the_end(void);

/** Between these two calls the signals wait, because something is being written.
 *  interrupt_release() flushes it. @return 0, or -1: standard output takes no more */
void interrupt_hold(void);
int interrupt_release(void);

/** Standard output, for poll() with other descriptors: as long as nothing is written, only poll()
 *  shows that the reader has gone. */
struct pollfd interrupt_reader(void);

/** After poll(): does nobody read standard output any more? */
bool interrupt_reader_has_gone(const struct pollfd *reader);

/** Ends the program as the next write would, unless SIGPIPE is ignored. */
void interrupt_without_reader(void);

#endif
