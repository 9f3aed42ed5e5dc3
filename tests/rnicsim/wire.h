/* SPDX-License-Identifier: MIT */
/**
 * @file wire.h
 * Looks at the packets of the network.
 */
#ifndef SMCRD_TESTS_RNICSIM_WIRE_H
#define SMCRD_TESTS_RNICSIM_WIRE_H

#include "tests/rnicsim/world.h"

/** A host has sent a packet. It is sound, whatever the network makes of it. */
void wire_sent(const struct host *from, struct in_addr to, const uint8_t *data, size_t len);
/** A host has taken a packet from its socket. */
void wire_received(const struct host *host, const struct packet *packet);

#endif
