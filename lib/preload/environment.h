/* SPDX-License-Identifier: MIT */
/**
 * @file environment.h
 * Makes the environment of a program that is about to be started, with the library put into
 * LD_PRELOAD or taken out of it. The functions only use their arguments.
 */
#ifndef SMCRD_LIB_PRELOAD_ENVIRONMENT_H
#define SMCRD_LIB_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#define ENVIRONMENT_SETTINGS 5

/** What smcr-run put into the environment. Strings have the form "NAME=value". */
struct environment_ours {
	const char *path;    /* the library's */
	const char *library; /* file name of the library: a copy in any directory counts */
	const char *settings[ENVIRONMENT_SETTINGS]; /* added if absent; NULL: not set */
};

/** What the program that gets the environment is to have. */
struct environment_wish {
	bool library;        /* the library is in LD_PRELOAD */
	const char *runtime; /* in front of it: see preload_list.h; empty: nothing */
};

/** What an environment has. */
struct environment_view {
	size_t count;        /* how many variables */
	const char *preload; /* the last LD_PRELOAD, which the dynamic loader uses; NULL: none */
	bool has_library;    /* the library is in that LD_PRELOAD */
	bool has_setting[ENVIRONMENT_SETTINGS];
};

/** @param envp  NULL: empty */
void environment_view(char *const envp[], const struct environment_ours *ours,
		      struct environment_view *ret_view);

/** @return the value of the first variable of that name, or NULL. @param envp  NULL: empty */
const char *environment_get(char *const envp[], const char *name);

/** Must the environment be changed to be as wished? */
bool environment_differs(const struct environment_view *view, const struct environment_ours *ours,
			 const struct environment_wish *wish);

/** The most bytes that environment_make() needs. */
size_t environment_size(const struct environment_view *view, const struct environment_ours *ours,
			const struct environment_wish *wish);

/**
 * Make the changed environment. Other variables keep their order; LD_PRELOAD is as
 * preload_list_make() makes it.
 * @param room  environment_size() bytes, aligned for pointers; has pointers into `envp` and `ours`
 *              afterwards
 * @return the environment, in `room`
 */
char **environment_make(char *const envp[], const struct environment_view *view,
			const struct environment_ours *ours, const struct environment_wish *wish,
			void *room);

#endif
