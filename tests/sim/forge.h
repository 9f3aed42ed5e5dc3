/* SPDX-License-Identifier: MIT */
/** @file forge.h Messages that no engine of ours sends, put on the wire in its name. */
#ifndef SMCRD_TESTS_SIM_FORGE_H
#define SMCRD_TESTS_SIM_FORGE_H

#include "tests/sim/fabric.h"

/** The client's notice of a new RNIC (ADDL-15) on every active link on which the device's host is
 * the client: the server is to add a link (ADDL-16). */
void forge_add_link_notice(struct world *w, const struct device *device);

/** A Proposal of version 2 becomes one of another client (settings.proposals). Other messages stay
 *  what they are. @return its length */
size_t forge_proposal(struct world *w, uint8_t *msg, size_t len, size_t room);

#endif
