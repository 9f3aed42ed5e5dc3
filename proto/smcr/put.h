/* SPDX-License-Identifier: MIT */
/** @file put.h A text that grows in memory of fixed size; what does not fit is left out. */
#ifndef SMCRD_PROTO_SMCR_PUT_H
#define SMCRD_PROTO_SMCR_PUT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct text {
	char *at;    /* where it goes on; NUL terminated from the first put() on */
	size_t room; /* from there on, with the NUL; at least 1 */
};

static inline void put(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline void put(struct text *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text->at, text->room, format, args);
	va_end(args);
	size_t len = n > 0 ? (size_t)n : 0;
	if (len >= text->room)
		len = text->room - 1;
	text->at += len;
	text->room -= len;
}

#endif
