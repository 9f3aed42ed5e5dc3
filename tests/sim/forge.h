/* SPDX-License-Identifier: MIT */
/** @file forge.h Messages that our engine never sends, put on the wire in its name. */
#ifndef SMCRD_TESTS_SIM_FORGE_H
#define SMCRD_TESTS_SIM_FORGE_H

#include "tests/sim/fabric.h"

/** Send the client's notice of a new RNIC (ADDL-15) on every active link whose client is the
 * device's host. The server has to add a link (ADDL-16). */
void forge_add_link_notice(struct world *w, const struct device *device);

/** Change a Proposal of version 2 into one that another client could have sent
 *  (settings.proposals). Other messages stay unchanged. @return length of the message */
size_t forge_proposal(struct world *w, uint8_t *msg, size_t len, size_t room);

#endif
