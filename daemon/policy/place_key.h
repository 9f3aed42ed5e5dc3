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

/** Places of one address that are kept: nobody makes what is known of others be forgotten. This
 * host's own ports are all of one address, and all its users'. */
#define PLACES_OF_PEER 64
#define PLACES_OF_HOST 1024

static inline unsigned int place_key_most(const struct place_key *key)
{
	return key->family ? PLACES_OF_PEER : PLACES_OF_HOST;
}

/** Are these ports of one address? */
static inline bool place_key_same_address(const struct place_key *a, const struct place_key *b)
{
	return a->family == b->family && !memcmp(a->ip, b->ip, sizeof(a->ip));
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
