/* SPDX-License-Identifier: MIT */
/**
 * @file top_screen.h
 * The whole screen of the terminal, its keys and its size, by ncurses. There is one screen. Nothing
 * here waits.
 */
#ifndef SMCRD_SMCRCTL_TOP_SCREEN_H
#define SMCRD_SMCRCTL_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

/** Keys that are no characters of ASCII. */
enum top_screen_key {
	TOP_SCREEN_NO_KEY = -1, /* none was pressed */
	TOP_SCREEN_LEFT = 256,
	TOP_SCREEN_RIGHT,
	TOP_SCREEN_RESIZED, /* the terminal has another size */
	TOP_SCREEN_OTHER,   /* a key that has no meaning here */
};

/** Take over the terminal of standard input and output. @return false: TERM is not known, or names
 * a terminal that cannot do what is needed */
bool top_screen_open(void);

/** Give the terminal back, as it was. */
void top_screen_close(void);

void top_screen_size(size_t *ret_columns, size_t *ret_lines);

/**
 * Paint the screen.
 * @param text    lines in UTF-8; what does not fit is cut off. A line behind an empty line has
 *                titles
 * @param bottom  text of the last line
 * @param cursor  show the cursor behind that text, because the user types there
 */
void top_screen_paint(const char *text, const char *bottom, bool cursor);

/** The next key that was pressed: a character, a line feed for every kind of "enter", a backspace
 *  for every kind of that, or enum top_screen_key. */
int top_screen_key(void);

#endif
