/* SPDX-License-Identifier: MIT */
/**
 * @file preload_list.h
 * The list of libraries in LD_PRELOAD, as the dynamic loader reads it: separated by blanks or
 * colons. All functions are async-signal-safe and thread safe.
 *
 * The preload library comes first, so that libraries behind it see the calls that it passes on. But
 * the runtime of the address sanitizer ends a program in which any library comes before it. A
 * program that is built with it names the runtime as the first library that it needs, and the
 * loader puts preloaded libraries before these. So such a program gets a list that begins with its
 * runtime. That may not stay there for the programs that it starts: the runtime would look for
 * their leaks. The mark of a runtime that was put in front is an empty place behind it, which the
 * loader skips: "libasan.so.8::/usr/lib/smcrd/libsmcr-preload.so". A runtime that the user preloads
 * has no mark, and stays.
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

/** What a list is to have. */
struct preload_wish {
	const char *name;    /* file name of the preload library: a copy in any directory counts */
	const char *library; /* its path; NULL: the list is not to have it */
	const char *runtime; /* what the program needs before it; empty: nothing */
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

/** Is it a runtime that has to be first? */
bool preload_list_is_runtime(const struct preload_item *item);

/** Does the list have this library, in whatever directory? */
bool preload_list_has(const char *list, const char *library);

/** Is the list as wished? Then it may stay as it is. */
bool preload_list_fits(const char *list, const struct preload_wish *wish);

/** The most bytes that preload_list_make() needs. */
size_t preload_list_size(const char *list, const struct preload_wish *wish);

/**
 * Make a list as wished: the runtime, the preload library, and the other libraries of the list. A
 * runtime that the list has already is the one that comes first.
 * @param room  preload_list_size() bytes
 * @return `room`, with the new list; an empty one if no library is left
 */
char *preload_list_make(const char *list, const struct preload_wish *wish, char *room);

/**
 * Take a runtime with the mark out of a list, in place.
 * @param name  file name of the preload library
 */
void preload_list_take_runtime(char *list, const char *name);

#endif
