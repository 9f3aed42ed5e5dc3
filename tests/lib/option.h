/* SPDX-License-Identifier: MIT */
/**
 * @file option.h
 * The TCP option for a test, as the daemon opens it.
 */
#ifndef SMCRD_TESTS_LIB_OPTION_H
#define SMCRD_TESTS_LIB_OPTION_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/rendezvous/attach.h"
#include "daemon/rendezvous/option.h"

/** As rdv_option_open(), with the root of the hierarchy opened for it. */
static inline int option_open(struct rdv_option **ret_option, char ret_text[RDV_TEXT_MAX])
{
	int cgroup = attach_root();
	int r = rdv_option_open(cgroup, ret_option, ret_text);
	if (cgroup >= 0)
		close(cgroup);
	return r;
}

/** Give this process a network namespace of its own, in which loopback is up. @return 0, or (root
 *  is missing, as standard error says) -1 */
static inline int option_namespace(void)
{
	if (unshare(CLONE_NEWNET) == 0 && system("ip link set lo up") == 0)
		return 0;
	fprintf(stderr, "needs root: network namespaces and BPF\n");
	return -1;
}

/** The set-up of tests that run in such a namespace, with the option attached to it. @return 0, or
 *  (as standard error says) -1 */
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
