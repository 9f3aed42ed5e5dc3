/* SPDX-License-Identifier: MIT */
/*
 * Deadlines: a pairing heap, ordered by time, then by the order in which timers were started. The
 * heap is made of the timers themselves, so that starting one needs no memory and cannot fail.
 */
#include "daemon/smcr/internal.h"

static bool sooner(const struct smcr_timer *a, const struct smcr_timer *b)
{
	return a->deadline != b->deadline ? a->deadline < b->deadline : a->seq < b->seq;
}

/** Make one heap of two; either may be empty. The later root becomes the first child. */
static struct smcr_timer *merge(struct smcr_timer *a, struct smcr_timer *b)
{
	if (!a || !b)
		return a ? a : b;
	struct smcr_timer *root = sooner(a, b) ? a : b, *child = root == a ? b : a;
	child->prev = root;
	child->next = root->child;
	if (root->child)
		root->child->prev = child;
	root->child = child;
	return root;
}

/** A node that is to be a root of its own. @return what was behind it */
static struct smcr_timer *cut(struct smcr_timer *timer)
{
	struct smcr_timer *behind = timer ? timer->next : NULL;
	if (timer)
		timer->prev = timer->next = NULL;
	return behind;
}

/** One heap of a list of children: in pairs from the front, then all from the back. */
static struct smcr_timer *merge_all(struct smcr_timer *first)
{
	struct smcr_timer *pairs = NULL, *root = NULL;
	while (first) {
		struct smcr_timer *a = first, *b = cut(a);
		first = cut(b);
		struct smcr_timer *pair = merge(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	while (pairs) {
		struct smcr_timer *pair = pairs;
		pairs = cut(pair);
		root = merge(root, pair);
	}
	return root;
}

void smcr_timer_init(struct smcr_timer *timer, void (*fire)(struct smcr_engine *engine, void *arg),
		     void *arg)
{
	*timer = (struct smcr_timer){ .fire = fire, .arg = arg };
}

void smcr_timer_start(struct smcr_engine *engine, struct smcr_timer *timer, uint64_t delay)
{
	smcr_timer_stop(engine, timer);
	timer->deadline = delay < UINT64_MAX - engine->now ? engine->now + delay : UINT64_MAX - 1;
	timer->seq = engine->timer_seq++;
	timer->running = true;
	engine->timers = merge(engine->timers, timer);
	engine->num_timers++;
}

void smcr_timer_stop(struct smcr_engine *engine, struct smcr_timer *timer)
{
	if (!timer->running)
		return;
	struct smcr_timer *below = merge_all(timer->child), *before = timer->prev;
	if (timer->next)
		timer->next->prev = before;
	if (!before)
		engine->timers = NULL;
	else if (before->child == timer)
		before->child = timer->next;
	else
		before->next = timer->next;
	engine->timers = merge(engine->timers, below);
	engine->num_timers--;
	timer->child = timer->next = timer->prev = NULL;
	timer->running = false;
}

void smcr_engine_set_time(struct smcr_engine *engine, uint64_t now)
{
	if (now > engine->now)
		engine->now = now;
}

void smcr_engine_run(struct smcr_engine *engine, uint64_t now)
{
	smcr_engine_set_time(engine, now);
	while (engine->timers && engine->timers->deadline <= engine->now) {
		struct smcr_timer *timer = engine->timers;
		smcr_timer_stop(engine, timer);
		timer->fire(engine, timer->arg);
	}
}

uint64_t smcr_engine_next_deadline(const struct smcr_engine *engine)
{
	return engine->timers ? engine->timers->deadline : SMCR_NO_DEADLINE;
}
