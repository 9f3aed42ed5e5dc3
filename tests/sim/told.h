/* SPDX-License-Identifier: MIT */
/**
 * @file told.h
 * What an engine has told operators of its groups and links (engine/ops.h) must make sense: what
 * goes has come before, nothing comes twice, and each end has a reason.
 */
#ifndef SMCRD_TESTS_SIM_TOLD_H
#define SMCRD_TESTS_SIM_TOLD_H

#include "daemon/engine/engine.h"
#include "daemon/engine/ops.h"

struct host;

/** A link group that is up. */
struct told_group {
	uint32_t id;
	uint8_t links[32]; /* bit n: link n is up */
	struct told_group *next, *prev;
};

/** Take an event of the host's engine; the run fails if it makes no sense. */
void told_event(struct host *host, const struct smcr_event *event);
/** What the engine shows goes with that: who writes on a link does so in a group that is up. */
void told_check(struct host *host);
/** A new engine has told nothing. */
void told_forget(struct host *host);

#endif
