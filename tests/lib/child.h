/* SPDX-License-Identifier: MIT */
/**
 * @file child.h
 * A test in a process of its own: what it gives up or changes for good ends with it. To be included
 * behind cmocka.h.
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
	fflush(NULL); /* or what is not written yet would come twice */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(check() ? 0 : 1);
	assert_int_equal(waitpid(pid, &result, 0), pid);
	assert_int_equal(result, 0);
}

#endif
