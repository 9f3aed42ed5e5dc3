/* SPDX-License-Identifier: MIT */
/** @file help.h Help about smcrctl, about an object, and about a command. */
#ifndef SMCRD_SMCRCTL_HELP_H
#define SMCRD_SMCRCTL_HELP_H

#include <stdbool.h>
#include <stdio.h>

/** Print all objects, commands and options. */
void help_usage(FILE *out);
/** Print one line, after wrong usage. */
void help_hint(FILE *out);

/** Do the words ask for help: "help ..", "OBJECT help" or "OBJECT COMMAND help"? */
bool help_is_wanted(int argc, char **argv);
/** Print the help that the words ask for. @return false after an error message: there is no such
 * object or command */
bool help_words(int argc, char **argv);

#endif
