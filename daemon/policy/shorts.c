/* SPDX-License-Identifier: MIT */
#include "daemon/policy/shorts.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/policy/place_key.h"

#define MAX_PLACES 4096
#define MAX_SHORT  1000 /* less than the BPF programs have room for */

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
	struct short_place known;
	struct place_key key;
	double recent;         /* recent connections, weighted by age */
	uint64_t recent_ms;    /* when `recent` was computed */
	uint64_t handshakes;   /* how many there were at the last shorts_look() */
	uint64_t looked_at_ms; /* when that was */
	UT_hash_handle hh;
};

struct shorts {
	struct shorts_config config;
	struct place *places;
	size_t num_short;
	uint64_t last_order;
};

struct shorts *shorts_new(const struct shorts_config *config)
{
	struct shorts *shorts = calloc(1, sizeof(*shorts));
	if (shorts)
		shorts->config = *config;
	return shorts;
}

static void remove_place(struct shorts *shorts, struct place *place)
{
	HASH_DELETE(hh, shorts->places, place);
	if (place->known.is_short)
		shorts->num_short--;
	free(place);
}

void shorts_configure(struct shorts *shorts, const struct shorts_config *config,
		      void (*ended)(void *arg, const struct short_place *place), void *arg)
{
	shorts->config = *config;
	while (config->rate == 0 && shorts->places) {
		if (shorts->places->known.is_short && ended)
			ended(arg, &shorts->places->known);
		remove_place(shorts, shorts->places);
	}
}

void shorts_free(struct shorts *shorts)
{
	if (!shorts)
		return;
	while (shorts->places)
		remove_place(shorts, shorts->places);
	free(shorts);
}

/* ---- places ---- */

static struct place *find(const struct shorts *shorts, const struct smcr_addr *where)
{
	const struct place_key key = place_key_of(where);
	struct place *place;
	HASH_FIND(hh, shorts->places, &key, sizeof(key), place);
	return place;
}

/* Is there room for another place of this address? */
static bool has_room(const struct shorts *shorts, const struct place_key *key)
{
	unsigned int same = 0;
	if (HASH_COUNT(shorts->places) >= MAX_PLACES)
		return false;
	for (const struct place *place = shorts->places; place; place = place->hh.next)
		same += place_key_same_address(&place->key, key);
	return same < place_key_most(key);
}

/* A place that was quiet for long is learnt anew. */
static void forget_quiet(struct shorts *shorts, uint64_t now_ms)
{
	struct place *place, *next;
	for (place = shorts->places; place; place = next) {
		next = place->hh.next;
		if (!place->known.is_short && now_ms - place->recent_ms > SHORTS_LOOK_MS)
			remove_place(shorts, place);
	}
}

static bool make_room(struct shorts *shorts, const struct smcr_addr *where, uint64_t now_ms)
{
	const struct place_key key = place_key_of(where);
	if (has_room(shorts, &key))
		return true;
	forget_quiet(shorts, now_ms);
	return has_room(shorts, &key);
}

static struct place *find_or_make(struct shorts *shorts, const struct smcr_addr *where,
				  uint64_t now_ms)
{
	struct place *place = find(shorts, where);
	if (place || !make_room(shorts, where, now_ms))
		return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	place->key = place_key_of(where);
	place->known.where = *where;
	place->known.order = ++shorts->last_order;
	place->recent_ms = now_ms;
	HASH_ADD(hh, shorts->places, key, sizeof(place->key), place);
	return place;
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
	double memory = known->is_short ? SAMPLED_CONNECTIONS : SHARE_CONNECTIONS;
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

enum shorts_change shorts_note(struct shorts *shorts, const struct smcr_addr *where, uint64_t ms,
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
	if (!known->is_short && known->share >= SHARE_BEGINS && known->rate >= config->rate &&
	    shorts->num_short < MAX_SHORT) {
		begin(shorts, place, now_ms);
		return SHORTS_BEGINS;
	}
	if (known->is_short && known->share < SHARE_ENDS) {
		end(shorts, place);
		return SHORTS_ENDS;
	}
	return SHORTS_SAME;
}

enum shorts_change shorts_look(struct shorts *shorts, const struct smcr_addr *where,
			       uint64_t handshakes, uint64_t now_ms)
{
	struct place *place = find(shorts, where);
	if (!place || !place->known.is_short || now_ms <= place->looked_at_ms)
		return SHORTS_SAME;
	double seconds = (double)(now_ms - place->looked_at_ms) / 1000;
	double rate = (double)(handshakes - place->handshakes) / seconds;
	place->handshakes = handshakes;
	place->looked_at_ms = now_ms;
	if (rate >= shorts->config.rate * QUIET_PART)
		return SHORTS_SAME;
	end(shorts, place);
	return SHORTS_ENDS;
}

/* ---- the rest ---- */

size_t shorts_forget(struct shorts *shorts, const struct smcr_addr *where,
		     void (*ended)(void *arg, const struct short_place *place), void *arg)
{
	struct place *place, *next;
	size_t n = 0;
	for (place = shorts->places; place; place = next) {
		next = place->hh.next;
		if (!place_key_within(&place->key, where))
			continue;
		if (place->known.is_short && ended)
			ended(arg, &place->known);
		remove_place(shorts, place);
		n++;
	}
	return n;
}

bool shorts_walk(const struct shorts *shorts, uint64_t now_ms, uint64_t after,
		 bool (*fn)(void *arg, const struct short_place *place), void *arg)
{
	for (const struct place *place = shorts->places; place; place = place->hh.next) {
		struct short_place known = place->known;
		if (known.order <= after)
			continue;
		known.rate = recent_at(place, now_ms) / RATE_SECONDS;
		if (!fn(arg, &known))
			return false;
	}
	return true;
}

bool shorts_is_short(const struct shorts *shorts, const struct smcr_addr *where)
{
	const struct place *place = find(shorts, where);
	return place && place->known.is_short;
}

bool shorts_any(const struct shorts *shorts)
{
	return shorts->num_short > 0;
}
