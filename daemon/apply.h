/* SPDX-License-Identifier: MIT */
/**
 * @file apply.h
 * Gives a running daemon another configuration.
 */
#ifndef SMCRD_APPLY_H
#define SMCRD_APPLY_H

#include "daemon/conns/conns.h"
#include "daemon/fabric/rnics.h"
#include "daemon/host/config.h"
#include "daemon/host/waiting.h"
#include "daemon/policy/policy.h"
#include "daemon/rendezvous/egress.h"

/** Which part of the configuration is applied. */
enum apply_what {
	APPLY_FILES,   /* everything */
	APPLY_DEVICES, /* values and RNICs; rules and UEIDs stay as they are */
	APPLY_VALUES,  /* values only; RNICs, rules and UEIDs stay as they are */
};

/** The parts of the daemon that use the configuration. */
struct apply_parts {
	struct config *config; /* in force; pointers to it stay valid */
	struct rnics *rnics;
	struct policy *policy;
	struct conns *conns;
	struct waiting *waiting;
	struct egress *egress;
};

/** Set `shared_memory`, `busy_poll_us` and `limits` of `ret`. */
void apply_fill_conns(const struct config *config, struct conns_config *ret);

/**
 * Replace the configuration in force by `next`, or change nothing. Not to be called inside an
 * operation of the engine.
 * @param next        from config_load(); afterwards the configuration that was in force before or,
 *                    after errors, still `next`. The caller frees it
 * @param ret_errors  why `next` cannot be used
 * @param ret_notes   which parts of `next` are not in force yet, and what they wait for
 */
void apply_config(const struct apply_parts *parts, enum apply_what what, struct config *next,
		  struct config_notes *ret_errors, struct config_notes *ret_notes);

#endif
