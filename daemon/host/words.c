/* SPDX-License-Identifier: MIT */
#include "daemon/host/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of a character that begins with this byte (RFC 3629). @return 0: no character does */
static size_t length_of(uint8_t first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xC2 && first < 0xE0)
		return 2;
	if (first >= 0xE0 && first < 0xF0)
		return 3;
	return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/* Rejects overlong forms, surrogates, and numbers beyond U+10FFFF. */
static bool second_fits(uint8_t first, uint8_t second)
{
	switch (first) {
	case 0xE0: return second >= 0xA0;
	case 0xED: return second < 0xA0;
	case 0xF0: return second >= 0x90;
	case 0xF4: return second < 0x90;
	default: return true;
	}
}

/* Unicode's noncharacters, which D-Bus refuses: U+FDD0 to U+FDEF, and the last two of each
 * plane. */
static bool is_noncharacter(const uint8_t *at, size_t len)
{
	if (len == 3 && at[0] == 0xEF && at[1] == 0xB7)
		return at[2] >= 0x90 && at[2] < 0xB0;
	if (len < 3 || at[len - 1] < 0xBE || at[len - 2] != 0xBF)
		return false;
	return len == 3 ? at[0] == 0xEF : (at[1] & 0xF) == 0xF;
}

/* @return length of the character at `at`; 0: no character, or one that must not be shown */
static size_t character(const uint8_t *at)
{
	size_t len = length_of(*at);
	if (len == 1)
		return (*at >= ' ' && *at != 0x7F) || *at == '\n';
	if (len > 1 && !second_fits(at[0], at[1]))
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((at[i] & 0xC0) != 0x80)
			return 0;
	if (is_noncharacter(at, len))
		return 0;
	return at[0] == 0xC2 && at[1] < 0xA0 ? 0 : len; /* control characters of Latin-1 */
}

void words_mend(char *text)
{
	for (uint8_t *at = (uint8_t *)text; *at;) {
		size_t len = character(at);
		if (len == 0)
			*at = '?';
		at += len ? len : 1;
	}
}
