/* SPDX-License-Identifier: MIT */
/**
 * @file command.h
 * Commands of operators, which wait for what happens (news.h). May raise ops->command_done().
 */
#ifndef SMCRD_ENGINE_COMMAND_H
#define SMCRD_ENGINE_COMMAND_H

#include "daemon/engine/engine.h"
#include "daemon/engine/news.h"

struct smcr_engine;

/** Something has happened that a command may wait for. */
void smcr_command_hear(const struct smcr_news *news);
/** Forget all of them, silently. */
void smcr_command_free_all(struct smcr_engine *engine);

#endif
