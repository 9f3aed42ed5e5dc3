/* SPDX-License-Identifier: MIT */
/**
 * @file woken.h
 * Nobody who could do something waits without having been woken: when an engine has heard nothing
 * for a while, connections and link groups that are asked once more do nothing.
 */
#ifndef SMCRD_TESTS_SIM_WOKEN_H
#define SMCRD_TESTS_SIM_WOKEN_H

#include "tests/sim/host.h"

/** Before the engine hears of something new: ask them, if the last time is a millisecond ago. What
 * is not as it has to be is ENGINE-WAKE. */
void woken_check(struct host *host);

#endif
