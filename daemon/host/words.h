/* SPDX-License-Identifier: MIT */
/** @file words.h Makes text of foreign origin safe to show. */
#ifndef SMCRD_HOST_WORDS_H
#define SMCRD_HOST_WORDS_H

/**
 * Make a text valid UTF-8. A "?" replaces each byte that is not part of a character (for example
 * where a character was cut), each control character except the newline, and each byte of a
 * noncharacter of Unicode (U+FFFE and others). JSON and D-Bus accept the result, and a terminal
 * only shows it.
 */
void words_mend(char *text);

#endif
