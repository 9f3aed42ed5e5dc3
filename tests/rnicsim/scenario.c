/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/world.h"

static uint32_t some(struct prng *rng, uint32_t most)
{
	return prng_chance(rng, 500) ? 0 : (uint32_t)prng_size(rng, 1, most);
}

static uint32_t message_size(struct prng *rng)
{
	if (prng_chance(rng, 500))
		return (uint32_t)prng_size(rng, 64, 4096);
	return (uint32_t)prng_size(rng, 4096, prng_chance(rng, 200) ? 262144 : 65536);
}

/* Packets are late and change places, nothing is lost: no queue pair may fail by itself. */
static void calm(struct prng *rng, struct settings *set)
{
	*set = (struct settings){
		.delay_max = (uint32_t)prng_size(rng, 1, 5000),
		.jitter_max = (uint32_t)prng_size(rng, 0, 2000),
		.duplicates = some(rng, 50),
		.late_duplicates = some(rng, 20),
		.reordering = some(rng, 100),
		.marks = some(rng, 200),
		.latency = some(rng, 200),
		.receive_buffer_kib = 32 << 10,
		.joins = some(rng, 1000),
		.old_kernel = prng_chance(rng, 300),
		.conns = (uint32_t)prng_range(rng, 1, 5),
		.steps = (uint32_t)prng_size(rng, 20, 500),
		.pace = (uint32_t)prng_size(rng, 10, 20000),
		.in_callbacks = some(rng, 300),
		.reads = prng_chance(rng, 250) ? 0 : (uint32_t)prng_range(rng, 1, 600),
		.invalidations = prng_chance(rng, 500) ? 0 : (uint32_t)prng_range(rng, 1, 800),
		.max_message = message_size(rng),
		.retry_ms_min = 400,
		.retry_ms_max = 4000,
		.heals = true,
	};
}

/* The user of an end may end it. */
static void ends(struct prng *rng, struct settings *set)
{
	calm(rng, set);
	set->ends = (uint32_t)prng_size(rng, 5, 100);
	set->in_callbacks = (uint32_t)prng_size(rng, 1, 600);
}

/* Users end queue pairs in callbacks, also of others, when packets for several have come. */
static void callbacks(struct prng *rng, struct settings *set)
{
	calm(rng, set);
	set->conns = (uint32_t)prng_range(rng, 4, 8);
	set->latency = (uint32_t)prng_range(rng, 0, 2000);
	set->pace = (uint32_t)prng_range(rng, 10, 1000);
	set->max_message = (uint32_t)prng_size(rng, 64, 2048);
	set->in_callbacks = (uint32_t)prng_range(rng, 100, 700);
	set->ends = (uint32_t)prng_range(rng, 1, 10);
	set->loss = some(rng, 20);
}

/* Packets get lost, damaged, or find no room, but not so many that a peer could be given up. */
static void lossy(struct prng *rng, struct settings *set)
{
	calm(rng, set);
	set->loss = some(rng, 30);
	set->bursts = some(rng, 5);
	set->damage = some(rng, 20);
	set->socket_full = some(rng, 100);
	set->retry_ms_min = 1500;
}

/* Requests that the peer must refuse, or this side. */
static void violations(struct prng *rng, struct settings *set)
{
	calm(rng, set);
	set->loss = some(rng, 10);
	set->violations = (uint32_t)prng_size(rng, 5, 200);
	set->token_deaths = some(rng, 500);
}

/* Networks that die, hosts that stand still, sends that fail: queue pairs may fail for that. */
static void dead(struct prng *rng, struct settings *set)
{
	lossy(rng, set);
	set->outages = some(rng, 50);
	set->one_way_outages = some(rng, 50);
	set->outage_max = (uint32_t)prng_size(rng, 1000, 5000000);
	set->freezes = some(rng, 30);
	set->freeze_max = (uint32_t)prng_size(rng, 1000, 2000000);
	set->send_errors = some(rng, 50);
	set->rate_kib_ms = some(rng, 1000);
	set->queue_kib = (uint32_t)prng_size(rng, 8, 1024);
	set->receive_buffer_kib = (uint32_t)prng_size(rng, 128, 32 << 10);
	set->retry_ms_min = 50;
	set->heals = prng_chance(rng, 700);
}

static void all(struct prng *rng, struct settings *set)
{
	dead(rng, set);
	set->ends = some(rng, 50);
	set->violations = some(rng, 50);
	set->token_deaths = some(rng, 300);
	set->no_memory = some(rng, 20);
}

const struct scenario scenarios[] = {
	{ "calm", "packets are late, doubled and change places", calm },
	{ "ends", "users end queue pairs", ends },
	{ "callbacks", "users end queue pairs in callbacks", callbacks },
	{ "lossy", "packets get lost and damaged", lossy },
	{ "violations", "requests that must be refused", violations },
	{ "dead", "networks die, hosts stand still, sends fail", dead },
	{ "all", "everything at once, and no memory now and then", all },
	{ 0 },
};
