/* SPDX-License-Identifier: MIT */
/**
 * @file call.h
 * How each function of libsmcr begins and ends: errno is the program's, and the library must have
 * started. Between the two the core (lib/smcr) works.
 */
#ifndef SMCRD_LIB_LIBSMCR_CALL_H
#define SMCRD_LIB_LIBSMCR_CALL_H

#include <errno.h>

#include "include/smcr.h"
#include "lib/smcr/next.h"

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
