/* SPDX-License-Identifier: MIT */
/* The messages when BPF programs cannot be attached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/rendezvous/attach.h"
#include "tests/lib/tries.h"

static void each_failure_has_its_advice(void **state)
{
	const struct {
		enum attach_step step;
		int error;
		const char *text;
	} cases[] = {
		{ ATTACH_MEMORY, -ENOMEM, "x: no memory: Cannot allocate memory; free some" },
		{ ATTACH_LOAD, -EPERM,
		  "x: the kernel does not let us load BPF programs: Operation not permitted; give "
		  "the daemon CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" },
		{ ATTACH_LOAD, -EACCES,
		  "x: the kernel does not let us load BPF programs: Permission denied; give the "
		  "daemon CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" },
		{ ATTACH_LOAD, -E2BIG,
		  "x: the kernel refuses the BPF programs: Argument list too long; a kernel of "
		  "version 6.1 or newer with CONFIG_CGROUP_BPF is needed" },
		{ ATTACH_ROOT, -ENOENT,
		  "x: cannot open the root of the cgroup2 hierarchy: No such file or directory; "
		  "mount it on /sys/fs/cgroup or give the daemon CAP_SYS_ADMIN" },
		{ ATTACH_PROGRAM, -E2BIG,
		  "x: the kernel takes no more BPF programs at the root cgroup, it has 64 of a "
		  "kind: Argument list too long; end other instances of smcrd, in other network "
		  "namespaces too; `bpftool cgroup tree` lists the programs" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("case %zu", i);
		char text[RDV_TEXT_MAX];
		assert_int_equal(attach_failed("x: ", cases[i].step, cases[i].error, text),
				 cases[i].error);
		assert_string_equal(text, cases[i].text);
	}
}

/* Errors that do occur, with the longest prefix that there is. */
static void every_message_fits(void **state)
{
	const int errors[] = { -EPERM,  -EACCES,    -E2BIG,      -ENOENT,
			       -EINVAL, -EOVERFLOW, -EOPNOTSUPP, -EAFNOSUPPORT };
	bool fits = true;
	(void)state;
	for (int step = ATTACH_MEMORY; step <= ATTACH_PROGRAM; step++) {
		for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
			char text[RDV_TEXT_MAX];
			attach_failed("cannot send the SMC-R TCP option: ", (enum attach_step)step,
				      errors[i], text);
			if (strlen(text) < RDV_TEXT_MAX - 1)
				continue;
			print_error("cut: %s\n", text);
			fits = false;
		}
	}
	assert_true(fits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_failure_has_its_advice),
		cmocka_unit_test(every_message_fits),
	};
	return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
