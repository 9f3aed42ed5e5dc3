/* SPDX-License-Identifier: MIT */
/**
 * @file apply.h
 * What another configuration means to each room of a daemon that is at work.
 */
#ifndef SMCRD_APPLY_H
#define SMCRD_APPLY_H

#include "daemon/conns/conns.h"
#include "daemon/fabric/rnics.h"
#include "daemon/host/config.h"
#include "daemon/host/waiting.h"
#include "daemon/policy/policy.h"
#include "daemon/rendezvous/egress.h"

/** What is taken over. */
enum apply_what {
	APPLY_FILES,   /* all that the files say */
	APPLY_DEVICES, /* values and RNICs: rules and UEIDs stay as they are */
	APPLY_VALUES,  /* what is no list: RNICs, rules and UEIDs stay as they are */
};

/** The rooms that go by the configuration. */
struct apply_rooms {
	struct config *config; /* that holds; everything that points to it stays right */
	struct rnics *rnics;
	struct policy *policy;
	struct conns *conns;
	struct waiting *waiting;
	struct egress *egress;
};

/** What connections go by: `shared_memory`, `busy_poll_us` and `limits` of `ret`. */
void apply_fill_conns(const struct config *config, struct conns_config *ret);

/**
 * Put `next` in the place of the configuration that holds, or change nothing. Not in an operation
 * of the engine.
 * @param next        as config_load() made it; afterwards the one that held before, or still next
 * if there are errors. The caller frees it
 * @param ret_errors  why it cannot hold
 * @param ret_notes   what it says and is not so yet, and what has to happen for that
 */
void apply_config(const struct apply_rooms *rooms, enum apply_what what, struct config *next,
		  struct config_notes *ret_errors, struct config_notes *ret_notes);

#endif
