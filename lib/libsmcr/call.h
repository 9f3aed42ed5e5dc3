/* SPDX-License-Identifier: MIT */
/**
 * @file call.h
 * The beginning and end of each function of libsmcr: the library must be initialized, and errno
 * must not change. In between, functions of the core (lib/smcr) do the work.
 */
#ifndef SMCRD_LIB_LIBSMCR_CALL_H
#define SMCRD_LIB_LIBSMCR_CALL_H

#include <errno.h>

#include "include/smcr.h"
#include "lib/smcr/ready.h"

struct call {
	int saved_errno;
	int error; /* 0: go on; else the negative errno that the function returns */
};

static inline struct call call_begin(void)
{
	struct call call = { .saved_errno = errno };
	call.error = pre_ready() ? 0 : -EAGAIN;
	return call;
}

static inline int call_end(const struct call *call, int rc)
{
	errno = call->saved_errno;
	return rc;
}

#endif
