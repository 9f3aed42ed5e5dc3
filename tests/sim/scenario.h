/* SPDX-License-Identifier: MIT */
/**
 * @file scenario.h
 * Families of runs. Each scenario gets a world that has nothing but a seed, and decides everything
 * else.
 */
#ifndef SMCRD_TESTS_SIM_SCENARIO_H
#define SMCRD_TESTS_SIM_SCENARIO_H

#include "tests/sim/app.h"
#include "tests/sim/host.h"
#include "tests/sim/observer.h"

struct scenario {
	const char *name;
	const char *what;
	void (*run)(struct world *w);
	unsigned int cost;  /* with --seeds N the scenario runs N / cost seeds, at least one */
	const char *proves; /* ids of the requirements that its runs really check */
	const char *file;   /* source file of the scenario */
};

/* NULL terminated by name. */
extern const struct scenario scenarios_data[];
extern const struct scenario scenarios_group[];
extern const struct scenario scenarios_failure[];
extern const struct scenario scenarios_survive[];
extern const struct scenario scenarios_sweep[];
extern const struct scenario scenarios_break[];
extern const struct scenario scenarios_version[];
/** So many seeds of "sweep" try every fault at every message. */
#define SWEEP_RUNS 19200

/* ---- building blocks ---- */

/** Choose delays of the network and of programs, from fast to slow. Nothing fails. */
void any_settings(struct world *w);
/** Configurations of two engines that can talk to each other. */
void any_configs(struct world *w, struct smcr_config config[2]);
/** Let both hosts offer version 2 too; any_configs() does that in a third of the runs. */
void both_versions(struct smcr_config config[2]);
/** Did `conns` connections from one host to the other make no more groups than they need? That is
 * one group for each version, and in version 2 one for every 255 connections. */
bool few_groups(const struct world *w, uint64_t conns);
/** Add a UEID to the configuration. */
void add_ueid(struct smcr_config *config, const char *name);
/** Two hosts on one LAN with these numbers of devices. */
void two_hosts(struct world *w, const struct smcr_config config[2], unsigned int devices0,
	       unsigned int devices1);
/** A route with client hosts[from] and server hosts[!from], in IPv4 or IPv6. */
struct route route_from(struct world *w, size_t from);
/** Plans by which every byte arrives; about `bytes` at most in each direction. */
void any_clean_plans(struct world *w, struct plan plan[2], uint64_t bytes);
/** Plans with early ends and aborts among them. */
void any_plans(struct world *w, struct plan plan[2], uint64_t bytes);

bool all_over(struct world *w);
/** Run until all connections are over; it is a violation if they do not end. */
void run_connections(struct world *w);
/** Afterwards let the groups end, by idleness or by an orderly stop of the hosts. Nothing must be
 *  left. */
void run_down(struct world *w);

#endif
