/* SPDX-License-Identifier: MIT */
/**
 * @file place_key.h
 * What is learnt is kept by place, in hash tables: a port of a peer, a peer as a whole (port 0), or
 * a port of this host (family 0).
 */
#ifndef SMCRD_POLICY_PLACE_KEY_H
#define SMCRD_POLICY_PLACE_KEY_H

#include <stdbool.h>
#include <string.h>

#include "daemon/engine/engine.h"

/** No byte of it is left to chance, so that keys may be compared and hashed as a whole. */
struct place_key {
	uint8_t ip[16];
	uint16_t port;
	uint8_t family, padding;
};

static inline struct place_key place_key_of(const struct smcr_addr *where)
{
	struct place_key key = { .port = where->port, .family = where->family };
	if (where->family)
		memcpy(key.ip, where->ip, sizeof(key.ip));
	return key;
}

/** Is it this place, or if `where` is a peer as a whole, a port of that peer? */
static inline bool place_key_within(const struct place_key *key, const struct smcr_addr *where)
{
	struct place_key other = place_key_of(where);
	if (!where->port && where->family)
		other.port = key->port;
	return !memcmp(&other, key, sizeof(other));
}

#endif
