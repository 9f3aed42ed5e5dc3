/* SPDX-License-Identifier: MIT */
/** @file words.h Text that came from elsewhere, as it may be shown. */
#ifndef SMCRD_HOST_WORDS_H
#define SMCRD_HOST_WORDS_H

/**
 * Make UTF-8 of a text: a "?" takes the place of each byte that is part of no character, as where a
 * character was cut, and of each control character but the newline; of each byte of what Unicode
 * keeps from texts (U+FFFE, and others) too. JSON and D-Bus take nothing else, and a terminal does
 * nothing but show it.
 */
void words_mend(char *text);

#endif
