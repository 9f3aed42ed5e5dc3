/* SPDX-License-Identifier: MIT */
#include "daemon/policy/needs.h"

#include <stddef.h>
#include <stdlib.h>

#include "daemon/policy/kept.h"

#define HEADROOM 2

/* What was learnt for one direction. */
struct learnt {
	uint32_t need;  /* UINT32_MAX: larger than the buffer */
	uint32_t later; /* the most of those connections that needed less, */
	uint32_t count; /* and how many of them came in a row */
};

struct place {
	struct kept kept; /* unused for longest first */
	struct learnt rcv, snd;
};

_Static_assert(offsetof(struct place, kept) == 0, "place_of()");

struct needs {
	struct kept *places;
};

struct needs *needs_new(void)
{
	return calloc(1, sizeof(struct needs));
}

static void remove_place(struct needs *needs, struct kept *place)
{
	kept_remove(&needs->places, place);
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

/* @param kept  NULL: NULL */
static struct place *place_of(struct kept *kept)
{
	return (struct place *)kept;
}

static struct place *find(const struct needs *needs, const struct rdv_place *where)
{
	const struct kept_key key = kept_key_of(where);
	return place_of(kept_find(needs->places, &key));
}

/* The same port of the same user's servers, for all peers. */
static struct rdv_place of_any_peer(const struct rdv_place *where)
{
	struct rdv_place any = *where;
	any.peer = (struct smcr_addr){ .port = where->peer.port };
	return any;
}

/* What a peer of which nothing is known is expected to need is what others have needed. */
static const struct place *find_like(const struct needs *needs, const struct rdv_place *where)
{
	const struct place *place = find(needs, where);
	if (place || !where->server)
		return place;
	const struct rdv_place any = of_any_peer(where);
	return find(needs, &any);
}

/* @return NULL: no memory */
static struct place *make(struct needs *needs, const struct rdv_place *where)
{
	const struct kept_key key = kept_key_of(where);
	struct place *place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	const struct place *like = find_like(needs, where);
	place->rcv.need = like ? like->rcv.need : UINT32_MAX;
	place->snd.need = like ? like->snd.need : UINT32_MAX;
	struct kept *in_the_way = kept_in_the_way(needs->places, &key, NULL);
	if (in_the_way)
		remove_place(needs, in_the_way);
	place->kept.key = key;
	kept_add(&needs->places, &place->kept);
	return place;
}

static struct place *use(struct needs *needs, const struct rdv_place *where)
{
	struct place *place = find(needs, where);
	if (!place)
		return make(needs, where);
	kept_use(&needs->places, &place->kept);
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

static void learn_at(struct needs *needs, const struct rdv_place *where,
		     const struct smcr_needs *seen)
{
	struct place *place = use(needs, where);
	if (!place)
		return;
	learn(&place->rcv, seen->rcv);
	learn(&place->snd, seen->snd);
}

void needs_ended(struct needs *needs, const struct rdv_place *where, const struct smcr_needs *seen)
{
	const struct rdv_place any = of_any_peer(where);
	learn_at(needs, where, seen);
	if (where->server)
		learn_at(needs, &any, seen);
}

void needs_outgrown(struct needs *needs, const struct rdv_place *where,
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

struct smcr_needs needs_expected(const struct needs *needs, const struct rdv_place *where)
{
	const struct place *place = find_like(needs, where);
	if (!place)
		return (struct smcr_needs){ 0 };
	return (struct smcr_needs){ .rcv = with_headroom(place->rcv.need),
				    .snd = with_headroom(place->snd.need) };
}

void needs_forget(struct needs *needs, const struct smcr_addr *where)
{
	struct kept *place, *next;
	for (place = needs->places; place; place = next) {
		next = place->hh.next;
		if (place_key_within(&place->key.place, where))
			remove_place(needs, place);
	}
}
