/* SPDX-License-Identifier: MIT */
#include "daemon/policy/kept.h"

#include <stdlib.h>
#include <string.h>

struct kept_key kept_key_of(const struct rdv_place *where)
{
	struct kept_key key = { .place = place_key_of(&where->peer), .uid = where->uid };
	key.place.server = where->server;
	if (where->server && where->peer.family)
		memcpy(key.local, where->local.ip, sizeof(key.local));
	return key;
}

struct kept *kept_find(struct kept *table, const struct kept_key *key)
{
	struct kept *entry;
	HASH_FIND(hh, table, key, sizeof(*key), entry);
	return entry;
}

void kept_add(struct kept **table, struct kept *entry)
{
	HASH_ADD(hh, *table, key, sizeof(entry->key), entry);
}

void kept_remove(struct kept **table, struct kept *entry)
{
	HASH_DELETE(hh, *table, entry);
}

void kept_use(struct kept **table, struct kept *entry)
{
	if (!entry->hh.next)
		return;
	kept_remove(table, entry);
	kept_add(table, entry);
}

/* ---- shares ---- */

/* How many entries a user may have as a client, and as a server: of one address, of one network
 * (hosts of a LAN may share an IPv6 /64), and of all. */
enum scope {
	OF_ADDRESS,
	OF_NETWORK,
	OF_USER,
	SCOPES,
};
static const unsigned int most[SCOPES] = { PLACES_OF_PEER, KEPT_MAX / 16, KEPT_MAX / 4 };

/* The user and side whose share an entry is part of. */
static uint64_t owner(const struct kept_key *key)
{
	return (uint64_t)key->uid << 1 | key->place.server;
}

static bool is_alike(const struct kept_key *a, const struct kept_key *b, enum scope scope)
{
	if (owner(a) != owner(b) || scope == OF_USER)
		return owner(a) == owner(b);
	/* The user's own ports are no peer's. Ports do not displace whole peers, which weigh
	 * more. */
	if (!a->place.family || !a->place.port != !b->place.port)
		return false;
	return scope == OF_NETWORK ? place_key_same_network(&a->place, &b->place)
				   : place_key_same_address(&a->place, &b->place);
}

static int compare_owners(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return (*left > *right) - (*left < *right);
}

/* @return the owner with the most entries; `adding` if no other has more */
static uint64_t largest_owner(const struct kept *table, uint64_t adding)
{
	static uint64_t owners[KEPT_MAX];
	uint64_t largest = adding;
	size_t n = 0, run = 0, longest = 0;
	for (const struct kept *entry = table; entry && n < KEPT_MAX; entry = entry->hh.next)
		owners[n++] = owner(&entry->key);
	qsort(owners, n, sizeof(owners[0]), compare_owners);
	for (size_t i = 0; i < n; i++) {
		run = i > 0 && owners[i] == owners[i - 1] ? run + 1 : 1;
		if (run > longest || (run == longest && owners[i] == adding)) {
			longest = run;
			largest = owners[i];
		}
	}
	return largest;
}

/* The first entry that was found, and the first one that others go before. */
struct first {
	struct kept *light, *heavy;
	unsigned int n;
};

static void look_at(struct first *first, struct kept *entry,
		    bool (*weighs)(const struct kept *entry))
{
	struct kept **found = weighs && weighs(entry) ? &first->heavy : &first->light;
	if (!*found)
		*found = entry;
	first->n++;
}

static struct kept *first_of(const struct first *first)
{
	return first->light ? first->light : first->heavy;
}

/* The table is full: who has the most entries loses one of them. So users who have many displace
 * nobody who has few. */
static struct kept *first_of_largest(struct kept *table, uint64_t adding,
				     bool (*weighs)(const struct kept *entry))
{
	const uint64_t largest = largest_owner(table, adding);
	struct first first = { 0 };
	for (struct kept *entry = table; entry; entry = entry->hh.next)
		if (owner(&entry->key) == largest)
			look_at(&first, entry, weighs);
	return first_of(&first);
}

/* Each scope lies within the next one, so room in the narrowest full one is room in all. */
struct kept *kept_in_the_way(struct kept *table, const struct kept_key *key,
			     bool (*weighs)(const struct kept *entry))
{
	struct first first[SCOPES] = { 0 };
	if (HASH_COUNT(table) < PLACES_OF_PEER)
		return NULL;
	for (struct kept *entry = table; entry; entry = entry->hh.next)
		for (int scope = OF_USER; scope >= 0 && is_alike(&entry->key, key, scope); scope--)
			look_at(&first[scope], entry, weighs);
	for (enum scope scope = OF_ADDRESS; scope < SCOPES; scope++)
		if (first[scope].n >= most[scope])
			return first_of(&first[scope]);
	return HASH_COUNT(table) < KEPT_MAX ? NULL : first_of_largest(table, owner(key), weighs);
}
