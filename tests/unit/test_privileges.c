/* SPDX-License-Identifier: MIT */
/* Giving up privileges. Each test uses a process of its own. */
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/privileges.h"
#include "tests/lib/child.h"

#define SOMEBODY        12345
#define BIT(capability) (UINT64_C(1) << (capability))
#define NEEDED          (BIT(CAP_NET_ADMIN) | BIT(CAP_NET_RAW) | BIT(CAP_BPF) | BIT(CAP_PERFMON))

static char directory[] = "/tmp/smcrd-privileges-XXXXXX";

static int setup(void **state)
{
	(void)state;
	strcpy(strrchr(directory, '-'), "-XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(directory);
}

/* A field of /proc/self/status that is a hexadecimal number. */
static uint64_t status(const char *name)
{
	char line[256];
	uint64_t value = UINT64_MAX;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = strtoull(line + strlen(name) + 1, NULL, 16);
	if (f)
		fclose(f);
	return value;
}

static bool sets_are(uint64_t expected)
{
	static const char *const sets[] = { "CapEff", "CapPrm", "CapBnd" };
	bool all = status("CapInh") == 0 && status("CapAmb") == 0;
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (status(sets[i]) == expected)
			continue;
		print_error("%s is %jx\n", sets[i], (uintmax_t)status(sets[i]));
		all = false;
	}
	return all;
}

static void only_root(void)
{
	if (!privileges_has(CAP_SETPCAP) || !privileges_has(CAP_DAC_OVERRIDE))
		skip();
}

/* Where root may not raise the limit of locked memory, as in containers, smcrd needs one more
 * capability. */
static uint64_t needed(void)
{
	struct rlimit locked = { 0 };
	getrlimit(RLIMIT_MEMLOCK, &locked);
	bool can_lift = locked.rlim_max == RLIM_INFINITY || privileges_has(CAP_SYS_RESOURCE);
	return can_lift ? NEEDED : NEEDED | BIT(CAP_IPC_LOCK);
}

static bool can_lock_memory(void)
{
	struct rlimit locked;
	return privileges_has(CAP_IPC_LOCK) ||
	       (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur == RLIM_INFINITY);
}

static bool keeps_what_is_needed(void)
{
	const uint64_t expected = needed();
	return privileges_drop(directory) == 0 && sets_are(expected) && privileges_has(CAP_BPF) &&
	       !privileges_has(CAP_SYS_ADMIN) && status("NoNewPrivs") == 1 && can_lock_memory();
}

static void root_keeps_four_capabilities(void **state)
{
	(void)state;
	only_root();
	assert_succeeds(keeps_what_is_needed);
}

static bool programs_get_no_more(void)
{
	char command[128];
	snprintf(command, sizeof(command), "grep -q '^CapEff:.%016jx$' /proc/self/status",
		 (uintmax_t)needed());
	return privileges_drop(directory) == 0 && system(command) == 0;
}

/* A program that root starts would otherwise have all capabilities of the bounding set. */
static void programs_that_smcrd_starts_get_no_more(void **state)
{
	(void)state;
	only_root();
	assert_succeeds(programs_get_no_more);
}

static bool may_write_for_somebody(void)
{
	char path[sizeof(directory) + 8];
	const uint64_t expected = needed() | BIT(CAP_DAC_OVERRIDE);
	snprintf(path, sizeof(path), "%s/file", directory);
	if (privileges_drop(directory) < 0 || !sets_are(expected))
		return false;
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	return fd >= 0 && unlink(path) == 0;
}

static void a_directory_of_somebody_else_takes_one_more(void **state)
{
	(void)state;
	only_root();
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(chown(directory, SOMEBODY, SOMEBODY), 0);
	assert_succeeds(may_write_for_somebody);
}

static bool drops_as_nobody(void)
{
	if (geteuid() == 0 && (setgid(SOMEBODY) < 0 || setuid(SOMEBODY) < 0))
		return false;
	return privileges_drop("/") == 0 && privileges_drop("/nowhere") == 0 &&
	       status("CapEff") == 0 && status("CapPrm") == 0 && status("NoNewPrivs") == 1;
}

static void nobody_has_none_and_is_not_refused(void **state)
{
	(void)state;
	assert_succeeds(drops_as_nobody);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(root_keeps_four_capabilities, setup, teardown),
		cmocka_unit_test_setup_teardown(programs_that_smcrd_starts_get_no_more, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_directory_of_somebody_else_takes_one_more, setup,
						teardown),
		cmocka_unit_test(nobody_has_none_and_is_not_refused),
	};
	return cmocka_run_group_tests_name("privileges", tests, NULL, NULL);
}
