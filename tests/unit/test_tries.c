/* SPDX-License-Identifier: MIT */
/* What is printed about a test that fails in a loop over cases. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/tries.h"

#define FILE_NAME "tests/unit/test_tries.c"

/** Runs in a child process, and compares what is printed. */
static void expect_printed(void (*run)(void), const char *expected)
{
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		run();
		exit(0);
	}
	close(pipes[1]);
	FILE *in = fdopen(pipes[0], "r");
	assert_non_null(in);
	char text[1024] = { 0 };
	size_t len = fread(text, 1, sizeof(text) - 1, in);
	fclose(in);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(len < sizeof(text));
	assert_string_equal(text, expected);
}

/** Leaves the loops as a failed assertion does. */
static jmp_buf failed;

static void nested(int bad_row, int bad_side)
{
	for (int row = 0; row < 3; row++) {
		TRIES("row %d", row);
		for (int side = 0; side < 2; side++) {
			TRIES("side %d", side);
			if (row == bad_row && side == bad_side)
				longjmp(failed, 1);
		}
		if (row == bad_row && bad_side == 2)
			longjmp(failed, 1);
	}
}

static void all_pass(void)
{
	nested(-1, 0);
}

static void inner_fails(void)
{
	if (!setjmp(failed))
		nested(1, 1);
}

static void outer_fails(void)
{
	if (!setjmp(failed))
		nested(2, 2);
}

static void another_test(void)
{
	for (int i = 0; i < 2; i++) {
		TRIES("%s", "something else");
		if (i == 1)
			continue;
	}
}

static void then_one_passes(void)
{
	inner_fails();
	another_test();
	printf("the end\n");
}

static void aborts(void)
{
	for (int i = 7;; i++) {
		TRIES("case %d", i);
		abort();
	}
}

static void child_of_a_case(void)
{
	TRIES("a test that forks");
	pid_t child = fork();
	if (child == 0)
		exit(0);
	waitpid(child, NULL, 0);
}

static void long_one(void)
{
	TRIES("%0600d", 1);
	TRIES("more");
	TRIES("still more");
}

static void cases_that_pass_are_not_told(void **state)
{
	(void)state;
	expect_printed(all_pass, "");
	expect_printed(child_of_a_case, "");
	expect_printed(long_one, "");
}

static void the_case_that_fails_is_told(void **state)
{
	(void)state;
	expect_printed(inner_fails, "# " FILE_NAME ": nested() failed at row 1, side 1\n");
	expect_printed(outer_fails, "# " FILE_NAME ": nested() failed at row 2\n");
	expect_printed(then_one_passes,
		       "# " FILE_NAME ": nested() failed at row 1, side 1\nthe end\n");
	expect_printed(aborts, "# " FILE_NAME ": aborts() failed at case 7\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cases_that_pass_are_not_told),
		cmocka_unit_test(the_case_that_fails_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
