/* SPDX-License-Identifier: MIT */
/* PROVES() refuses requirements that do not exist. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/proves.h"

/* Runs in a child process, so that neither the environment nor an abort concerns this process. */
static int record(const char *path, const char *ids)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int null = open("/dev/null", O_WRONLY);
		dup2(null, STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		if (path)
			setenv("SMCR_PROOFS", path, 1);
		else
			unsetenv("SMCR_PROOFS");
		proves_by("tests/unit/test_x.c", "some_test", ids);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void check_file(const char *path, const char *expected)
{
	char text[256] = { 0 };
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	size_t len = fread(text, 1, sizeof(text) - 1, in);
	fclose(in);
	assert_int_equal(len, strlen(expected));
	assert_string_equal(text, expected);
}

static void known_ids_are_recorded(void **state)
{
	(void)state;
	char path[] = "/tmp/test_proves.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(record(path, "CLC-1 DATA-6"), 0);
	assert_int_equal(record(path, "ERR-63"), 0);
	check_file(path, "CLC-1\ttests/unit/test_x.c:some_test\n"
			 "DATA-6\ttests/unit/test_x.c:some_test\n"
			 "ERR-63\ttests/unit/test_x.c:some_test\n");
	unlink(path);
}

static void unknown_ids_end_the_program(void **state)
{
	(void)state;
	static const char *const unknown[] = {
		"CLC-18", "CLC", "CLC-", "clc-1", "XX-1", "CLC-1 X"
	};
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		char path[] = "/tmp/test_proves.XXXXXX";
		int fd = mkstemp(path);
		assert_true(fd >= 0);
		close(fd);
		int status = record(path, unknown[i]);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGABRT);
		check_file(path, "");
		unlink(path);
	}
}

static void nothing_happens_without_a_file(void **state)
{
	(void)state;
	assert_int_equal(record(NULL, "CLC-1"), 0);
	assert_int_equal(record("", "CLC-1"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_ids_are_recorded),
		cmocka_unit_test(unknown_ids_end_the_program),
		cmocka_unit_test(nothing_happens_without_a_file),
	};
	return cmocka_run_group_tests_name("proves", tests, NULL, NULL);
}
