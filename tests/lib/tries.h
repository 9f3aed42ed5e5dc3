/* SPDX-License-Identifier: MIT */
/**
 * @file tries.h
 * A test that goes through cases in a loop tells here which case it tries. If the test fails, by an
 * assertion, abort() or a crash, the case is printed too. Nothing is printed for cases that pass.
 *
 *     for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
 *             TRIES("%s", rows[i].name);
 *             ...
 *
 * prints "# tests/unit/test_x.c: test() failed at no path, side 1" if there is a loop over sides,
 * with a TRIES of its own, inside. Where rows have no name, TRIES("row %zu", i) counts them from 0.
 */
#ifndef SMCRD_TESTS_TRIES_H
#define SMCRD_TESTS_TRIES_H

#include <stddef.h>

/** What TRIES() puts into the block of the loop. */
struct tries_scope {
	size_t outside; /* length of the text for the outer loops */
};

/**
 * A case begins. Its text is a part of what is printed.
 * @param file  source file of the test
 * @param test  name of the test function
 */
struct tries_scope tries_begin(const char *file, const char *test, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** The case has passed. A test that fails leaves its blocks by longjmp(), and does not come here.
 */
void tries_end(const struct tries_scope *scope);

/** Name the case, with the arguments of printf(). To be the first statement of a loop's body, in
 * the test function itself, not in a function that it calls. */
#define TRIES(...) TRIES_IN(__LINE__, __VA_ARGS__)

/* Each use needs a variable name of its own, because loops may be nested. */
#define TRIES_IN(line, ...) TRIES_NAMED(line, __VA_ARGS__)
#define TRIES_NAMED(line, ...)                                                                     \
	const struct tries_scope tries_##line __attribute__((cleanup(tries_end), unused)) =        \
		tries_begin(__FILE__, __func__, __VA_ARGS__)

#endif
