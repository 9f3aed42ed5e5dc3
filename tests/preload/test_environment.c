/* SPDX-License-Identifier: MIT */
/* The environment of programs that are started: LD_PRELOAD and what smcr-run has set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/preload/environment.h"

static const struct environment_ours ours = {
	.path = "/opt/lib/us.so",
	.library = "us.so",
	.settings = { "SOCKET=/run/s", NULL, "VERBOSE=1" },
};

/* `expected` has one line for each variable. The block has exactly environment_size() bytes, so
 * that the address sanitizer sees any write past its end. */
static void expect_for(char *const envp[], const struct environment_wish *wish,
		       const char *expected)
{
	struct environment_view view;
	char text[512] = "";
	environment_view(envp, &ours, &view);
	void *room = malloc(environment_size(&view, &ours, wish));
	char *const *result = envp;
	assert_non_null(room);
	if (environment_differs(&view, &ours, wish))
		result = environment_make(envp, &view, &ours, wish, room);
	for (size_t i = 0; result && result[i]; i++) {
		strcat(text, result[i]);
		strcat(text, "\n");
	}
	assert_string_equal(text, expected);
	free(room);
}

static void expect(char *const envp[], bool library, const char *expected)
{
	const struct environment_wish wish = { library, "" };
	expect_for(envp, &wish, expected);
}

#define ENV(...) ((char *const *)(const char *const[]){ __VA_ARGS__, NULL })
#define WHOLE    "SOCKET=/run/s\nVERBOSE=1\n"

static void test_cleared(void **state)
{
	(void)state;
	expect(NULL, true, "LD_PRELOAD=/opt/lib/us.so\n" WHOLE);
	expect((char *[]){ NULL }, true, "LD_PRELOAD=/opt/lib/us.so\n" WHOLE);
	expect(ENV("A=1", "B"), true, "A=1\nB\nLD_PRELOAD=/opt/lib/us.so\n" WHOLE);
	expect(NULL, false, "");
}

static void test_what_is_there_stays(void **state)
{
	(void)state;
	expect(ENV("LD_PRELOAD=/opt/lib/us.so", "VERBOSE=0", "SOCKET=/other"), true,
	       "LD_PRELOAD=/opt/lib/us.so\nVERBOSE=0\nSOCKET=/other\n");
	expect(ENV("VERBOSE=", "LD_PRELOAD=/a.so:/elsewhere/us.so b.so"), true,
	       "VERBOSE=\nLD_PRELOAD=/a.so:/elsewhere/us.so b.so\nSOCKET=/run/s\n");
	/* names that only begin or end like those of the library */
	expect(ENV("VERBOSE2=1", "LD_PRELOADS=us.so", "SOCKET"), true,
	       "VERBOSE2=1\nLD_PRELOADS=us.so\nSOCKET\nLD_PRELOAD=/opt/lib/us.so\n" WHOLE);
}

static void test_others_are_kept_behind(void **state)
{
	(void)state;
	expect(ENV("LD_PRELOAD=/a.so", "A=1"), true,
	       "A=1\nLD_PRELOAD=/opt/lib/us.so:/a.so\n" WHOLE);
	expect(ENV("LD_PRELOAD= :/a.so::b.so "), true,
	       "LD_PRELOAD=/opt/lib/us.so:/a.so:b.so\n" WHOLE);
	expect(ENV("LD_PRELOAD=virus.so:us.so.1"), true,
	       "LD_PRELOAD=/opt/lib/us.so:virus.so:us.so.1\n" WHOLE);
	expect(ENV("LD_PRELOAD="), true, "LD_PRELOAD=/opt/lib/us.so\n" WHOLE);
	/* the loader takes the last of two variables with the same name */
	expect(ENV("LD_PRELOAD=us.so", "LD_PRELOAD=/a.so"), true,
	       "LD_PRELOAD=/opt/lib/us.so:/a.so\n" WHOLE);
	expect(ENV("LD_PRELOAD=/a.so", "LD_PRELOAD=us.so"), true,
	       "LD_PRELOAD=/a.so\nLD_PRELOAD=us.so\n" WHOLE);
}

static void test_taken_out(void **state)
{
	(void)state;
	expect(ENV("A=1", "LD_PRELOAD=/opt/lib/us.so", "VERBOSE=1"), false, "A=1\nVERBOSE=1\n");
	expect(ENV("LD_PRELOAD=/opt/lib/us.so:/a.so us.so:b.so", "A=1"), false,
	       "A=1\nLD_PRELOAD=/a.so:b.so\n");
	expect(ENV("LD_PRELOAD=/a.so"), false, "LD_PRELOAD=/a.so\n");
}

static void test_runtime(void **state)
{
	(void)state;
	const struct environment_wish asan = { true, "libasan.so.8" }, harmed = { false, "" };
	expect_for(NULL, &asan, "LD_PRELOAD=libasan.so.8::/opt/lib/us.so\n" WHOLE);
	expect_for(ENV("LD_PRELOAD=/opt/lib/us.so:a.so", "VERBOSE=0", "SOCKET=/s"), &asan,
		   "VERBOSE=0\nSOCKET=/s\nLD_PRELOAD=libasan.so.8::/opt/lib/us.so:a.so\n");
	/* the user's own */
	expect_for(ENV("LD_PRELOAD=a.so:/b/libasan.so.6"), &asan,
		   "LD_PRELOAD=/b/libasan.so.6:/opt/lib/us.so:a.so\n" WHOLE);
	expect(ENV("LD_PRELOAD=libasan.so.8"), true,
	       "LD_PRELOAD=libasan.so.8:/opt/lib/us.so\n" WHOLE);
	expect_for(ENV("LD_PRELOAD=libasan.so.8:us.so"), &asan,
		   "LD_PRELOAD=libasan.so.8:us.so\n" WHOLE);
	expect_for(ENV("LD_PRELOAD=libasan.so.8:us.so"), &harmed, "LD_PRELOAD=libasan.so.8\n");
	/* ours, which only a program that needs it keeps */
	expect_for(ENV("LD_PRELOAD=libasan.so.8::us.so"), &asan,
		   "LD_PRELOAD=libasan.so.8::us.so\n" WHOLE);
	expect(ENV("LD_PRELOAD=libasan.so.8::us.so:a.so"), true,
	       "LD_PRELOAD=/opt/lib/us.so:a.so\n" WHOLE);
	expect_for(ENV("LD_PRELOAD=libasan.so.8::us.so"), &harmed, "");
}

static void test_get(void **state)
{
	(void)state;
	char *const *envp = ENV("AB=1", "A=2", "A=3", "B=");
	assert_string_equal(environment_get(envp, "A"), "2");
	assert_string_equal(environment_get(envp, "B"), "");
	assert_null(environment_get(envp, "C"));
	assert_null(environment_get(NULL, "A"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cleared),
		cmocka_unit_test(test_what_is_there_stays),
		cmocka_unit_test(test_others_are_kept_behind),
		cmocka_unit_test(test_taken_out),
		cmocka_unit_test(test_runtime),
		cmocka_unit_test(test_get),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
