/* SPDX-License-Identifier: MIT */
/**
 * @file complete.h
 * What a shell may complete a word to. The shells' scripts (etc/completion) run
 * "smcrctl --complete WORD ..": so they need not know smcrctl's words, and can offer what smcrd
 * has.
 */
#ifndef SMCRD_SMCRCTL_COMPLETE_H
#define SMCRD_SMCRCTL_COMPLETE_H

#include <stdbool.h>

/** Does a shell ask for completions? */
bool complete_is_wanted(int argc, char **argv);

/**
 * Print what the last word may become, each on a line; nothing if any text or a file is possible.
 * @param argv  the words behind "smcrctl" up to the one that is completed, which may be ""
 * @return the exit status, 0
 */
int complete(int argc, char **argv);

#endif
