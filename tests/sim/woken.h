/* SPDX-License-Identifier: MIT */
/**
 * @file woken.h
 * Check that every connection or link group that can go on has been woken. When an engine has heard
 * nothing for a while, connections and groups that are asked to go on must do nothing.
 */
#ifndef SMCRD_TESTS_SIM_WOKEN_H
#define SMCRD_TESTS_SIM_WOKEN_H

#include "tests/sim/host.h"

/** Call this before the engine hears of something new: if the last time was a millisecond ago, ask
 * all connections and groups. A lost wake-up is reported as ENGINE-WAKE. */
void woken_check(struct host *host);

#endif
