/* SPDX-License-Identifier: MIT */
#include "daemon/policy/needs.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/policy/place_key.h"

#define MAX_PLACES 4096
#define HEADROOM   2

/* What was learnt for one direction. */
struct learnt {
	uint32_t need;  /* UINT32_MAX: larger than the buffer */
	uint32_t later; /* the most of those connections that needed less, */
	uint32_t count; /* and how many of them came in a row */
};

struct place {
	struct place_key key;
	struct learnt rcv, snd;
	UT_hash_handle hh; /* ordered: unused for longest first */
};

struct needs {
	struct place *places;
};

struct needs *needs_new(void)
{
	return calloc(1, sizeof(struct needs));
}

static void remove_place(struct needs *needs, struct place *place)
{
	HASH_DELETE(hh, needs->places, place);
	free(place);
}

void needs_free(struct needs *needs)
{
	if (!needs)
		return;
	while (needs->places)
		remove_place(needs, needs->places);
	free(needs);
}

/* ---- places ---- */

static struct place *find(const struct needs *needs, const struct smcr_addr *where)
{
	const struct place_key key = place_key_of(where);
	struct place *place;
	HASH_FIND(hh, needs->places, &key, sizeof(key), place);
	return place;
}

/* Make room for a further place of an address by removing the one that was not used for longest. */
static void make_room(struct needs *needs, const struct place_key *key)
{
	struct place *place, *oldest = NULL;
	unsigned int same = 0;
	for (place = needs->places; place; place = place->hh.next) {
		if (!place_key_same_address(&place->key, key))
			continue;
		oldest = oldest ? oldest : place;
		same++;
	}
	if (same >= place_key_most(key))
		remove_place(needs, oldest);
	else if (HASH_COUNT(needs->places) >= MAX_PLACES)
		remove_place(needs, needs->places);
}

/* The place becomes the last of the list. @return NULL: no memory */
static struct place *use(struct needs *needs, const struct smcr_addr *where)
{
	struct place *place = find(needs, where);
	if (place) {
		HASH_DELETE(hh, needs->places, place);
	} else {
		place = calloc(1, sizeof(*place));
		if (!place)
			return NULL;
		place->key = place_key_of(where);
		place->rcv.need = place->snd.need = UINT32_MAX;
		make_room(needs, &place->key);
	}
	HASH_ADD(hh, needs->places, key, sizeof(place->key), place);
	return place;
}

/* ---- what was seen ---- */

static void learn(struct learnt *learnt, uint32_t seen)
{
	if (!seen)
		return;
	if (seen >= learnt->need) {
		*learnt = (struct learnt){ .need = seen };
		return;
	}
	if (seen > learnt->later)
		learnt->later = seen;
	if (++learnt->count == NEEDS_IN_A_ROW)
		*learnt = (struct learnt){ .need = learnt->later };
}

void needs_ended(struct needs *needs, const struct smcr_addr *where, const struct smcr_needs *seen)
{
	struct place *place = use(needs, where);
	if (!place)
		return;
	learn(&place->rcv, seen->rcv);
	learn(&place->snd, seen->snd);
}

void needs_outgrown(struct needs *needs, const struct smcr_addr *where,
		    const struct smcr_needs *seen)
{
	/* The other direction is noted when the connection ends. */
	const struct smcr_needs full = { .rcv = seen->rcv == UINT32_MAX ? UINT32_MAX : 0,
					 .snd = seen->snd == UINT32_MAX ? UINT32_MAX : 0 };
	needs_ended(needs, where, &full);
}

/* ---- what follows from it ---- */

static uint32_t with_headroom(uint32_t need)
{
	return need > UINT32_MAX / HEADROOM ? UINT32_MAX : need * HEADROOM;
}

struct smcr_needs needs_expected(const struct needs *needs, const struct smcr_addr *where)
{
	const struct place *place = find(needs, where);
	if (!place)
		return (struct smcr_needs){ 0 };
	return (struct smcr_needs){ .rcv = with_headroom(place->rcv.need),
				    .snd = with_headroom(place->snd.need) };
}

void needs_forget(struct needs *needs, const struct smcr_addr *where)
{
	struct place *place, *next;
	HASH_ITER (hh, needs->places, place, next)
		if (place_key_within(&place->key, where))
			remove_place(needs, place);
}
