/* SPDX-License-Identifier: MIT */
/**
 * @file interrupt.h
 * What goes on until somebody ends it, ends well: with status 0, and not in the middle of a line.
 */
#ifndef SMCRD_SMCRCTL_INTERRUPT_H
#define SMCRD_SMCRCTL_INTERRUPT_H

/** From now on SIGINT and SIGTERM end the program with status 0. */
void interrupt_is_the_end(void);

/** Between these two they wait: something is being written. The second one flushes it. @return
 *  interrupt_release(): 0, or -1 if standard output takes no more */
void interrupt_hold(void);
int interrupt_release(void);

#endif
