/* SPDX-License-Identifier: MIT */
/**
 * @file option.h
 * Open the TCP option (daemon/rendezvous/) for a test, as the daemon does.
 */
#ifndef SMCRD_TESTS_LIB_OPTION_H
#define SMCRD_TESTS_LIB_OPTION_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/rendezvous/attach.h"
#include "daemon/rendezvous/option.h"

/** As rdv_option_open(), on the root of the cgroup hierarchy. */
static inline int option_open(struct rdv_option **ret_option, char ret_text[RDV_TEXT_MAX])
{
	int cgroup = attach_root();
	int r = rdv_option_open(cgroup, "/nowhere", ret_option, ret_text);
	if (cgroup >= 0)
		close(cgroup);
	return r;
}

/** Give this process a network namespace of its own, in which loopback is up.
 *  @return 0; -1: the process is not root, which is printed on standard error */
static inline int option_namespace(void)
{
	if (unshare(CLONE_NEWNET) == 0 && system("ip link set lo up") == 0)
		return 0;
	fprintf(stderr, "needs root: network namespaces and BPF\n");
	return -1;
}

/** Set-up for tests: a namespace as above, with the option attached.
 *  @return 0; -1: failed, and the reason is on standard error */
static inline int option_setup(struct rdv_option **ret_option)
{
	char text[RDV_TEXT_MAX];
	if (option_namespace() < 0)
		return -1;
	if (option_open(ret_option, text) == 0)
		return 0;
	fprintf(stderr, "%s\n", text);
	return -1;
}

#endif
