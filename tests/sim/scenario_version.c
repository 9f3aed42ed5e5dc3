/* SPDX-License-Identifier: MIT */
/* Both versions of SMC-R between the same hosts: UEIDs come and go, groups become full. */
#include "tests/sim/scenario.h"

static const char *const names[] = { "A", "B", "C.D-3" };
#define NUM_NAMES (sizeof(names) / sizeof(names[0]))

static void toggle_event(void *object, uint64_t arg)
{
	host_toggle_ueid(object, names[arg]);
}

static void some_ueids(struct world *w, struct smcr_config *config)
{
	size_t first = prng_range(&w->rng, 0, NUM_NAMES - 1);
	config->num_ueids = 0;
	for (size_t i = 0; i < NUM_NAMES; i++) {
		if (prng_chance(&w->rng, 700))
			add_ueid(config, names[(first + i) % NUM_NAMES]);
	}
}

/** In some runs one side speaks one version only. */
static void some_versions(struct world *w, struct smcr_config config[2])
{
	static const enum smcr_dialect_policy dialects[] = { SMCR_DIALECT_AUTO,
							     SMCR_DIALECT_FORCE_DEPLOYED };
	for (int i = 0; i < 2; i++) {
		config[i].dialect = dialects[prng_chance(&w->rng, 300)];
		some_ueids(w, &config[i]);
		if (prng_chance(&w->rng, 100))
			config[i].versions = prng_chance(&w->rng, 500) ? SMCR_VERSIONS_1_ONLY
								       : SMCR_VERSIONS_2_ONLY;
	}
}

static void other_clients(struct world *w)
{
	struct prng *rng = &w->rng;
	w->set.proposals.others = prng_chance(rng, 700);
	w->set.proposals.blank = prng_chance(rng, 500);
	w->set.proposals.release_0 = prng_chance(rng, 300);
	w->set.proposals.max_conns = (uint8_t)prng_size(rng, 16, 255);
}

static void run_versions(struct world *w)
{
	struct smcr_config config[2];
	struct plan plan[2];
	any_settings(w);
	any_configs(w, config);
	some_versions(w, config);
	other_clients(w);
	two_hosts(w, config, (unsigned int)prng_range(&w->rng, 1, 3),
		  (unsigned int)prng_range(&w->rng, 1, 3));
	uint64_t n = prng_range(&w->rng, 10, 70), within = prng_size(&w->rng, MSEC, 5 * SEC);
	for (uint64_t i = 0; i < n; i++) {
		any_clean_plans(w, plan, 20000);
		struct route route = route_from(w, prng_chance(&w->rng, 200));
		pair_open(w, &route, plan, prng_range(&w->rng, 0, within));
	}
	for (uint64_t i = prng_chance(&w->rng, 500) ? prng_range(&w->rng, 1, 8) : 0; i; i--)
		clock_at(&w->clock, prng_range(&w->rng, 0, within), toggle_event,
			 w->hosts[prng_range(&w->rng, 0, 1)],
			 prng_range(&w->rng, 0, NUM_NAMES - 1));
	run_connections(w);
	run_down(w);
}

const struct scenario scenarios_version[] = {
	{ "versions", "both versions between two hosts, UEIDs come and go", run_versions, 4,
	  "PLG-3 RV-15 RS-2", __FILE__ },
	{ 0 },
};
