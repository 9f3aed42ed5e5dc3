/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/top_screen.h"

#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <term.h> /* its macros have names such as lines and columns */
#include <wchar.h>

#define MAX_COLUMNS 1024
#define ESCAPE_MS   50 /* bytes that come later than that behind an escape do not belong to it */

static SCREEN *screen;
static bool utf8;

/* Does the terminal's description have this string? */
static bool has_string(const char *name)
{
	const char *text = tigetstr((char *)name);
	return text && text != (const char *)-1;
}

bool top_screen_open(void)
{
	setlocale(LC_CTYPE, "");
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return false;
	if (!has_string("cup") || !has_string("clear")) { /* newterm() takes such a terminal, too */
		reset_shell_mode();
		delscreen(screen);
		return false;
	}
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	nodelay(stdscr, true);
	return true;
}

void top_screen_close(void)
{
	/* For terminals that do not bring back the text from before. */
	move(LINES - 1, 0);
	clrtoeol();
	refresh();
	endwin();
	delscreen(screen);
	screen = NULL;
}

void top_screen_size(size_t *ret_columns, size_t *ret_lines)
{
	*ret_columns = COLS > 0 ? (size_t)COLS : 1;
	*ret_lines = LINES > 0 ? (size_t)LINES : 1;
}

/* ---- painting ---- */

/* Takes one character. A character whose width is not known becomes a question mark, and so does
 * one that the terminal's character set does not have. @return its bytes in the text */
static size_t take_character(const char *text, size_t len, wchar_t *ret_wide, size_t *ret_places)
{
	wchar_t wide = L'?';
	size_t n = 1;
	mbstate_t state = { 0 };
	if (utf8) {
		n = mbrtowc(&wide, text, len, &state);
		if (n == 0 || n > len) { /* no UTF-8 */
			n = 1;
			wide = L'?';
		}
	} else if (!((unsigned char)*text & 0x80)) {
		wide = (wchar_t)*text;
	} else {
		while (n < len && ((unsigned char)text[n] & 0xC0) == 0x80)
			n++;
	}
	const int places = wcwidth(wide);
	*ret_wide = places > 0 ? wide : L'?';
	*ret_places = places > 0 ? (size_t)places : 1;
	return n;
}

static void put_line(int y, const char *text, size_t len, attr_t attributes)
{
	wchar_t line[MAX_COLUMNS + 1];
	size_t n = 0, width = 0;
	while (len > 0 && n < MAX_COLUMNS) {
		size_t places, bytes = take_character(text, len, &line[n], &places);
		if (width + places > (size_t)COLS)
			break;
		width += places;
		text += bytes;
		len -= bytes;
		n++;
	}
	attrset((int)attributes);
	mvaddnwstr(y, 0, line, (int)n);
	attrset((int)A_NORMAL);
}

void top_screen_paint(const char *text, const char *bottom, bool cursor)
{
	bool titles = false;
	erase();
	for (int y = 0; *text && y + 1 < LINES; y++) {
		const size_t len = strcspn(text, "\n");
		put_line(y, text, len, titles ? A_REVERSE : A_NORMAL);
		titles = len == 0;
		text += len + (text[len] != '\0');
	}
	put_line(LINES - 1, bottom, strlen(bottom), cursor ? A_NORMAL : A_BOLD);
	curs_set(cursor);
	refresh();
}

/* ---- keys ---- */

int top_screen_key(void)
{
	const int key = getch();
	switch (key) {
	case ERR: return TOP_SCREEN_NO_KEY;
	case KEY_LEFT: return TOP_SCREEN_LEFT;
	case KEY_RIGHT: return TOP_SCREEN_RIGHT;
	case KEY_RESIZE: return TOP_SCREEN_RESIZED;
	case KEY_ENTER:
	case '\r': return '\n';
	case KEY_BACKSPACE:
	case 0x7F: return '\b';
	}
	return key >= 0 && key < 0x80 ? key : TOP_SCREEN_OTHER;
}
