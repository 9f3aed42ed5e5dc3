/* SPDX-License-Identifier: MIT */
/**
 * @file environment.h
 * The environment of a program that is about to be started, with the library put into LD_PRELOAD or
 * taken out of it. Pure functions on what they are given.
 */
#ifndef SMCRD_LIB_PRELOAD_ENVIRONMENT_H
#define SMCRD_LIB_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#define ENVIRONMENT_SETTINGS 4

/** What smcr-run had put into the environment. Strings are "NAME=value". */
struct environment_ours {
	const char *preload; /* "LD_PRELOAD=" and the library's path */
	const char *library; /* the library's name without directory: any copy of it counts */
	const char *settings[ENVIRONMENT_SETTINGS]; /* put back if absent; NULL: not set */
};

/** What is in an environment. */
struct environment_view {
	size_t count;        /* variables */
	const char *preload; /* the last LD_PRELOAD, as the dynamic loader takes it; NULL: none */
	bool has_library;    /* in it */
	bool has_setting[ENVIRONMENT_SETTINGS];
};

/** @param envp  NULL: empty */
void environment_view(char *const envp[], const struct environment_ours *ours,
		      struct environment_view *ret_view);

/** @return the value of the first variable of that name, or NULL. @param envp  NULL: empty */
const char *environment_get(char *const envp[], const char *name);

/** Must the environment be changed so that the library is in it, or is not? */
bool environment_differs(const struct environment_view *view, const struct environment_ours *ours,
			 bool library);

/** How many bytes environment_make() needs at most. */
size_t environment_size(const struct environment_view *view, const struct environment_ours *ours);

/**
 * Make the changed environment: other variables and their order as they are, other libraries in
 * LD_PRELOAD behind ours.
 * @param room  as much as environment_size() said, aligned for pointers; it holds pointers into
 *              `envp` and `ours` afterwards
 * @return the environment, in `room`
 */
char **environment_make(char *const envp[], const struct environment_view *view,
			const struct environment_ours *ours, bool library, void *room);

#endif
