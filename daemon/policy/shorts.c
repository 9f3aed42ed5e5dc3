/* SPDX-License-Identifier: MIT */
#include "daemon/policy/shorts.h"

#include <stdlib.h>
#include <utlist.h>

#include "daemon/policy/kept.h"

/* Time constants of the exponential averages: of the rate in seconds, of the share in connections.
 * While a place counts as short only a sample of its connections is seen, so fewer are averaged. */
#define RATE_SECONDS        10.0
#define SHARE_CONNECTIONS   32.0
#define SAMPLED_CONNECTIONS 8.0

#define SHARE_BEGINS 0.9
#define SHARE_ENDS   0.5
/* A place has become quiet if its rate is below this part of the configured rate. */
#define QUIET_PART 0.5

struct place {
	struct kept kept; /* unused for longest first */
	struct short_place known;
	double recent;             /* recent connections, weighted by age */
	uint64_t recent_ms;        /* when `recent` was computed */
	uint64_t handshakes;       /* how many there were at the last shorts_look() */
	uint64_t looked_at_ms;     /* when that was */
	struct place *prev, *next; /* in the order in which they were first seen */
};

_Static_assert(offsetof(struct place, kept) == 0, "place_of()");

struct shorts {
	struct shorts_config config;
	void (*ended)(void *arg, const struct short_place *place);
	void *arg;
	struct kept *table;
	struct place *places;
	size_t num_short;
	uint64_t last_order;
};

struct shorts *shorts_new(const struct shorts_config *config,
			  void (*ended)(void *arg, const struct short_place *place), void *arg)
{
	struct shorts *shorts = calloc(1, sizeof(*shorts));
	if (shorts)
		*shorts = (struct shorts){ .config = *config, .ended = ended, .arg = arg };
	return shorts;
}

static void remove_place(struct shorts *shorts, struct place *place)
{
	if (place->known.is_short) {
		shorts->num_short--;
		if (shorts->ended)
			shorts->ended(shorts->arg, &place->known);
	}
	kept_remove(&shorts->table, &place->kept);
	DL_DELETE(shorts->places, place);
	free(place);
}

void shorts_configure(struct shorts *shorts, const struct shorts_config *config)
{
	shorts->config = *config;
	while (config->rate == 0 && shorts->places)
		remove_place(shorts, shorts->places);
}

void shorts_free(struct shorts *shorts)
{
	if (!shorts)
		return;
	shorts->ended = NULL;
	while (shorts->places)
		remove_place(shorts, shorts->places);
	free(shorts);
}

/* ---- places ---- */

/* @param kept  NULL: NULL */
static struct place *place_of(struct kept *kept)
{
	return (struct place *)kept;
}

static struct place *find(const struct shorts *shorts, const struct rdv_place *where)
{
	const struct kept_key key = kept_key_of(where);
	return place_of(kept_find(shorts->table, &key));
}

/* It takes hundreds of connections to learn that again. */
static bool counts_as_short(const struct kept *kept)
{
	return ((const struct place *)kept)->known.is_short;
}

/* @return NULL: no memory */
static struct place *make(struct shorts *shorts, const struct rdv_place *where, uint64_t now_ms)
{
	const struct kept_key key = kept_key_of(where);
	struct kept *in_the_way = kept_in_the_way(shorts->table, &key, counts_as_short);
	if (in_the_way)
		remove_place(shorts, place_of(in_the_way));
	struct place *place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->kept.key = key;
	place->known.where = *where;
	place->known.order = ++shorts->last_order;
	place->recent_ms = now_ms;
	kept_add(&shorts->table, &place->kept);
	DL_APPEND(shorts->places, place);
	return place;
}

static struct place *find_or_make(struct shorts *shorts, const struct rdv_place *where,
				  uint64_t now_ms)
{
	struct place *place = find(shorts, where);
	if (!place)
		return make(shorts, where, now_ms);
	kept_use(&shorts->table, &place->kept);
	return place;
}

static unsigned int times(const struct place *place)
{
	return place->known.where.server ? SHORTS_OF_SERVER : 1;
}

/* From how many connections a second on the place may count as short. */
static double rate_of(const struct shorts *shorts, const struct place *place)
{
	return (double)shorts->config.rate * times(place);
}

/* ---- what ended ---- */

/* Nearly exp(-t): what is left of a count after a time. */
static double rest_after(double t)
{
	return 1 / (1 + t + t * t / 2);
}

static double recent_at(const struct place *place, uint64_t now_ms)
{
	double passed = (double)(now_ms - place->recent_ms) / 1000;
	return place->recent * rest_after(passed / RATE_SECONDS);
}

static void count(struct place *place, bool was_short, uint64_t now_ms)
{
	struct short_place *known = &place->known;
	double memory = known->is_short ? SAMPLED_CONNECTIONS : SHARE_CONNECTIONS * times(place);
	place->recent = recent_at(place, now_ms) + 1;
	place->recent_ms = now_ms;
	known->rate = place->recent / RATE_SECONDS;
	known->share += ((was_short ? 1 : 0) - known->share) / memory;
	known->seen++;
}

static void begin(struct shorts *shorts, struct place *place, uint64_t now_ms)
{
	place->known.is_short = true;
	place->known.since_ms = place->looked_at_ms = now_ms;
	place->handshakes = 0;
	shorts->num_short++;
}

/* Learn the place anew. */
static void end(struct shorts *shorts, struct place *place)
{
	place->known.is_short = false;
	place->known.share = place->known.rate = place->recent = 0;
	shorts->num_short--;
}

enum shorts_change shorts_note(struct shorts *shorts, const struct rdv_place *where, uint64_t ms,
			       uint64_t bytes, uint64_t now_ms,
			       const struct short_place **ret_place)
{
	const struct shorts_config *config = &shorts->config;
	struct place *place = config->rate ? find_or_make(shorts, where, now_ms) : NULL;
	*ret_place = place ? &place->known : NULL;
	if (!place)
		return SHORTS_SAME;
	const struct short_place *known = &place->known;
	count(place, ms <= config->ms && bytes < config->bytes, now_ms);
	if (!known->is_short && known->share >= SHARE_BEGINS &&
	    known->rate >= rate_of(shorts, place)) {
		begin(shorts, place, now_ms);
		return SHORTS_BEGINS;
	}
	if (known->is_short && known->share < SHARE_ENDS) {
		end(shorts, place);
		return SHORTS_ENDS;
	}
	return SHORTS_SAME;
}

enum shorts_change shorts_look(struct shorts *shorts, const struct rdv_place *where,
			       uint64_t handshakes, uint64_t now_ms)
{
	struct place *place = find(shorts, where);
	if (!place || !place->known.is_short || now_ms <= place->looked_at_ms)
		return SHORTS_SAME;
	double seconds = (double)(now_ms - place->looked_at_ms) / 1000;
	double rate = (double)(handshakes - place->handshakes) / seconds;
	place->handshakes = handshakes;
	place->looked_at_ms = now_ms;
	if (rate >= rate_of(shorts, place) * QUIET_PART)
		return SHORTS_SAME;
	end(shorts, place);
	return SHORTS_ENDS;
}

/* ---- the rest ---- */

size_t shorts_forget(struct shorts *shorts, const struct smcr_addr *where)
{
	struct place *place, *next;
	size_t n = 0;
	DL_FOREACH_SAFE (shorts->places, place, next) {
		if (!place_key_within(&place->kept.key.place, where))
			continue;
		remove_place(shorts, place);
		n++;
	}
	return n;
}

bool shorts_walk(const struct shorts *shorts, uint64_t now_ms, uint64_t after,
		 bool (*fn)(void *arg, const struct short_place *place), void *arg)
{
	const struct place *place;
	DL_FOREACH (shorts->places, place) {
		struct short_place known = place->known;
		if (known.order <= after)
			continue;
		known.rate = recent_at(place, now_ms) / RATE_SECONDS;
		if (!fn(arg, &known))
			return false;
	}
	return true;
}

bool shorts_is_short(const struct shorts *shorts, const struct rdv_place *where)
{
	const struct place *place = find(shorts, where);
	return place && place->known.is_short;
}

bool shorts_any(const struct shorts *shorts)
{
	return shorts->num_short > 0;
}
