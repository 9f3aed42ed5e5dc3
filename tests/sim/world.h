/* SPDX-License-Identifier: MIT */
/**
 * @file world.h
 * The ground of the simulator: one seed, one virtual clock, one list of what went wrong.
 *
 * A run is a function of its seed and its scenario alone: every choice comes from the world's PRNG,
 * every delay from the virtual clock, and no address or hash order enters a decision. `digest`
 * folds everything that happened, so that two runs of one seed can be compared.
 */
#ifndef SMCRD_TESTS_SIM_WORLD_H
#define SMCRD_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/clock.h"
#include "tests/sim/prng.h"

/* ---- world.c ---- */

#define SIM_MAX_HOSTS   4
#define SIM_MAX_DEVICES 20

/** How this run's world behaves. Delays are upper bounds of uniform choices, in microseconds. */
struct settings {
	uint32_t wire_min, wire_max; /* from posting a request to its execution at the peer */
	uint32_t ack_max;            /* from there to its acknowledgement */
	uint32_t cq_max;             /* from there to its completion at the poster */
	uint32_t recv_max;           /* from a SEND's execution to the receiving engine */
	uint32_t rnr_permille;       /* SENDs that find no receive buffer at first */
	uint32_t tcp_min, tcp_max;   /* a TCP segment's travel */
	uint32_t tcp_split_permille; /* TCP writes that travel in pieces */
	uint32_t wake_max;           /* from an event to the program's next call */
	uint32_t timer_late_max;     /* from an engine timer's time to its run */
	uint32_t op_fail_permille;   /* resource operations refused by the host */
	uint32_t stale_permille;     /* inputs for QPs that are gone */
	uint32_t mangle_permille;    /* messages that are changed, lost or doubled on their way */
	bool hostile;      /* messages were mangled: the observer is blind, bytes may be wrong */
	bool forged;       /* messages were forged: the observer is blind, bytes are right */
	bool failures;     /* links may break: connections may be reset .. */
	bool no_reset;     /* .. but must not: each group keeps a sound link */
	bool short_memory; /* connections may be declined */
	bool timeouts;     /* termination timers may expire */
	struct {           /* Proposals of version 2 as other clients send them (forge.h) .. */
		bool others;
		bool blank;     /* .. without peer ID, and without GID and MAC of version 1 */
		bool release_0; /* .. of release 0 */
		uint8_t max_conns;
	} proposals;
	uint64_t time_limit; /* all connections are over by then */
};

struct host;
struct qp;
struct request;
struct sweep;
struct breaking;
struct fabric;
struct observer;
struct pair;

struct world {
	uint64_t seed;
	const char *scenario;
	bool verbose;
	struct prng rng;
	struct clock clock;
	struct settings set;
	struct host *hosts[SIM_MAX_HOSTS];
	size_t num_hosts;
	struct fabric *fabric;
	struct observer *observer;
	struct pair **pairs;
	size_t num_pairs, cap_pairs;
	void (*posted)(struct world *w, struct qp *qp, struct request *req); /* may be NULL */
	struct sweep *sweep;                                                 /* scenario_sweep.c */
	struct breaking *breaking;                                           /* scenario_break.c */
	size_t sides_open; /* ends of connections that are not over */
	bool failed;
	char failed_id[32]; /* the violated requirement or invariant */
	char failed_text[512];
	uint64_t digest;
};

struct world *world_new(const char *scenario, uint64_t seed, bool verbose);
void world_free(struct world *w);
/** Record a violation; the first one counts. The run stops after the event in progress. */
void world_fail(struct world *w, const char *id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void world_print(struct world *w, const char *who, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** Print a line of the event log (-v). A macro, so that its arguments are computed only with -v. */
#define world_log(w, ...)                                                                          \
	do {                                                                                       \
		if ((w)->verbose)                                                                  \
			world_print((w), __VA_ARGS__);                                             \
	} while (0)
/** Fold something that happened into the digest. */
void world_note(struct world *w, uint64_t what, uint64_t a, uint64_t b);
/** Run until `done` says so, the clock passes `until`, or something failed.
 *  @return true when `done` was reached */
bool world_run(struct world *w, uint64_t until, bool (*done)(struct world *w));

/** Change some of the bytes. */
void mangle(struct prng *p, uint8_t *data, size_t len);

/** calloc that ends the process instead of failing. */
void *sim_zalloc(size_t len);

#endif
