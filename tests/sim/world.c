/* SPDX-License-Identifier: MIT */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/app.h"
#include "tests/sim/fabric.h"
#include "tests/sim/host.h"
#include "tests/sim/observer.h"

/* A run with more events than this is taken for one that does not end. */
#define MAX_EVENTS 20000000u

void *sim_zalloc(size_t len)
{
	void *p = calloc(1, len);
	if (!p)
		abort();
	return p;
}

void mangle(struct prng *p, uint8_t *data, size_t len)
{
	static const uint8_t favourites[] = { 0, 1, 0x7f, 0x80, 0xff };
	for (uint64_t n = prng_size(p, 1, len); n && len; n--) {
		uint8_t *byte = &data[prng_range(p, 0, len - 1)];
		if (prng_chance(p, 500))
			*byte = favourites[prng_range(p, 0, sizeof(favourites) - 1)];
		else
			*byte ^= (uint8_t)(1u << prng_range(p, 0, 7));
	}
}

struct world *world_new(const char *scenario, uint64_t seed, bool verbose)
{
	struct world *w = sim_zalloc(sizeof(*w));
	w->seed = seed;
	w->scenario = scenario;
	w->verbose = verbose;
	/* The scenario's name is mixed into the seed, so that scenarios make different runs. */
	uint64_t name = 0;
	for (const char *p = scenario; *p; p++)
		name = prng_mix(name ^ (uint8_t)*p);
	prng_seed(&w->rng, prng_mix(seed) ^ name);
	w->fabric = fabric_new(w);
	w->observer = obs_new(w);
	return w;
}

void world_free(struct world *w)
{
	bool failed = w->failed;
	/* Engines now give their QPs and memory back. The observer must not judge that. */
	w->failed = true;
	w->verbose = false;
	for (size_t i = 0; i < w->num_hosts; i++)
		host_free(w->hosts[i]);
	for (size_t i = 0; i < w->num_pairs; i++)
		pair_free(w->pairs[i]);
	free(w->pairs);
	obs_free(w->observer);
	fabric_free(w->fabric);
	clock_free(&w->clock);
	w->failed = failed;
	free(w);
}

void world_fail(struct world *w, const char *id, const char *format, ...)
{
	va_list args;
	if (w->failed)
		return;
	w->failed = true;
	snprintf(w->failed_id, sizeof(w->failed_id), "%s", id);
	va_start(args, format);
	vsnprintf(w->failed_text, sizeof(w->failed_text), format, args);
	va_end(args);
	if (w->verbose)
		printf("# %12.6f VIOLATION %s: %s\n", (double)w->clock.now / 1e6, w->failed_id,
		       w->failed_text);
}

void world_print(struct world *w, const char *who, const char *format, ...)
{
	va_list args;
	printf("# %12.6f %-8s ", (double)w->clock.now / 1e6, who);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void world_note(struct world *w, uint64_t what, uint64_t a, uint64_t b)
{
	w->digest = prng_mix(w->digest ^ prng_mix(w->clock.now ^ what << 56) ^ a << 32 ^ b);
}

bool world_run(struct world *w, uint64_t until, bool (*done)(struct world *w))
{
	while (!w->failed) {
		if (done && done(w))
			return true;
		if (!w->clock.len || w->clock.heap[0].when > until) {
			w->clock.now = until > w->clock.now ? until : w->clock.now;
			return false;
		}
		clock_step(&w->clock);
		if (w->clock.fired > MAX_EVENTS)
			world_fail(w, "END", "the run does not end: %u events", MAX_EVENTS);
	}
	return false;
}
