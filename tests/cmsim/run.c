/* SPDX-License-Identifier: MIT */
/* Plan of a run, and what has to be right in its end. */
#include "tests/cmsim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After the trouble: an attempt has ended by then, or a REP or DREQ was given up, and failed queue
 * pairs were noticed. */
#define SETTLE_TIME (400 * SECOND)
#define LEFT_TIME   (3 * SECOND) /* no message is lost any more */
#define LEAVE_TIME  (200 * SECOND)
#define EVENTS_MOST 2000000

static struct plan draw(uint64_t seed)
{
	static const unsigned int losses[] = { 0, 10, 100, 200, 500 };
	static const uint64_t lazy[] = { 0, 0, 3000, 2000000 };
	static const unsigned int repeats[] = { 0, 20, 200 };
	static const uint64_t delays[][2] = {
		{ 50, 200 }, { 1000, 50000 }, { 10, 2000000 }, { 10, 4000000 }, { 200000, 300000 }
	};
	struct random r = stream(seed, 1);
	struct plan plan = { .hosts = 2 + (int)random_below(&r, MAX_HOSTS - 1) };
	plan.connects = 1 + random_below(&r, chance(&r, 200) ? 60 : 15);
	plan.trouble = between(&r, 1, 150) * SECOND;
	plan.quiet = chance(&r, 500);
	plan.loss = losses[random_below(&r, plan.quiet ? 4 : 5)];
	plan.repeat = repeats[random_below(&r, 3)];
	const uint64_t *delay = delays[random_below(&r, 5)];
	plan.delay_least = delay[0];
	plan.delay_most = delay[1];
	if (!plan.quiet) {
		plan.restarts = random_below(&r, 4);
		plan.cuts = random_below(&r, 4);
	}
	plan.fail_qps = chance(&r, 200);
	plan.mute = plan.quiet && chance(&r, 500);
	plan.lazy = lazy[random_below(&r, 4)];
	/* A message more in a busy event loop changes the times of others. */
	if (!plan.lazy && chance(&r, 600)) {
		plan.flood = chance(&r, 300);
		plan.attacks = 20 + random_below(&r, plan.flood ? 500 : 200);
	}
	return plan;
}

/* ---- things that happen */

static void restart(struct world *w, void *arg, uint64_t value)
{
	struct host *host = arg;
	if (!w->calm)
		host_restart(host, value);
}

/* The way between two hosts, or one direction of it, is cut. */
static void cut(struct world *w, void *arg, uint64_t us)
{
	struct host *host = arg;
	int other = (int)(us % (uint64_t)w->plan.hosts);
	w->cut_until[host->number][other] = w->now + us;
	if (us % 3)
		w->cut_until[other][host->number] = w->now + us;
	say(w, "host %d and host %d are cut off for %.3f s", host->number, other, (double)us / 1e6);
}

static void calm_down(struct world *w, void *arg, uint64_t value)
{
	(void)arg;
	(void)value;
	say(w, "the trouble is over");
	w->calm = true;
}

static struct host *any_host(struct world *w)
{
	return &w->hosts[random_below(&w->planned, (uint32_t)w->plan.hosts)];
}

static void prepare(struct world *w)
{
	const struct plan *plan = &w->plan;
	struct random *r = &w->planned;
	for (unsigned int i = 0; i < plan->connects; i++)
		after(w, between(r, 0, plan->trouble), user_connect, NULL, i);
	for (unsigned int i = 0; i < plan->restarts; i++)
		after(w, between(r, 0, plan->trouble), restart, any_host(w), chance(r, 300));
	for (unsigned int i = 0; i < plan->cuts; i++)
		after(w, between(r, 0, plan->trouble), cut, any_host(w),
		      between(r, SECOND, 120 * SECOND));
	after(w, plan->trouble, calm_down, NULL, 0);
	if (!w->attacked)
		return;
	uint64_t burst = 0;
	for (unsigned int i = 0; i < plan->attacks; i++) {
		if (!plan->flood || i % 100 == 0)
			burst = between(&w->attacker, 0, plan->trouble);
		after(w, burst + between(&w->attacker, 0, 1000), attack, NULL, 0);
	}
}

/* ---- what has to be right */

/* All attempts have come to something, and both sides know the same. */
static void check_agreement(struct world *w)
{
	static const uint64_t patience[] = {
		[USER_ASKED] = 100 * SECOND,   [USER_WAITING] = 160 * SECOND,
		[USER_CONNECTED] = UINT64_MAX, [USER_LEAVING] = 100 * SECOND,
		[USER_ENDED] = UINT64_MAX,     [USER_GONE] = UINT64_MAX,
	};
	for (size_t i = 0; i < w->num_users; i++) {
		struct user *u = w->users[i];
		if (w->now - u->since > patience[u->state])
			fail(w, "host %d, port %u: has waited in state %d for %" PRIu64 " s",
			     u->host->number, u->port, u->state, (w->now - u->since) / SECOND);
		if (u->state != USER_CONNECTED || !u->honest)
			continue;
		struct qp *mate = qp_mate(u->qp);
		if (!mate || !mate->user || mate->user->state != USER_CONNECTED)
			fail(w, "host %d, port %u%s: connected, and the peer is not",
			     u->host->number, u->port, u->active ? "" : " (asked)");
	}
}

/* CM-20: whoever the peer is now, and whatever it knows, it answers a DREQ. */
static void check_left(struct world *w)
{
	for (size_t i = 0; i < w->num_users; i++) {
		const struct user *u = w->users[i];
		if (u->honest && u->state == USER_LEAVING)
			fail(w, "CM-20: host %d, port %u: nobody answers the DREQ", u->host->number,
			     u->port);
	}
}

/* Nothing is left. */
static void check_end(struct world *w)
{
	for (size_t i = 0; i < w->num_users; i++) {
		if (w->users[i]->state != USER_GONE)
			fail(w, "host %d, port %u: no end, state %d", w->users[i]->host->number,
			     w->users[i]->port, w->users[i]->state);
	}
	for (int i = 0; i < w->plan.hosts; i++) {
		struct cm_machine_sizes sizes;
		struct cm_machine *machine = w->hosts[i].machine;
		cm_machine_get_sizes(machine, &sizes);
		if (sizes.conns || sizes.leaving || sizes.time_wait || sizes.peers)
			fail(w,
			     "host %d: %u connections, %u leaving, %u in time wait, %u peers left",
			     i, sizes.conns, sizes.leaving, sizes.time_wait, sizes.peers);
		if (cm_machine_deadline(machine) != UINT64_MAX)
			fail(w, "host %d still waits for something", i);
	}
}

static void until(struct world *w, uint64_t end)
{
	unsigned int count = 0;
	while (!w->failed && w->num_events > 0 && w->events[1].at <= end) {
		step(w);
		if (++count > EVENTS_MOST)
			fail(w, "the run has no end");
	}
	w->now = end;
}

static void play(struct world *w)
{
	for (int i = 0; i < w->plan.hosts; i++)
		host_start(w, i);
	prepare(w);
	until(w, w->plan.trouble + SETTLE_TIME);
	if (!w->failed)
		check_agreement(w);
	if (w->failed)
		return;
	users_leave(w);
	until(w, w->now + LEFT_TIME + 5 * w->plan.lazy);
	check_left(w);
	until(w, w->now + LEAVE_TIME);
	if (!w->failed)
		check_end(w);
}

static void world_free(struct world *w)
{
	net_forget(w);
	for (int i = 0; i < w->plan.hosts; i++)
		host_free(&w->hosts[i]);
	users_free(w);
	net_free(w);
	free(w->events);
	free(w);
}

static struct world *world_new(uint64_t seed, bool attacked, bool verbose)
{
	struct world *w = calloc(1, sizeof(*w));
	if (!w)
		abort();
	w->seed = seed;
	w->now = SECOND;
	w->verbose = verbose;
	w->attacked = attacked;
	w->plan = draw(seed);
	w->planned = stream(seed, 2);
	w->attacker = stream(seed, 3);
	for (uint64_t i = 0; i <= MAX_HOSTS; i++) {
		for (uint64_t j = 0; j <= MAX_HOSTS; j++)
			w->net[i][j] = stream(seed, 100 + 10 * i + j);
	}
	return w;
}

/* @return the digest of what honest users were told */
static uint64_t run_once(uint64_t seed, bool attacked, bool verbose, bool *ok,
			 uint64_t seen[NUM_SEEN])
{
	struct world *w = world_new(seed, attacked, verbose);
	play(w);
	uint64_t digest = w->digest;
	if (w->failed) {
		printf("# seed %" PRIu64 "%s: %s\n", seed, attacked ? " (attacked)" : "",
		       w->failure);
		*ok = false;
	}
	for (int i = 0; i < NUM_SEEN; i++)
		seen[i] += w->seen[i];
	world_free(w);
	return digest;
}

/* CM-30, CM-29: users are told the same, and at the same times, whether there is an attacker or
 * not.
 */
bool run(uint64_t seed, bool verbose, uint64_t seen[NUM_SEEN])
{
	bool ok = true;
	uint64_t digest = run_once(seed, false, verbose, &ok, seen);
	if (ok && draw(seed).attacks && run_once(seed, true, verbose, &ok, seen) != digest && ok) {
		printf("# seed %" PRIu64 ": CM-30: an attacker changes what others are told\n",
		       seed);
		ok = false;
	}
	return ok;
}
