/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rnicsim/conn.h"

/* Users stop after so long, whatever they have done; a run that goes on for longer does not end. */
#define LONG       (20 * SEC)
#define LONGEST    (300 * SEC)
#define MOST_STEPS 2000000
/* What users have posted has to be done so long after they stopped. */
#define PATIENCE (60 * SEC)
#define TICK     (10 * MSEC)

struct world *world;

uint64_t now(void)
{
	return world->clock.now;
}

void spend(uint32_t most)
{
	world->clock.now += choose(0, most);
}

bool chance(uint32_t permille)
{
	return prng_chance(&world->rng, permille);
}

uint64_t choose(uint64_t lo, uint64_t hi)
{
	return prng_range(&world->rng, lo, hi);
}

uint64_t choose_size(uint64_t lo, uint64_t hi)
{
	return prng_size(&world->rng, lo, hi);
}

void world_fail(const char *format, ...)
{
	va_list args;
	if (world->failed)
		return;
	world->failed = true;
	va_start(args, format);
	vsnprintf(world->failed_text, sizeof(world->failed_text), format, args);
	va_end(args);
	world_log("FAILED: %s", world->failed_text);
}

void world_log(const char *format, ...)
{
	va_list args;
	if (!world->verbose)
		return;
	printf("%12.6f ", (double)now() / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void world_note(uint64_t value)
{
	world->digest = prng_mix(world->digest ^ value);
}

static void on_tick(void *object, uint64_t arg)
{
	(void)object;
	(void)arg;
	if (world->draining)
		return;
	net_tick();
	conns_tick();
	clock_in(&world->clock, TICK, on_tick, NULL, 0);
}

/* Let events happen until `done` says so. @return false: it did not within `limit` */
static bool run_until(bool (*done)(void), uint64_t limit)
{
	uint64_t until = now() + limit, last = world->clock.fired + MOST_STEPS;
	while (!world->failed && !done()) {
		if (!clock_step(&world->clock) || now() > until || world->clock.fired > last)
			return false;
	}
	return true;
}

static bool never(void)
{
	return false;
}

static bool users_are_done(void)
{
	return world->steps >= world->set.steps || now() > world->began + LONG;
}

static void run(void)
{
	hosts_open();
	net_init();
	if (!world->failed)
		conns_begin();
	clock_in(&world->clock, TICK, on_tick, NULL, 0);
	if (!run_until(users_are_done, LONGEST))
		world_fail("users do not come to an end");
	world_log("users stop");
	world->draining = true;
	if (world->set.heals)
		net_heal();
	conns_drain();
	if (!run_until(conns_are_idle, PATIENCE))
		world_fail("no end: %s", conns_busy_text());
	/* What is still under way has to find that all is done. */
	run_until(never, choose_size(1, 3 * SEC));
	if (!world->failed)
		conns_end();
	if (chance(500))
		run_until(never, choose_size(1, 3 * SEC));
	if (!world->failed)
		conns_release();
	if (!world->failed)
		hosts_close();
}

bool world_run(const struct scenario *scenario, uint64_t seed, bool verbose, uint64_t *ret_digest,
	       char ret_text[512])
{
	int64_t before = memory_live();
	world = calloc(1, sizeof(*world));
	if (!world)
		abort();
	world->seed = seed;
	world->scenario = scenario;
	world->verbose = verbose;
	prng_seed(&world->rng, prng_mix(seed) ^ scenario->name[0]);
	world->clock.now = choose(1, 1000) * SEC;
	world->began = now();
	scenario->choose(&world->rng, &world->set);
	run();
	if (!world->failed && (loop_live() || sockets_live()))
		world_fail("left behind: %zu events, %zu sockets", loop_live(), sockets_live());
	world_log("%llu events, digest %016llx", (unsigned long long)world->clock.fired,
		  (unsigned long long)world->digest);
	conns_free();
	sockets_free();
	loop_free();
	clock_free(&world->clock);
	if (!world->failed && memory_live() != before + 1)
		world_fail("left behind: %lld pieces of memory",
			   (long long)(memory_live() - before - 1));
	bool ok = !world->failed;
	memcpy(ret_text, world->failed_text, sizeof(world->failed_text));
	*ret_digest = world->digest;
	free(world);
	world = NULL;
	return ok;
}
