/* SPDX-License-Identifier: MIT */
/**
 * @file top_screen.h
 * A whole terminal, its keys and its size: ncurses. There is one. Nothing here waits.
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
	TOP_SCREEN_OTHER,   /* one that has no meaning here */
};

/** Take the terminal of standard input and output. @return false: it cannot do what is needed, for
 *  TERM says nothing that is known */
bool top_screen_open(void);

/** Give it back, as it was. */
void top_screen_close(void);

void top_screen_size(size_t *ret_columns, size_t *ret_lines);

/**
 * Paint it.
 * @param text    lines in UTF-8; what there is no room for is cut off. One behind an empty line has
 *                titles
 * @param bottom  what stands in the last line
 * @param cursor  behind which stands the cursor, because something is typed there
 */
void top_screen_paint(const char *text, const char *bottom, bool cursor);

/** The next key that was pressed: a character, a line feed for every kind of "enter", a backspace
 *  for every kind of that, or enum top_screen_key. */
int top_screen_key(void);

#endif
