/* SPDX-License-Identifier: MIT */
#include "tests/lib/hex.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned int digit(const char *text, size_t at)
{
	unsigned char c = (unsigned char)text[at];
	if (!isxdigit(c)) {
		fprintf(stderr, "not hexadecimal at %zu: %s\n", at, text);
		abort();
	}
	return (unsigned int)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
}

size_t hex_bytes(const char *text, uint8_t *buf, size_t room)
{
	size_t len = 0;
	for (size_t at = 0; text[at]; at++) {
		if (text[at] == ' ')
			continue;
		if (len == room) {
			fprintf(stderr, "more than %zu bytes: %s\n", room, text);
			abort();
		}
		unsigned int high = digit(text, at++);
		buf[len++] = (uint8_t)(high << 4 | digit(text, at));
	}
	return len;
}

uint8_t *exact_copy(const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	if (!copy)
		abort();
	if (len)
		memcpy(copy, bytes, len);
	return copy;
}
