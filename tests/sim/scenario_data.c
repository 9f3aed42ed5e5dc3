/* SPDX-License-Identifier: MIT */
/* What programs do with their connections. */
#include <string.h>
#include <sys/socket.h>

#include "tests/sim/scenario.h"

static void world_of_two(struct world *w)
{
	struct smcr_config config[2];
	any_settings(w);
	any_configs(w, config);
	two_hosts(w, config, (unsigned int)prng_range(&w->rng, 1, 2),
		  (unsigned int)prng_range(&w->rng, 1, 2));
}

/** One connection, from first contact to the end of the group. */
static void run_single(struct world *w)
{
	struct plan plan[2];
	world_of_two(w);
	any_clean_plans(w, plan, 100000);
	struct route route = route_from(w, 0);
	pair_open(w, &route, plan, 0);
	run_connections(w);
	if (!w->failed && !w->pairs[0]->side[CLIENT].established)
		world_fail(w, "RV-2", "one connection, nothing in its way, and it fell back");
	run_down(w);
}

/** Several connections one after another and side by side, ending as they like. */
static void run_mix(struct world *w)
{
	struct plan plan[2];
	uint64_t when = 0, n = prng_size(&w->rng, 2, 24);
	world_of_two(w);
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 200000);
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, when);
		when += prng_size(&w->rng, 0, 2 * SEC);
	}
	run_connections(w);
	run_down(w);
}

/** Full windows: bulk data, slow readers, small elements, both directions. */
static void run_window(struct world *w)
{
	struct plan plan[2];
	struct smcr_config config[2];
	any_settings(w);
	any_configs(w, config);
	for (int i = 0; i < 2; i++) {
		config[i].bsize = config[i].bsize_min = (uint8_t)prng_range(&w->rng, 0, 1);
		config[i].send_depth = (uint32_t)prng_size(&w->rng, 16, 128);
	}
	two_hosts(w, config, 1, 1);
	uint64_t n = prng_range(&w->rng, 1, 3);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 2000000);
		for (int s = 0; s < 2; s++) {
			plan[s].rcvbuf = 1;
			if (!plan[s].rr_request)
				plan[s].write_min = plan[s].write_max;
		}
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_size(&w->rng, 0, SEC));
	}
	run_connections(w);
	run_down(w);
}

/** Urgent bytes, many of them, through windows of every size and at every place of the element. */
static void run_urgent(struct world *w)
{
	struct plan plan[2];
	struct smcr_config config[2];
	any_settings(w);
	any_configs(w, config);
	for (int i = 0; i < 2; i++) {
		config[i].bsize = config[i].bsize_min = (uint8_t)prng_range(&w->rng, 0, 1);
		config[i].sndbuf = 4096u << prng_range(&w->rng, 0, 6);
		config[i].send_depth = (uint32_t)prng_size(&w->rng, 16, 128);
	}
	two_hosts(w, config, (unsigned int)prng_range(&w->rng, 1, 2),
		  (unsigned int)prng_range(&w->rng, 1, 2));
	uint64_t n = prng_range(&w->rng, 1, 4);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 500000);
		for (int s = 0; s < 2; s++) {
			uint64_t total = plan[s].tx_total;
			plan[s].rcvbuf = 1;
			plan[s].urgent_gap =
				(uint32_t)prng_size(&w->rng, 1 + total / 300, 1 + total / 2);
		}
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_size(&w->rng, 0, SEC));
	}
	run_connections(w);
	run_down(w);
}

/** Both sides end a connection at nearly the same time, in every combination: close, half close,
 *  close with unread data, abort. */
static void run_close(struct world *w)
{
	struct plan plan[2];
	world_of_two(w);
	uint64_t n = prng_range(&w->rng, 2, 12);
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 3000);
		uint64_t moment = prng_size(&w->rng, 0, 20 * MSEC);
		for (int s = 0; s < 2; s++) {
			plan[s].read_start = prng_chance(&w->rng, 300) ? 50000 : 0;
			if (prng_chance(&w->rng, 500))
				plan[s].end_after = moment;
			if (prng_chance(&w->rng, 200)) {
				plan[s].tx_total = 0;
				plan[s].rr_request = plan[!s].rr_request = 0;
			}
		}
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_size(&w->rng, 0, SEC));
	}
	run_connections(w);
	run_down(w);
}

/** Programs that take minutes to close: timers end what the other side waits for. */
static void run_lazy(struct world *w)
{
	struct plan plan[2];
	world_of_two(w);
	w->set.timeouts = true;
	uint64_t n = prng_range(&w->rng, 2, 12);
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 3000);
		for (int s = 0; s < 2; s++)
			plan[s].linger =
				prng_chance(&w->rng, 500) ? prng_size(&w->rng, 1, 200 * SEC) : 0;
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_size(&w->rng, 0, SEC));
	}
	run_connections(w);
	run_down(w);
}

static void small_plan(struct world *w, struct plan plan[2])
{
	memset(plan, 0, 2 * sizeof(*plan));
	for (int s = 0; s < 2; s++) {
		plan[s] = (struct plan){
			.tx_total = prng_range(&w->rng, 0, 600),
			.write_min = 600,
			.write_max = 600,
			.read_min = 600,
			.read_max = 600,
			.end = END_CLOSE_DONE,
			.rcvbuf = 1,
		};
	}
}

/** A thousand connections, a few at a time, through one link group. */
static void run_soak(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	uint64_t when = 0;
	any_settings(w);
	any_configs(w, config);
	for (int i = 0; i < 2; i++) {
		config[i].bsize = config[i].bsize_min = 0;
		config[i].elements_per_rmb = (uint8_t)prng_range(&w->rng, 4, 64);
		config[i].lgr_idle_timeout = 600 * SEC;
	}
	two_hosts(w, config, 2, 2);
	for (int i = 0; i < 1000; i++) {
		small_plan(w, plan);
		struct route route = route_from(w, 0);
		route.family = AF_INET;
		pair_open(w, &route, plan, when);
		when += prng_size(&w->rng, 0, 100 * MSEC);
	}
	run_connections(w);
	if (!w->failed && obs_seen(w->observer)->count[SEEN_GROUP] != 1)
		world_fail(w, "GEN-12", "1000 connections took %llu link groups",
			   (unsigned long long)obs_seen(w->observer)->count[SEEN_GROUP]);
	if (!w->failed && (w->hosts[0]->qps_high > 2 || w->hosts[1]->qps_high > 2))
		world_fail(w, "GEN-12", "1000 connections took %u and %u QPs at a time",
			   w->hosts[0]->qps_high, w->hosts[1]->qps_high);
	run_down(w);
}

/** Up to a thousand connections open at the same time. They begin over two seconds: a server makes
 * a second group while 255 of them have not named their RMB yet (LG-13). */
static void run_many(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	uint64_t n = prng_size(&w->rng, 100, 1000);
	any_settings(w);
	any_configs(w, config);
	for (int i = 0; i < 2; i++) {
		config[i].bsize = config[i].bsize_min = 0;
		config[i].elements_per_rmb = (uint8_t)prng_range(&w->rng, 16, 255);
		config[i].sndbuf = 16384;
		config[i].lgr_idle_timeout = 600 * SEC;
	}
	two_hosts(w, config, 2, 2);
	for (uint64_t i = 0; i < n; i++) {
		small_plan(w, plan);
		for (int s = 0; s < 2; s++)
			plan[s].read_start = 5000000;
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_range(&w->rng, 0, 2 * SEC));
	}
	run_connections(w);
	if (!w->failed && !few_groups(w, n))
		world_fail(w, "GEN-12", "%llu connections took %llu link groups",
			   (unsigned long long)n,
			   (unsigned long long)obs_seen(w->observer)->count[SEEN_GROUP]);
	run_down(w);
}

const struct scenario scenarios_data[] = {
	{ "single", "one connection from first contact to the end of the group", run_single, 1,
	  "RV-1 RV-4 RV-6 RV-7 RV-8 RV-9 RV-11 RV-12 CLC-10 ADDL-2 ADDL-8 LLC-4 LG-16 DELL-8 "
	  "DELL-9",
	  __FILE__ },
	{ "mix", "connections of all kinds on one group", run_mix, 1,
	  "RS-1 RS-8 RS-9 RS-10 CDC-2 CDC-4 CDC-6 CDC-7 CDC-8 CDC-10 CDC-11 CDC-13 CDC-15 CDC-17 "
	  "DATA-7 RMB-7 RMB-10 GEN-3",
	  __FILE__ },
	{ "window", "bulk data through small windows, slow readers", run_window, 1,
	  "WIN-1 WIN-2 WIN-3 WIN-5 WIN-7 CDC-9 CDC-16 RMB-2", __FILE__ },
	{ "urgent", "urgent bytes keep their place and are told once", run_urgent, 1,
	  "URG-1 URG-2 URG-3 URG-5 URG-6 URG-7", __FILE__ },
	{ "close", "close, half close, unread data and abort against each other", run_close, 1,
	  "CLOSE-1 CLOSE-2 CLOSE-3 CLOSE-6 CLOSE-7 ABORT-1 ABORT-2 ABORT-3 ABORT-5 RMB-8",
	  __FILE__ },
	{ "lazy", "programs that take minutes to close", run_lazy, 1, "CLOSE-4 ABORT-4", __FILE__ },
	{ "soak", "1000 connections, a few at a time, leave nothing behind", run_soak, 50,
	  "GEN-12 RKEY-13", __FILE__ },
	{ "many", "up to 1000 connections at a time", run_many, 50, "GEN-12", __FILE__ },
	{ 0 },
};
