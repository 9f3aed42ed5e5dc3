/* SPDX-License-Identifier: MIT */
/**
 * @file kept.h
 * Tables of what the connections of users have shown: who is remembered, and who has to make room
 * for whom. An entry begins with a `struct kept`, which names the user whose connections are
 * concerned, and the place.
 *
 * Neither a user nor a peer, whatever addresses it has, can make the daemon forget what connections
 * of other users have shown. One user has a quarter of the 4096 entries of a table at most, once as
 * a client and once as a server: peers of the user's servers must not displace what the user's own
 * connects have shown. Of these, 64 ports are of one address, and 256 whole peers and 256 ports of
 * one IPv6 /64. When all 4096 are taken, the user with the most of them loses one.
 */
#ifndef SMCRD_POLICY_KEPT_H
#define SMCRD_POLICY_KEPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

#include "daemon/policy/place_key.h"
#include "daemon/rendezvous/option.h"

#define KEPT_MAX 4096 /* entries of a table; the BPF programs have room for as many */

/** All its bytes are set, so keys can be compared and hashed as a whole. */
struct kept_key {
	struct place_key place;
	uint8_t local[16]; /* of a place of a server: the address to which the peer connects */
	uint32_t uid;      /* whose connections are concerned */
};

_Static_assert(sizeof(struct kept_key) == sizeof(struct place_key) + 16 + sizeof(uint32_t),
	       "padding");

/** The first member of an entry. A table is a pointer to its first one, or NULL. */
struct kept {
	struct kept_key key;
	UT_hash_handle hh; /* in the order in which they were added, or used */
};

/** The key of connections of a user with a peer, to one port, and at a server to one address. */
struct kept_key kept_key_of(const struct rdv_place *where);

struct kept *kept_find(struct kept *table, const struct kept_key *key);

/** Append an entry, whose key is set. The table must have room: kept_in_the_way(). */
void kept_add(struct kept **table, struct kept *entry);

/** Take an entry out of the table. */
void kept_remove(struct kept **table, struct kept *entry);

/** Make the entry the last one: of several, the first has to make room. */
void kept_use(struct kept **table, struct kept *entry);

/**
 * Find the entry that has to make room for a further one with this key.
 * @param weighs  does much depend on this entry, so that others go first? NULL: on all the same
 * @return NULL: there is room
 */
struct kept *kept_in_the_way(struct kept *table, const struct kept_key *key,
			     bool (*weighs)(const struct kept *entry));

#endif
