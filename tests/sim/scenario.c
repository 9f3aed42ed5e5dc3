/* SPDX-License-Identifier: MIT */
#include "tests/sim/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/smcr/eid.h"

void any_settings(struct world *w)
{
	struct prng *rng = &w->rng;
	struct settings *set = &w->set;
	static const uint32_t wire[][2] = { { 1, 10 }, { 2, 100 }, { 50, 2000 }, { 1000, 20000 } };
	static const uint32_t tcp[] = { 50, 500, 20000, 100000 };
	size_t speed = prng_range(rng, 0, 3);
	*set = (struct settings){
		.wire_min = wire[speed][0],
		.wire_max = wire[speed][1],
		.ack_max = (uint32_t)prng_size(rng, 1, wire[speed][1]),
		.cq_max = (uint32_t)prng_size(rng, 0, 2000),
		.recv_max = (uint32_t)prng_size(rng, 0, 2000),
		.rnr_permille = prng_chance(rng, 300) ? 30 : 0,
		.tcp_min = 10,
		.tcp_max = tcp[prng_range(rng, 0, 3)],
		.tcp_split_permille = (uint32_t)prng_range(rng, 0, 900),
		.wake_max = (uint32_t)prng_size(rng, 0, 5000),
		.timer_late_max = (uint32_t)prng_size(rng, 0, 2000),
		.stale_permille = 100,
		.time_limit = 1200 * SEC,
	};
}

static void any_dialects(struct world *w, struct smcr_config config[2])
{
	static const enum smcr_dialect_policy policies[][2] = {
		{ SMCR_DIALECT_AUTO, SMCR_DIALECT_AUTO },
		{ SMCR_DIALECT_AUTO, SMCR_DIALECT_FORCE_RFC },
		{ SMCR_DIALECT_FORCE_RFC, SMCR_DIALECT_AUTO },
		{ SMCR_DIALECT_FORCE_RFC, SMCR_DIALECT_FORCE_RFC },
		{ SMCR_DIALECT_AUTO, SMCR_DIALECT_FORCE_DEPLOYED },
		{ SMCR_DIALECT_FORCE_DEPLOYED, SMCR_DIALECT_FORCE_DEPLOYED },
	};
	size_t i = prng_chance(&w->rng, 400) ? 0 : prng_range(&w->rng, 0, 5);
	config[0].dialect = policies[i][0];
	config[1].dialect = policies[i][1];
}

void add_ueid(struct smcr_config *config, const char *name)
{
	if (smcr_ueid_parse(name, config->ueids[config->num_ueids++]))
		abort();
}

void both_versions(struct smcr_config config[2])
{
	for (int i = 0; i < 2; i++) {
		add_ueid(&config[i], "SIM");
		if (config[i].dialect == SMCR_DIALECT_FORCE_RFC)
			config[i].dialect = SMCR_DIALECT_AUTO;
	}
}

static void any_versions(const struct world *w, struct smcr_config config[2])
{
	if (w->seed % 3 == 2)
		both_versions(config);
}

bool few_groups(const struct world *w, uint64_t conns)
{
	const uint64_t *count = obs_seen(w->observer)->count;
	return count[SEEN_GROUP] && count[SEEN_VERSION_1] <= 1 &&
	       count[SEEN_VERSION_2] <= 1 + conns / UINT8_MAX;
}

void any_configs(struct world *w, struct smcr_config config[2])
{
	struct prng *rng = &w->rng;
	memset(config, 0, 2 * sizeof(*config));
	any_dialects(w, config);
	for (int i = 0; i < 2; i++) {
		struct smcr_config *c = &config[i];
		c->max_links = (uint8_t)prng_range(rng, 2, 8);
		c->bsize = (uint8_t)prng_size(rng, 0, 3);
		c->bsize_min = (uint8_t)prng_range(rng, 0, c->bsize);
		c->sndbuf = prng_chance(rng, 500) ? 0 : 4096u << prng_range(rng, 0, 6);
		c->elements_per_rmb = (uint8_t)prng_size(rng, 1, 16);
		c->send_depth = (uint32_t)prng_size(rng, 16, 1024);
		c->lgr_idle_timeout = prng_size(rng, 1, 600) * SEC;
		c->rmb_idle_timeout = prng_size(rng, 1, 60000) * MSEC;
	}
	any_versions(w, config);
}

void two_hosts(struct world *w, const struct smcr_config config[2], unsigned int devices0,
	       unsigned int devices1)
{
	const unsigned int devices[2] = { devices0, devices1 };
	for (size_t i = 0; i < 2; i++) {
		struct host *host = host_new(w, &config[i]);
		for (unsigned int k = 0; k < devices[i]; k++)
			host_add_device(
				host,
				fabric_device_new(w, host, 1, (uint8_t)prng_range(&w->rng, 1, 5)));
	}
}

struct route route_from(struct world *w, size_t from)
{
	return (struct route){
		.host = { w->hosts[from], w->hosts[!from] },
		.lan = { 1, 1 },
		.family = prng_chance(&w->rng, 700) ? AF_INET : AF_INET6,
	};
}

/* ---- plans ---- */

/** How one side reads and writes. Totals and ends are decided for both sides together. */
static void any_manner(struct world *w, struct plan *plan, uint64_t bytes)
{
	struct prng *rng = &w->rng;
	plan->write_max = (uint32_t)prng_size(rng, 1, 1 << 20);
	plan->write_min = prng_chance(rng, 500) ? plan->write_max
						: (uint32_t)prng_size(rng, 1, plan->write_max);
	plan->read_max = (uint32_t)prng_size(rng, 1, 1 << 20);
	plan->read_min = prng_chance(rng, 500) ? plan->read_max
					       : (uint32_t)prng_size(rng, 1, plan->read_max);
	plan->write_pause = prng_chance(rng, 300) ? (uint32_t)prng_size(rng, 1, 20000) : 0;
	plan->read_pause = prng_chance(rng, 300) ? (uint32_t)prng_size(rng, 1, 20000) : 0;
	plan->read_start = prng_chance(rng, 200) ? (uint32_t)prng_size(rng, 1, 2000000) : 0;
	plan->rcvbuf = prng_chance(rng, 500) ? 0 : (uint32_t)prng_size(rng, 1, 1 << 20);
	plan->tx_total = prng_chance(rng, 150) ? 0 : prng_size(rng, 1, bytes);
}

/** Keep the number of calls that a transfer takes within reason. */
static void limit_calls(struct plan *from, const struct plan *to)
{
	uint64_t step = from->write_max < to->read_max ? from->write_max : to->read_max;
	if (from->tx_total > 300 * step)
		from->tx_total = 300 * step;
}

static void request_response(struct world *w, struct plan plan[2])
{
	struct prng *rng = &w->rng;
	uint64_t rounds = prng_size(rng, 1, 100);
	uint32_t request = (uint32_t)prng_size(rng, 1, 20000);
	uint32_t response = (uint32_t)prng_size(rng, 1, 20000);
	for (int s = 0; s < 2; s++) {
		plan[s].rr_request = request;
		plan[s].rr_response = response;
		plan[s].write_min = plan[s].write_max = 1 << 20;
		plan[s].read_min = plan[s].read_max = 1 << 20;
		plan[s].read_start = plan[s].read_pause = plan[s].write_pause = 0;
	}
	plan[CLIENT].tx_total = rounds * request;
	plan[SERVER].tx_total = rounds * response;
}

void any_clean_plans(struct world *w, struct plan plan[2], uint64_t bytes)
{
	struct prng *rng = &w->rng;
	static const enum plan_end ends[][2] = {
		{ END_CLOSE_DONE, END_CLOSE_DONE }, { END_CLOSE_DONE, END_CLOSE_EOF },
		{ END_CLOSE_EOF, END_CLOSE_DONE },  { END_SHUTDOWN, END_SHUTDOWN },
		{ END_SHUTDOWN, END_CLOSE_EOF },    { END_CLOSE_EOF, END_SHUTDOWN },
		{ END_SHUTDOWN, END_CLOSE_DONE },   { END_CLOSE_DONE, END_SHUTDOWN },
	};
	memset(plan, 0, 2 * sizeof(*plan));
	for (int s = 0; s < 2; s++)
		any_manner(w, &plan[s], bytes);
	limit_calls(&plan[CLIENT], &plan[SERVER]);
	limit_calls(&plan[SERVER], &plan[CLIENT]);
	if (prng_chance(rng, 250))
		request_response(w, plan);
	size_t i = prng_range(rng, 0, sizeof(ends) / sizeof(ends[0]) - 1);
	plan[CLIENT].end = ends[i][CLIENT];
	plan[SERVER].end = ends[i][SERVER];
	if (prng_chance(rng, 100)) {
		/* Write everything and close, without waiting for anything. */
		int s = (int)prng_range(rng, 0, 1);
		plan[s].end = END_CLOSE_SENT;
		plan[!s].tx_total = 0;
		plan[s].rr_request = plan[!s].rr_request = 0;
	}
}

void any_plans(struct world *w, struct plan plan[2], uint64_t bytes)
{
	struct prng *rng = &w->rng;
	any_clean_plans(w, plan, bytes);
	for (int s = 0; s < 2; s++) {
		if (!prng_chance(rng, 300))
			continue;
		plan[s].end = prng_chance(rng, 500) ? END_CLOSE_EARLY : END_ABORT;
		plan[s].end_bytes = prng_size(rng, 0, 2 * bytes);
		plan[s].end_after = prng_size(rng, 0, 5 * SEC);
	}
	if (prng_chance(rng, 50))
		plan[prng_range(rng, 0, 1)].end = END_CLOSE_SENT;
}

/* ---- running ---- */

bool all_over(struct world *w)
{
	return !w->sides_open;
}

static void report_open(struct world *w)
{
	static const char *const modes[] = { "not started", "in rendezvous", "on SMC-R", "on TCP",
					     "over" };
	char text[400] = "";
	size_t n = 0;
	for (size_t i = 0; i < w->num_pairs && n < sizeof(text) - 100; i++) {
		for (int s = 0; s < 2 && n < sizeof(text) - 100; s++) {
			const struct side *side = &w->pairs[i]->side[s];
			struct smcr_conn_view view = { 0 };
			if (side->mode == SIDE_OVER)
				continue;
			if (side->conn)
				smcr_conn_get_view(side->conn, &view);
			n += (size_t)snprintf(
				text + n, sizeof(text) - n,
				"; %zu %s %s%s state %d, %llu/%llu written, %llu read", i + 1,
				s == CLIENT ? "client" : "server", modes[side->mode],
				side->closed ? ", closed" : "", view.state,
				(unsigned long long)side->committed,
				(unsigned long long)side->plan.tx_total,
				(unsigned long long)side->consumed);
		}
	}
	world_fail(w, "END", "connections do not end%s", text);
}

void run_connections(struct world *w)
{
	if (!world_run(w, w->clock.now + w->set.time_limit, all_over) && !w->failed)
		report_open(w);
}

static bool all_idle(struct world *w)
{
	for (size_t i = 0; i < w->num_hosts; i++) {
		struct smcr_engine_view view;
		smcr_engine_get_view(w->hosts[i]->engine, &view);
		if (!smcr_engine_idle(w->hosts[i]->engine) || view.num_timers)
			return false;
	}
	return true;
}

/** Wait until no exchange is under way; that must not take longer than the messages need. */
static void become_quiet(struct world *w)
{
	char text[200] = "";
	for (int i = 0; i < 50 && !w->failed; i++) {
		world_run(w, w->clock.now + 200 * MSEC, NULL);
		if (obs_quiet(w->observer, text, sizeof(text)))
			return;
	}
	world_fail(w, "LLC-4", "%s", text);
}

void run_down(struct world *w)
{
	if (w->failed)
		return;
	become_quiet(w);
	uint64_t way = prng_range(&w->rng, 0, 3);
	for (size_t i = 0; i < w->num_hosts && !w->failed && way < 2; i++) {
		/* Stop the first host or both in good order, or let the groups become idle. */
		if (i == 0 || way == 1)
			host_shutdown(w->hosts[i]);
	}
	world_run(w, w->clock.now + 2000 * SEC, all_idle);
	for (size_t i = 0; i < w->num_hosts; i++)
		host_check_empty(w->hosts[i], way < 2 ? "after an orderly stop" : "after idleness");
}
