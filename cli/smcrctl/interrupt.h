/* SPDX-License-Identifier: MIT */
/**
 * @file interrupt.h
 * What goes on until somebody ends it, ends well: with status 0, and not in the middle of a line.
 */
#ifndef SMCRD_SMCRCTL_INTERRUPT_H
#define SMCRD_SMCRCTL_INTERRUPT_H

#include <poll.h>
#include <stdbool.h>

/** From now on SIGINT and SIGTERM end the program with status 0. */
void interrupt_is_the_end(void);

/** Between these two they wait: something is being written. The second one flushes it. @return
 *  interrupt_release(): 0, or -1 if standard output takes no more */
void interrupt_hold(void);
int interrupt_release(void);

/** Standard output, for poll() beside what is waited for: without data a reader that has gone shows
 *  only there. */
struct pollfd interrupt_reader(void);

/** After poll(): nobody reads standard output any more. */
bool interrupt_reader_has_gone(const struct pollfd *reader);

/** Ends the program as the next write would, unless SIGPIPE is ignored. */
void interrupt_without_reader(void);

#endif
