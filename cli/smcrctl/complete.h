/* SPDX-License-Identifier: MIT */
/**
 * @file complete.h
 * What a shell may complete a word to. The shells' scripts (etc/completion) ask by
 * "smcrctl --complete WORD ..", so that they know what this smcrctl knows, and what smcrd has.
 */
#ifndef SMCRD_SMCRCTL_COMPLETE_H
#define SMCRD_SMCRCTL_COMPLETE_H

#include <stdbool.h>

/** Is this such a question? */
bool complete_is_wanted(int argc, char **argv);

/**
 * Print what the last word may become, a line each; nothing if it may be a file or anything.
 * @param argv  the words behind "smcrctl" up to the one that is completed, which may be ""
 * @return the exit status, 0
 */
int complete(int argc, char **argv);

#endif
