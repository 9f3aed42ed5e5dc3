/* SPDX-License-Identifier: MIT */
/**
 * @file drain.h
 * RNICs that an operator takes out of use.
 */
#ifndef SMCRD_SMCR_DRAIN_H
#define SMCRD_SMCR_DRAIN_H

#include "daemon/smcr/engine.h"

struct smcr_lgr;

/** Delete one of the group's links on drained RNICs, if another link stays. To be called when no
 * exchange runs. */
void smcr_drain_leave(struct smcr_lgr *lgr);
/** Are all links that work on drained RNICs? */
bool smcr_drain_is_everywhere(const struct smcr_lgr *lgr);

#endif
