/* SPDX-License-Identifier: MIT */
/* Link groups: first contacts at the same time, roles, memory, declines, RMBs that come and go. */
#include <string.h>
#include <sys/socket.h>

#include "tests/sim/forge.h"
#include "tests/sim/scenario.h"

static void world_of_two(struct world *w, struct smcr_config config[2])
{
	two_hosts(w, config, (unsigned int)prng_range(&w->rng, 1, 2),
		  (unsigned int)prng_range(&w->rng, 1, 2));
}

/** Many connections while the first contact is still going on. */
static void run_burst(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	world_of_two(w, config);
	uint64_t n = prng_range(&w->rng, 10, 50), within = prng_size(&w->rng, 0, 300 * MSEC);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 20000);
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_range(&w->rng, 0, within));
	}
	run_connections(w);
	if (!w->failed && !few_groups(w, n) && config[0].lgr_idle_timeout > 100 * SEC &&
	    config[1].lgr_idle_timeout > 100 * SEC)
		world_fail(w, "RV-15", "%llu connections at once made %llu link groups",
			   (unsigned long long)n,
			   (unsigned long long)obs_seen(w->observer)->count[SEEN_GROUP]);
	run_down(w);
}

static void check_waited(void *object, uint64_t arg)
{
	const struct pair *pair = object;
	(void)arg;
	if (!pair->side[SERVER].established)
		world_fail(pair->world, "RV-15", "connection %u has waited for four seconds",
			   pair->number);
}

/** The first contact takes more than four seconds, because its TCP connection is slow. Other
 *  connections do not wait so long for it, and use SMC-R all the same (A68). */
static void run_stall(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	world_of_two(w, config);
	struct route route = route_from(w, 0);
	any_clean_plans(w, plan, 20000);
	struct pair *slow = pair_open(w, &route, plan, 0);
	uint64_t way = prng_range(&w->rng, 4200 * MSEC, 4600 * MSEC);
	slow->tcp.pipe[CLIENT].delay = (uint32_t)way;
	uint64_t n = prng_range(&w->rng, 1, 20);
	for (uint64_t i = 0; i < n; i++) {
		/* between the arrival of the slow Proposal and the end of its first contact */
		uint64_t when = prng_range(&w->rng, way, 2 * way);
		any_clean_plans(w, plan, 20000);
		struct pair *pair = pair_open(w, &route, plan, when);
		clock_at(&w->clock, when + 4 * SEC, check_waited, pair, 0);
	}
	run_connections(w);
	run_down(w);
}

/** Servers and clients on every host: a group for each direction, three hosts. */
static void run_roles(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	world_of_two(w, config);
	config[0].dialect = SMCR_DIALECT_AUTO;
	struct host *third = host_new(w, &config[0]);
	host_add_device(third, fabric_device_new(w, third, 1, SMCR_MTU_4096));
	uint64_t n = prng_range(&w->rng, 6, 20);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 30000);
		size_t from = prng_range(&w->rng, 0, 2),
		       to = (from + prng_range(&w->rng, 1, 2)) % 3;
		struct route route = {
			.host = { w->hosts[from], w->hosts[to] },
			.lan = { 1, 1 },
			.family = AF_INET,
		};
		pair_open(w, &route, plan, prng_size(&w->rng, 0, 2 * SEC));
	}
	run_connections(w);
	run_down(w);
}

/** Too little memory for all: some connections are declined, none suffers. */
static void run_memory(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	w->set.short_memory = true;
	for (int i = 0; i < 2; i++) {
		config[i].memory_budget = prng_size(&w->rng, 16384, 4 << 20);
		config[i].sndbuf = 16384;
	}
	world_of_two(w, config);
	uint64_t n = prng_range(&w->rng, 5, 40);
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 60000);
		struct route route = route_from(w, prng_chance(&w->rng, 200));
		pair_open(w, &route, plan, prng_size(&w->rng, 0, 3 * SEC));
	}
	run_connections(w);
	run_down(w);
}

/** More connections than one group's 255 RMBs of one element can hold: the server makes another
 * group (LG-13, LG-14). */
static void run_limits(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	uint32_t smc = 0;
	any_settings(w);
	any_configs(w, config);
	w->set.short_memory = true;
	for (int i = 0; i < 2; i++) {
		config[i].bsize = config[i].bsize_min = 0;
		config[i].sndbuf = 16384;
		config[i].elements_per_rmb = 255;
	}
	config[prng_range(&w->rng, 0, 1)].elements_per_rmb = 1;
	two_hosts(w, config, 1, 1);
	for (int i = 0; i < 270; i++) {
		memset(plan, 0, sizeof(plan));
		for (int s = 0; s < 2; s++) {
			plan[s] = (struct plan){ .tx_total = 10,
						 .read_start = 90 * SEC,
						 .rcvbuf = 1 };
			plan[s].write_min = plan[s].write_max = 10;
			plan[s].read_min = plan[s].read_max = 10;
		}
		struct route route = route_from(w, 0);
		/* Spread over 30 s: RMBs are announced one after another, and no client should wait
		 * too long for its Accept. */
		pair_open(w, &route, plan, prng_range(&w->rng, 0, 30 * SEC));
	}
	run_connections(w);
	for (size_t i = 0; i < w->num_pairs; i++)
		smc += w->pairs[i]->side[SERVER].established;
	if (!w->failed && smc != w->num_pairs)
		world_fail(w, "LG-14", "%u connections on SMC-R of %zu", smc, w->num_pairs);
	run_down(w);
}

/** Hosts that have no LAN in common, no device, or none that fits: plain TCP, whole and at once. */
static void run_decline(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	for (unsigned int i = 0; i < 2; i++) {
		struct host *host = host_new(w, &config[i]);
		/* The TCP connections are on LAN 1. */
		uint64_t devices = prng_range(&w->rng, 0, 2);
		for (uint64_t k = 0; k < devices; k++)
			host_add_device(host,
					fabric_device_new(w, host,
							  prng_chance(&w->rng, 500) ? 1 : 2 + i,
							  SMCR_MTU_1024));
	}
	uint64_t n = prng_range(&w->rng, 1, 8);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 50000);
		struct route route = route_from(w, prng_range(&w->rng, 0, 1));
		if (prng_chance(&w->rng, 200)) {
			/* Routed: the ends are in different subnets. */
			route.lan[SERVER] = 7;
		}
		pair_open(w, &route, plan, prng_size(&w->rng, 0, SEC));
	}
	run_connections(w);
	for (size_t i = 0; i < w->num_pairs && !w->failed; i++) {
		const struct side *side = w->pairs[i]->side;
		bool lan[2] = { false, false };
		for (size_t k = 0; k < w->fabric->num_devices; k++) {
			const struct device *device = w->fabric->devices[k];
			for (int s = 0; s < 2; s++)
				lan[s] |= device->host == side[s].host && device->info.gid[13] == 1;
		}
		if (side[0].established && !(lan[0] && lan[1]))
			world_fail(w, "RV-3", "connection %zu: SMC-R without a common LAN", i + 1);
	}
	run_down(w);
}

static void probe_event(void *object, uint64_t arg)
{
	(void)arg;
	host_test_links(object);
}

/** TEST LINK is free at any time. */
static void probe_links(struct world *w, uint64_t within)
{
	for (uint64_t n = prng_range(&w->rng, 0, 8); n; n--)
		clock_at(&w->clock, prng_range(&w->rng, 0, within), probe_event,
			 w->hosts[prng_range(&w->rng, 0, 1)], 0);
}

/** RMBs of many sizes come and go on both sides, under traffic. */
static void run_churn(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	for (int i = 0; i < 2; i++) {
		config[i].bsize = 3;
		config[i].bsize_min = 0;
		config[i].elements_per_rmb = (uint8_t)prng_range(&w->rng, 1, 3);
		config[i].rmb_idle_timeout = prng_size(&w->rng, 1, 2000) * MSEC;
		config[i].lgr_idle_timeout = 600 * SEC;
	}
	two_hosts(w, config, 2, 2);
	uint64_t n = prng_range(&w->rng, 10, 40), when = 0;
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 30000);
		for (int s = 0; s < 2; s++) {
			plan[s].read_start = 0;
			plan[s].rcvbuf = (uint32_t)prng_size(&w->rng, 1, 120000);
		}
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, when);
		when += prng_size(&w->rng, 0, 2 * SEC);
	}
	probe_links(w, when);
	run_connections(w);
	run_down(w);
}

/* ---- new devices: links are added under traffic ---- */

static void plug_event(void *object, uint64_t arg)
{
	struct device *device = object;
	(void)arg;
	device->present = true;
	host_add_device(device->host, device);
}

static void notice_event(void *object, uint64_t arg)
{
	struct device *device = object;
	(void)arg;
	if (device->present)
		forge_add_link_notice(device->world, device);
}

/** Devices appear while RMBs come and go: ADD LINK crosses the clients' RKEY exchanges. */
static void run_links(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	bool busy = prng_chance(&w->rng, 600);
	uint64_t within = busy ? 400 * MSEC : 6 * SEC;
	any_settings(w);
	any_configs(w, config);
	for (int i = 0; i < 2; i++) {
		config[i].elements_per_rmb = (uint8_t)prng_range(&w->rng, 1, 3);
		config[i].rmb_idle_timeout = prng_size(&w->rng, 1, busy ? 50 : 2000) * MSEC;
		config[i].lgr_idle_timeout = 600 * SEC;
		config[i].add_link_retry = prng_size(&w->rng, 1, 30) * SEC;
	}
	if (prng_chance(&w->rng, 800))
		two_hosts(w, config, 1, 1);
	else
		world_of_two(w, config);
	uint64_t late = prng_range(&w->rng, 1, 4);
	for (uint64_t i = 0; i < late; i++) {
		struct host *host = w->hosts[prng_chance(&w->rng, 300)];
		struct device *device = fabric_device_new(w, host, 1, SMCR_MTU_2048);
		device->present = false;
		clock_at(&w->clock, prng_range(&w->rng, 0, within / 2), plug_event, device, 0);
		for (uint64_t k = prng_range(&w->rng, 0, 5); k; k--)
			clock_at(&w->clock, prng_range(&w->rng, 0, within), notice_event, device,
				 0);
	}
	uint64_t n = prng_range(&w->rng, 10, 50);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, busy ? 1000 : 30000);
		if (busy)
			plan[CLIENT].read_start = plan[SERVER].read_start = 0;
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_range(&w->rng, 0, within));
	}
	probe_links(w, within);
	run_connections(w);
	run_down(w);
}

const struct scenario scenarios_group[] = {
	{ "burst", "10 to 50 connections during the first contact", run_burst, 1,
	  "RV-15 RV-13 RS-2 RS-3 RS-5 RS-6 RS-9", __FILE__ },
	{ "stall", "a first contact that takes long", run_stall, 1, "RV-15", __FILE__ },
	{ "roles", "servers and clients on three hosts", run_roles, 1, "PLG-3 PLG-4 LG-1",
	  __FILE__ },
	{ "memory", "too little memory for all", run_memory, 1, "GEN-4 LG-14 RMB-12 RKEY-9",
	  __FILE__ },
	{ "limits", "more connections than 255 RMBs hold", run_limits, 50, "LG-13", __FILE__ },
	{ "decline", "hosts without a LAN in common", run_decline, 1,
	  "GEN-4 RV-3 RV-14 ERR-1 ERR-2 ERR-3 ERR-14 CLC-15", __FILE__ },
	{ "churn", "RMBs of many sizes come and go", run_churn, 1,
	  "RKEY-1 RKEY-3 RKEY-5 RKEY-8 RKEY-11 RKEY-13 RKEY-16 SER-1 SER-2 SER-3 LLC-5 RS-3 "
	  "RS-4 TEST-1",
	  __FILE__ },
	{ "links", "devices come under traffic", run_links, 1,
	  "ADDL-1 ADDL-3 ADDL-4 ADDL-6 ADDL-7 ADDL-9 ADDL-10 ADDL-11 ADDL-12 LG-3 LG-4 LG-8 "
	  "SER-2 SER-4 RKEY-7 RKEY-12",
	  __FILE__ },
	{ 0 },
};
