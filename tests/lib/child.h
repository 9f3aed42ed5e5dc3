/* SPDX-License-Identifier: MIT */
/**
 * @file child.h
 * Run a test in a process of its own, so that rights which it gives up, and other lasting changes,
 * end with it. Include this behind cmocka.h.
 */
#ifndef SMCRD_TESTS_LIB_CHILD_H
#define SMCRD_TESTS_LIB_CHILD_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void assert_succeeds(bool (*check)(void))
{
	int result;
	fflush(NULL); /* else the child would write buffered output a second time */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(check() ? 0 : 1);
	assert_int_equal(waitpid(pid, &result, 0), pid);
	assert_int_equal(result, 0);
}

#endif
