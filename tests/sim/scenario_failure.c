/* SPDX-License-Identifier: MIT */
/* Failures of paths, ports, devices, daemons and host resources. Connections may be reset, but
 * nothing is corrupted, hangs, or is left behind. */
#include <string.h>

#include "tests/sim/scenario.h"

static void start(struct world *w, struct smcr_config config[2], unsigned int devices)
{
	any_settings(w);
	any_configs(w, config);
	w->set.failures = true;
	w->set.timeouts = true;
	for (int i = 0; i < 2; i++) {
		config[i].retry_ms = (uint32_t)prng_size(&w->rng, 50, 4000);
		config[i].elements_per_rmb = (uint8_t)prng_range(&w->rng, 1, 4);
		config[i].rmb_idle_timeout = prng_size(&w->rng, 1, 2000) * MSEC;
	}
	two_hosts(w, config, devices, (unsigned int)prng_range(&w->rng, 1, devices));
}

static void traffic(struct world *w, uint64_t n, uint64_t within)
{
	struct plan plan[2];
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 100000);
		struct route route = route_from(w, prng_chance(&w->rng, 200));
		pair_open(w, &route, plan, prng_size(&w->rng, 0, within));
	}
}

/* ---- paths ---- */

static void cut_event(void *object, uint64_t arg)
{
	struct fabric *fabric = object;
	fabric_cut(fabric, arg & 0xff, arg >> 8 & 0xff, arg >> 16 & 1);
}

/** Paths between devices are cut, some for good, some for a while. */
static void run_cut(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	uint64_t cuts = prng_range(&w->rng, 1, 3);
	for (uint64_t i = 0; i < cuts; i++) {
		uint64_t a = prng_range(&w->rng, 0, w->fabric->num_devices - 1);
		uint64_t b = prng_range(&w->rng, 0, w->fabric->num_devices - 1);
		uint64_t when = prng_size(&w->rng, 0, 4 * SEC);
		clock_at(&w->clock, when, cut_event, w->fabric, a | b << 8 | 1 << 16);
		if (prng_chance(&w->rng, 500))
			clock_at(&w->clock, when + prng_size(&w->rng, 1, 8 * SEC), cut_event,
				 w->fabric, a | b << 8);
	}
	run_connections(w);
	run_down(w);
}

/** A limit in bytes of data for packets, less than an RNIC with the largest packets sends. */
static uint32_t any_limit(struct world *w)
{
	return smcr_mtu_bytes((uint8_t)prng_range(&w->rng, SMCR_MTU_256, SMCR_MTU_2048));
}

/** Some or all paths between devices, one way or both, drop the largest packets of their devices.
 */
static void limit_paths(struct world *w)
{
	bool all = prng_chance(&w->rng, 500);
	unsigned int ways = (unsigned int)prng_range(&w->rng, 1, 3);
	uint32_t limit = any_limit(w);
	for (size_t a = 0; a < w->fabric->num_devices; a++)
		for (size_t b = 0; b < a; b++) {
			if (!all && prng_chance(&w->rng, 500))
				continue;
			if (ways & 1)
				fabric_limit(w->fabric, a, b, limit);
			if (ways & 2)
				fabric_limit(w->fabric, b, a, limit);
		}
}

/** This connection must have survived: on SMC-R if `smc`, else on SMC-R or TCP. */
static void check_unharmed(struct world *w, const struct pair *pair, bool smc)
{
	for (int s = 0; s < 2; s++) {
		const struct side *side = &pair->side[s];
		if (side->reset || (!side->established && (smc || !side->fallback)))
			world_fail(w, "PATH", "connection %u, %s: %s, though small packets pass",
				   pair->number, s ? "server" : "client",
				   side->reset ? "reset" : "not on SMC-R");
	}
}

/** Large packets vanish on the way: nobody is reset, and soon SMC-R is used all the same. */
static void run_black_hole(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	start(w, config, 2);
	limit_paths(w);
	uint64_t n = prng_range(&w->rng, 6, 10);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 300000);
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, i * 30 * SEC);
	}
	run_connections(w);
	/* Each of two RNICs may have to learn the limit for each version and in each direction;
	 * after five connections every one must be on SMC-R. */
	for (uint64_t i = 0; i < n && !w->failed; i++)
		check_unharmed(w, w->pairs[i], i >= 5);
	run_down(w);
}

/* ---- ports and devices ---- */

static void told_event(void *object, uint64_t arg)
{
	struct device *device = object;
	(void)arg;
	host_device_changed(device->host, device);
}

static void port_event(void *object, uint64_t arg)
{
	struct device *device = object;
	if (!device->present)
		return;
	device->port_up = arg;
	world_log(device->world, "fabric", "port of %s %s", device->info.name, arg ? "up" : "down");
	clock_in(&device->world->clock, prng_range(&device->world->rng, 0, 3000), told_event,
		 device, 0);
}

/** Ports go down and come back. */
static void run_flap(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	uint64_t flaps = prng_range(&w->rng, 1, 4);
	for (uint64_t i = 0; i < flaps; i++) {
		struct device *device =
			w->fabric->devices[prng_range(&w->rng, 0, w->fabric->num_devices - 1)];
		uint64_t when = prng_size(&w->rng, 0, 4 * SEC);
		clock_at(&w->clock, when, port_event, device, 0);
		if (prng_chance(&w->rng, 800))
			clock_at(&w->clock, when + prng_size(&w->rng, 1, 5 * SEC), port_event,
				 device, 1);
	}
	run_connections(w);
	run_down(w);
}

static void unplug_event(void *object, uint64_t arg)
{
	struct device *device = object;
	(void)arg;
	if (!device->present)
		return;
	fabric_device_unplug(device);
	clock_in(&device->world->clock, prng_range(&device->world->rng, 0, 3000), told_event,
		 device, 0);
}

static void replug_event(void *object, uint64_t arg)
{
	struct device *device = object;
	(void)arg;
	device->present = true;
	device->info.active = device->port_up;
	host_add_device(device->host, device);
}

/** Devices go away, some come back. */
static void run_unplug(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	size_t victim = prng_range(&w->rng, 0, w->fabric->num_devices - 1);
	struct device *device = w->fabric->devices[victim];
	uint64_t when = prng_size(&w->rng, 0, 3 * SEC);
	clock_at(&w->clock, when, unplug_event, device, 0);
	if (prng_chance(&w->rng, 500))
		clock_at(&w->clock, when + prng_range(&w->rng, 5000, 3 * SEC), replug_event, device,
			 0);
	run_connections(w);
	run_down(w);
}

static void fault_event(void *object, uint64_t arg)
{
	(void)arg;
	fabric_qp_fault(object);
}

/** QPs fail by themselves. */
static void run_qp_fault(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	uint64_t faults = prng_range(&w->rng, 1, 4);
	for (uint64_t i = 0; i < faults; i++)
		clock_at(&w->clock, prng_size(&w->rng, 0, 3 * SEC), fault_event, w->fabric, 0);
	run_connections(w);
	run_down(w);
}

/* ---- daemons ---- */

static void restart_event(void *object, uint64_t arg)
{
	(void)arg;
	host_restart(object);
}

/** A daemon dies without a word and comes back with another peer ID. */
static void run_restart(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	clock_at(&w->clock, prng_size(&w->rng, 0, 4 * SEC), restart_event,
		 w->hosts[prng_range(&w->rng, 0, 1)], 0);
	run_connections(w);
	run_down(w);
}

static void stop_event(void *object, uint64_t arg)
{
	(void)arg;
	host_shutdown(object);
}

/** Orderly stop of a daemon, or of both, under traffic. */
static void run_stop(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	uint64_t when = prng_size(&w->rng, 0, 3 * SEC), first = prng_range(&w->rng, 0, 1);
	clock_at(&w->clock, when, stop_event, w->hosts[first], 0);
	if (prng_chance(&w->rng, 300))
		clock_at(&w->clock, when + prng_size(&w->rng, 0, 10 * MSEC), stop_event,
			 w->hosts[!first], 0);
	run_connections(w);
	run_down(w);
}

/* ---- host resources ---- */

/** The host refuses operations now and then. */
static void run_refusal(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	w->set.op_fail_permille = (uint32_t)prng_size(&w->rng, 10, 500);
	traffic(w, prng_range(&w->rng, 2, 16), 5 * SEC);
	run_connections(w);
	run_down(w);
}

/** Connections lose what they need in the midst of the rendezvous. */
static void run_give_up(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	start(w, config, 2);
	w->set.failures = false;
	w->set.timeouts = false;
	uint64_t n = prng_range(&w->rng, 2, 10);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 30000);
		if (prng_chance(&w->rng, 600))
			plan[prng_range(&w->rng, 0, 1)].end = END_GIVE_UP;
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_size(&w->rng, 0, SEC));
	}
	run_connections(w);
	run_down(w);
}

/* ---- what breaks during the first contact ---- */

static void break_something(struct world *w, uint64_t when)
{
	struct device *device =
		w->fabric->devices[prng_range(&w->rng, 0, w->fabric->num_devices - 1)];
	switch (prng_range(&w->rng, 0, 2)) {
	case 0: {
		uint64_t other = prng_range(&w->rng, 0, w->fabric->num_devices - 1);
		clock_at(&w->clock, when, cut_event, w->fabric,
			 device->index | other << 8 | 1 << 16);
		break;
	}
	case 1: clock_at(&w->clock, when, port_event, device, 0); break;
	case 2: clock_at(&w->clock, when, unplug_event, device, 0); break;
	}
}

/** Paths, ports and devices fail while the first links are set up, on one side or on both. */
static void run_fc_loss(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	start(w, config, 2);
	w->set.wire_max = (uint32_t)prng_size(&w->rng, w->set.wire_min, 2000);
	w->set.tcp_max = (uint32_t)prng_size(&w->rng, w->set.tcp_min, 2000);
	uint64_t n = prng_range(&w->rng, 1, 3), moment = prng_size(&w->rng, 0, 30 * MSEC);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 30000);
		struct route route = route_from(w, 0);
		pair_open(w, &route, plan, prng_size(&w->rng, 0, 5 * MSEC));
	}
	uint64_t breaks = prng_range(&w->rng, 1, 3);
	if (prng_chance(&w->rng, 300)) {
		/* The switch dies: every port goes down. */
		for (size_t i = 0; i < w->fabric->num_devices; i++)
			clock_at(&w->clock, moment + prng_range(&w->rng, 0, 300), port_event,
				 w->fabric->devices[i], 0);
		breaks = 0;
	}
	for (uint64_t i = 0; i < breaks; i++)
		break_something(w, moment + prng_size(&w->rng, 0, 2 * MSEC));
	run_connections(w);
	run_down(w);
}

/* ---- peers that say nothing, or nonsense ---- */

static void freeze_event(void *object, uint64_t arg)
{
	host_freeze(object, arg);
}

/** A daemon is frozen for a while; its RNICs still acknowledge. */
static void run_silent(struct world *w)
{
	struct smcr_config config[2];
	start(w, config, 2);
	traffic(w, prng_range(&w->rng, 2, 12), 3 * SEC);
	uint64_t times = prng_range(&w->rng, 1, 3);
	for (uint64_t i = 0; i < times; i++)
		clock_at(&w->clock, prng_size(&w->rng, 0, 4 * SEC), freeze_event,
			 w->hosts[prng_range(&w->rng, 0, 1)], prng_size(&w->rng, MSEC, 60 * SEC));
	run_connections(w);
	run_down(w);
}

/** Messages are changed, lost and doubled on their way. Anything may come of that but a crash, a
 *  hang or a leak. */
static void run_mangled(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	start(w, config, 2);
	w->set.hostile = true;
	w->set.mangle_permille = (uint32_t)prng_size(&w->rng, 5, 400);
	uint64_t n = prng_range(&w->rng, 2, 16);
	for (uint64_t i = 0; i < n; i++) {
		any_plans(w, plan, 100000);
		for (int s = 0; s < 2; s++) {
			plan[s].end = prng_chance(&w->rng, 800) ? END_CLOSE_EARLY : END_ABORT;
			plan[s].end_bytes = prng_size(&w->rng, 0, 100000);
			plan[s].end_after = prng_size(&w->rng, 0, 10 * SEC);
		}
		struct route route = route_from(w, prng_chance(&w->rng, 300));
		pair_open(w, &route, plan, prng_size(&w->rng, 0, 3 * SEC));
	}
	run_connections(w);
	w->set.mangle_permille = 0;
	run_down(w);
}

const struct scenario scenarios_failure[] = {
	{ "cut", "paths are cut for a while or for good", run_cut, 1,
	  "GEN-5 ABORT-4 ABORT-5 CLOSE-4", __FILE__ },
	{ "black-hole", "large packets vanish on the way", run_black_hole, 1, "GEN-4", __FILE__ },
	{ "flap", "ports go down and up", run_flap, 1, "GEN-5 ABORT-5", __FILE__ },
	{ "unplug", "devices go away and come back", run_unplug, 1, "GEN-5 PEER-3 ABORT-5",
	  __FILE__ },
	{ "qp-fault", "queue pairs fail by themselves", run_qp_fault, 1, "GEN-5 ABORT-5",
	  __FILE__ },
	{ "restart", "a daemon dies and starts again", run_restart, 1, "PEER-4 PEER-5 TERM-2",
	  __FILE__ },
	{ "stop", "orderly stop under traffic", run_stop, 1, "TERM-1 DELL-9 DELL-10", __FILE__ },
	{ "refusal", "the host refuses operations", run_refusal, 1, "GEN-4 RV-14 RMB-12",
	  __FILE__ },
	{ "give-up", "resources go away during rendezvous", run_give_up, 1,
	  "ERR-3 ERR-4 ERR-5 ERR-6", __FILE__ },
	{ "fc-loss", "links fail while the first contact sets them up", run_fc_loss, 1,
	  "GEN-4 ERR-5 ERR-6 ERR-7 ERR-18 RV-14", __FILE__ },
	{ "silent", "a daemon falls silent for a while", run_silent, 1,
	  "ERR-10 ERR-15 CLOSE-4 ABORT-4", __FILE__ },
	{ "mangled", "messages are changed, lost and doubled", run_mangled, 1, "SEC-6 CDC-12",
	  __FILE__ },
	{ 0 },
};
