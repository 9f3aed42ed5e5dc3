/* SPDX-License-Identifier: MIT */
/* dlopen() and dlmopen(). Which functions plugins call then is in tests/bats/smcr-run.bats. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"

#define PLUGIN "libm.so.6"

static int start(void **state)
{
	(void)state;
	assert_true(pre_ready());
	pre_settings = (struct pre_settings){ .verbose = false };
	return 0;
}

/* With sanitizers the next function is their runtime's, which ends a process that gives it the
 * flag. */
static void test_deepbind_is_left_out(void **state)
{
	(void)state;
	errno = EMLINK;
	void *plain = dlopen(PLUGIN, RTLD_NOW), *deep = dlopen(PLUGIN, RTLD_NOW | RTLD_DEEPBIND);
	assert_non_null(plain);
	assert_ptr_equal(deep, plain);
	void *base = dlmopen(LM_ID_BASE, PLUGIN, RTLD_LAZY | RTLD_DEEPBIND);
	assert_ptr_equal(base, plain);
	assert_int_equal(errno, EMLINK);
	assert_ptr_equal(dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND), plain);
	for (int i = 0; i < 4; i++)
		assert_int_equal(dlclose(plain), 0);
	assert_non_null(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND));
}

static void expect_refused(const char *file)
{
	assert_null(dlmopen(LM_ID_NEWLM, file, RTLD_NOW));
	const char *text = dlerror();
	assert_non_null(text);
	assert_memory_equal(text, file, strlen(file) < 400 ? strlen(file) : 400);
	if (strlen(file) < 400)
		assert_non_null(strstr(text, ": smcr-run --require: a plugin in a namespace"));
	assert_null(dlerror());
}

static void test_require_refuses_other_namespaces(void **state)
{
	(void)state;
	char long_name[PATH_MAX];
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	pre_settings.require = true;
	expect_refused(PLUGIN);
	expect_refused("no-such-library.so");
	expect_refused(long_name);
	void *base = dlmopen(LM_ID_BASE, PLUGIN, RTLD_NOW);
	assert_non_null(base);
	assert_int_equal(dlclose(base), 0);
	assert_null(dlmopen(LM_ID_NEWLM, NULL, RTLD_NOW));
}

static void test_other_namespaces_where_they_may_be(void **state)
{
	(void)state;
	for (int alone = 0; alone < 2; alone++) {
		pre_settings.require = pre_settings.dlopen_alone = alone;
		void *plugin = dlmopen(LM_ID_NEWLM, PLUGIN, RTLD_NOW);
		Lmid_t space = LM_ID_BASE;
		assert_non_null(plugin);
		assert_int_equal(dlinfo(plugin, RTLD_DI_LMID, &space), 0);
		assert_true(space != LM_ID_BASE);
		assert_int_equal(dlclose(plugin), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_deepbind_is_left_out, start),
		cmocka_unit_test_setup(test_require_refuses_other_namespaces, start),
		cmocka_unit_test_setup(test_other_namespaces_where_they_may_be, start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
