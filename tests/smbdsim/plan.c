/* SPDX-License-Identifier: MIT */
/* What is configured, and what may happen in a run: drawn before it begins. */
#include "tests/smbdsim/run.h"

#define MS     1000u
#define SECOND 1000000u

static uint32_t credits(struct random *random)
{
	return (uint32_t)random_size(random, SMBD_MIN_CREDITS,
				     random_chance(random, 50) ? 2000 : 300);
}

static void plan_config(struct run *run, struct smbd_config *config)
{
	struct random *random = &run->random;
	*config = (struct smbd_config){
		.receive_credit_max = credits(random),
		.send_credit_target = credits(random),
		.max_send_size = (uint32_t)random_size(random, 128, 8136),
		.max_receive_size = (uint32_t)random_size(random, 128, 8192),
		.max_fragmented_size = (uint32_t)random_size(random, 131072, 300000),
		.max_read_write_size = 65536,
		/* an answer is there in time, however long the queues are */
		.keepalive_us = random_range(random, 60, 240) * SECOND,
		.answer_us = random_range(random, 20, 40) * SECOND,
	};
}

static void plan_side(struct side *side)
{
	struct run *run = side->run;
	struct random *random = &run->random;
	plan_config(run, &side->config);
	side->connected_at = run->now + random_size(random, 0, 2 * MS);
	side->send_room = (unsigned int)random_size(random, 1, 64);
	side->no_room = random_chance(random, 300) ? (unsigned int)random_range(random, 1, 500) : 0;
	side->gap_most = random_chance(random, 100) ? 200 * SECOND : random_size(random, 1, SECOND);
	side->actions = (unsigned int)random_size(random, 1, 24);
	side->answers = (unsigned int)random_size(random, 0, 12);
	side->hold_most = random_chance(random, 400) ? random_size(random, 1, 5 * SECOND) : 0;
	side->act_at = NEVER;
	for (size_t i = 0; i < TOKENS; i++)
		side->tokens[i] = (uint32_t)random_range(random, 1, UINT32_MAX);
}

static void plan_pair(struct run *run)
{
	struct random *random = &run->random;
	for (int i = 0; i < 2; i++)
		run->sides[i].speaks_at_once = random_chance(random, 300);
	if (random_chance(random, 300)) {
		run->may_lack = true;
		run->may_be_silent = true;
		for (int i = 0; i < 2; i++)
			run->sides[i].post_failures = (unsigned int)random_range(random, 1, 300);
	}
	if (random_chance(random, 200)) {
		for (int i = 0; i < 2; i++)
			run->sides[i].closes = (unsigned int)random_range(random, 0, 100);
	}
	run->link_fails_at =
		random_chance(random, 50) ? run->now + random_size(random, 1, SECOND) : NEVER;
}

static bool is_for_active_peer(enum breach breach)
{
	return breach == BREACH_NEGOTIATE_STATUS || breach == BREACH_NEGOTIATE_NO_GRANT ||
	       breach == BREACH_NEGOTIATE_SEND_SIZE;
}

static void plan_hostile(struct run *run)
{
	struct random *random = &run->random;
	struct hostile *hostile = run->hostile;
	run->link_fails_at = NEVER;
	hostile->breach = (enum breach)random_range(random, BREACH_NONE + 1, BREACHES - 1);
	run->hostile_index = is_for_active_peer(hostile->breach) || random_chance(random, 500);
	hostile->good = (unsigned int)random_size(random, 0, 40);
	hostile->act_at = NEVER;
	run->sides[!run->hostile_index].speaks_at_once = random_chance(random, 500);
}

void plan_run(struct run *run)
{
	struct random *random = &run->random;
	run->now = random_range(random, 0, 1000 * (uint64_t)SECOND);
	run->delay_most = random_size(random, 1, 100 * MS);
	for (unsigned int i = 0; i < 2; i++) {
		run->sides[i].run = run;
		run->sides[i].index = i;
		run->wires[i].lost_at = NEVER;
		plan_side(&run->sides[i]);
	}
	if (run->hostile)
		plan_hostile(run);
	else
		plan_pair(run);
}
