/* SPDX-License-Identifier: MIT */
/**
 * @file place_key.h
 * Keys of the hash tables of what was learnt. A place is a port of a peer, a whole peer (port 0), a
 * port of this host that a peer connects to (`server`), or such a port for all peers (family 0).
 */
#ifndef SMCRD_POLICY_PLACE_KEY_H
#define SMCRD_POLICY_PLACE_KEY_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/engine.h"

/** All its bytes are set, so keys can be compared and hashed as a whole. */
struct place_key {
	uint8_t ip[16];
	uint16_t port;
	uint8_t family;
	uint8_t server; /* 1: the port is one of this host, and only the address is the peer's */
};

static inline struct place_key place_key_of(const struct smcr_addr *where)
{
	struct place_key key = { .port = where->port, .family = where->family };
	if (where->family)
		memcpy(key.ip, where->ip, sizeof(key.ip));
	return key;
}

/** How many places of one address are kept, so that a peer cannot displace what is known of
 * others. */
#define PLACES_OF_PEER 64

/** Are these places of the same address? */
static inline bool place_key_same_address(const struct place_key *a, const struct place_key *b)
{
	return a->family == b->family && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/** Are these places of the same address or, of IPv6, the same /64? A host may use any address of
 * its /64. */
static inline bool place_key_same_network(const struct place_key *a, const struct place_key *b)
{
	return a->family == b->family &&
	       !memcmp(a->ip, b->ip, a->family == AF_INET6 ? 8 : sizeof(a->ip));
}

/**
 * Is `key` one of the places that an operator means?
 * @param where  a peer, or one port of it or of this host for it; family 0: a port of this host,
 * for any peer
 */
static inline bool place_key_within(const struct place_key *key, const struct smcr_addr *where)
{
	const struct place_key other = place_key_of(where);
	if (!where->family)
		return key->server && key->port == where->port;
	return place_key_same_address(key, &other) && (!where->port || key->port == where->port);
}

#endif
