/* SPDX-License-Identifier: MIT */
/** @file forge.h Messages that no engine of ours sends yet, put on the wire in its peer's name. */
#ifndef SMCRD_TESTS_SIM_FORGE_H
#define SMCRD_TESTS_SIM_FORGE_H

#include "tests/sim/fabric.h"

/** The client's notice of a new RNIC (ADDL-15) on every active link on which the device's host is
 * the client: the server is to add a link (ADDL-16). */
void forge_add_link_notice(struct world *w, const struct device *device);

#endif
