/* SPDX-License-Identifier: MIT */
/**
 * @file option.h
 * The TCP option for a test, as the daemon opens it.
 */
#ifndef SMCRD_TESTS_LIB_OPTION_H
#define SMCRD_TESTS_LIB_OPTION_H

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

#endif
