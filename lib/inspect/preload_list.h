/* SPDX-License-Identifier: MIT */
/**
 * @file preload_list.h
 * The list of libraries in LD_PRELOAD, as the dynamic loader reads it: separated by blanks or
 * colons. All functions are async-signal-safe and thread safe.
 */
#ifndef SMCRD_LIB_INSPECT_PRELOAD_LIST_H
#define SMCRD_LIB_INSPECT_PRELOAD_LIST_H

#include <stdbool.h>
#include <stddef.h>

/** A library of the list: `len` bytes, which no NUL follows. */
struct preload_item {
	const char *at;
	size_t len;
};

/**
 * The next library.
 * @param list  where to look, moved behind the library that was found
 * @return false: there is no other one
 */
bool preload_list_next(const char **list, struct preload_item *ret_item);

/**
 * Is it this library, in whatever directory?
 * @param library  the name of its file
 */
bool preload_list_is(const struct preload_item *item, const char *library);

#endif
