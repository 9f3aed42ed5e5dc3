/* SPDX-License-Identifier: MIT */
/**
 * @file told.h
 * Check that what an engine tells operators about its groups and links (daemon/smcr/ops.h) makes
 * sense: a group or link that goes has come before, none comes twice, and each end has a reason.
 */
#ifndef SMCRD_TESTS_SIM_TOLD_H
#define SMCRD_TESTS_SIM_TOLD_H

#include "daemon/smcr/engine.h"
#include "daemon/smcr/ops.h"

struct host;

/** A link group that is up. */
struct told_group {
	uint32_t id;
	uint8_t links[32]; /* bit n: link n is up */
	struct told_group *next, *prev;
};

/** Take an event of the host's engine. The run fails if the event makes no sense. */
void told_event(struct host *host, const struct smcr_event *event);
/** Check the engine's view against the events: connections write only in groups that are up. */
void told_check(struct host *host);
/** A new engine has told nothing. */
void told_forget(struct host *host);

#endif
