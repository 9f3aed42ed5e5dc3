/* SPDX-License-Identifier: MIT */
/**
 * @file policy.h
 * What one call wants: of the preload library the same for all of a program, of libsmcr as the
 * program says.
 */
#ifndef SMCRD_LIB_SMCR_POLICY_H
#define SMCRD_LIB_SMCR_POLICY_H

enum pre_policy {
	PRE_PREFER,  /* SMC-R where both sides can, else plain TCP */
	PRE_REQUIRE, /* plain TCP is an error */
	PRE_NEVER,   /* plain TCP, without asking anybody */
};

#endif
