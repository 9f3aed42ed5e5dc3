/* SPDX-License-Identifier: MIT */
/** @file help.h What smcrctl can do, at every level. */
#ifndef SMCRD_SMCRCTL_HELP_H
#define SMCRD_SMCRCTL_HELP_H

#include <stdbool.h>
#include <stdio.h>

/** Everything. */
void help_usage(FILE *out);
/** One line, for who has used it wrong. */
void help_hint(FILE *out);

/** Do the words ask for help: "help ..", "OBJECT help" or "OBJECT COMMAND help"? */
bool help_is_wanted(int argc, char **argv);
/** Give it. @return false: of what there is not, and says so */
bool help_words(int argc, char **argv);

#endif
