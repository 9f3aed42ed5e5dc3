/* SPDX-License-Identifier: MIT */
/**
 * @file policy.h
 * Whether a call wants SMC-R. The preload library uses one policy for all calls of a program; a
 * program with libsmcr chooses for each call.
 */
#ifndef SMCRD_LIB_SMCR_POLICY_H
#define SMCRD_LIB_SMCR_POLICY_H

enum pre_policy {
	PRE_PREFER,  /* SMC-R if both sides can, else plain TCP */
	PRE_REQUIRE, /* plain TCP is an error */
	PRE_NEVER,   /* plain TCP; smcrd is not asked */
};

#endif
