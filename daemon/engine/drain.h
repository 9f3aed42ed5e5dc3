/* SPDX-License-Identifier: MIT */
/**
 * @file drain.h
 * RNICs that an operator takes out of use.
 */
#ifndef SMCRD_ENGINE_DRAIN_H
#define SMCRD_ENGINE_DRAIN_H

#include "daemon/engine/engine.h"

struct smcr_lgr;

/** One of the links that the group has on drained RNICs goes, if another one stays. To be called
 *  when no exchange runs. */
void smcr_drain_leave(struct smcr_lgr *lgr);
/** Is no link that works on an RNIC that takes new ones? */
bool smcr_drain_is_everywhere(const struct smcr_lgr *lgr);

#endif
