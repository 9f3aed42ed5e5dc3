/* SPDX-License-Identifier: MIT */
/* Names of processes, whatever they call themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/program.h"
#include "tests/lib/tries.h"

static void a_name_is_one_line(void **state)
{
	static const struct {
		const char *raw, *name;
	} rows[] = {
		{ "nginx\n", "nginx" },
		{ "", "" },
		{ "\n", "" },
		{ "a b", "a b" },
		{ "tab\tesc\x1B[2J", "tab?esc?[2J" },
		{ "two\nlines", "two" },
		{ "123456789012345678", "123456789012345" },
		{ "caf\xC3\xA9", "caf??" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].name);
		char name[PROGRAM_NAME_LEN];
		memset(name, 'x', sizeof(name));
		program_name_clean(rows[i].raw, strlen(rows[i].raw), name);
		assert_string_equal(name, rows[i].name);
	}
}

static void processes_have_names(void **state)
{
	struct program_names names = { 0 };
	char name[PROGRAM_NAME_LEN];
	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "my\nprogram"), 0);
	assert_true(program_name(&names, getpid(), name));
	assert_true(!strcmp(name, "my") || !strcmp(name, "my\\nprogram"));
	assert_int_equal(prctl(PR_SET_NAME, "test_program"), 0);
	assert_true(program_name(&names, getpid(), name));
	assert_string_equal(name, "test_program");
	program_names_close(&names);
}

/* A process that has gone, and no process. */
static void nobody_has_no_name(void **state)
{
	struct program_names names = { 0 };
	char name[PROGRAM_NAME_LEN] = "x";
	(void)state;
	assert_false(program_name(&names, 0, name));
	assert_string_equal(name, "");
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(program_name(&names, pid, name));
	assert_false(program_name(&names, pid, name)); /* the next call may ask again */
	assert_string_equal(name, "");
	program_names_close(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_one_line),
		cmocka_unit_test(processes_have_names),
		cmocka_unit_test(nobody_has_no_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
