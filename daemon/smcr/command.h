/* SPDX-License-Identifier: MIT */
/**
 * @file command.h
 * Commands of operators, which learn their outcome from news.h. May call ops->command_done().
 */
#ifndef SMCRD_SMCR_COMMAND_H
#define SMCRD_SMCR_COMMAND_H

#include "daemon/smcr/engine.h"
#include "daemon/smcr/news.h"

struct smcr_engine;

/** Hear news that a command may wait for. */
void smcr_command_hear(const struct smcr_news *news);
/** Forget all commands, without outcomes. */
void smcr_command_free_all(struct smcr_engine *engine);

#endif
