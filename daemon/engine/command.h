/* SPDX-License-Identifier: MIT */
/**
 * @file command.h
 * What commands of operators wait for. Each function may raise ops->command_done().
 */
#ifndef SMCRD_ENGINE_COMMAND_H
#define SMCRD_ENGINE_COMMAND_H

#include "daemon/engine/engine.h"

struct smcr_engine;
struct smcr_lgr;
struct smcr_link;

/** A probe of the link was answered, `rtt` microseconds after it was sent. */
void smcr_command_tested(struct smcr_link *link, uint64_t rtt);
void smcr_command_link_failed(struct smcr_link *link);
/** A link more is active; there will be none. */
void smcr_command_link_active(struct smcr_link *link);
void smcr_command_add_failed(struct smcr_lgr *lgr, const char *why);
/** A connection of the group is not moving any more, or has left it. */
void smcr_command_moved(struct smcr_lgr *lgr);
/** The link is being freed. */
void smcr_command_link_gone(struct smcr_link *link);
/** The group is being freed. */
void smcr_command_lgr_gone(struct smcr_lgr *lgr);
/** Forget all of them, silently. */
void smcr_command_free_all(struct smcr_engine *engine);

#endif
