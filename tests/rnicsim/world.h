/* SPDX-License-Identifier: MIT */
/**
 * @file world.h
 * The ground of the soft RNIC's simulator: one seed, one virtual clock, hosts with a soft RNIC
 * each, and a network between them.
 *
 * The RNICs are the real ones. What they ask of the host is answered here: libevent and alarms
 * (loop.c), sockets (sockets.c), random numbers and memory (host.c); the Makefile links the program
 * so that these calls come here. A run is a function of its seed and its scenario: `digest` folds
 * what happened, so that two runs of one seed can be compared.
 */
#ifndef SMCRD_TESTS_RNICSIM_WORLD_H
#define SMCRD_TESTS_RNICSIM_WORLD_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/rnic/rnic.h"
#include "tests/sim/clock.h"
#include "tests/sim/prng.h"

#define MAX_HOSTS 3
#define MAX_CONNS 40

struct conn;
struct sock;

/** How a run's world behaves. Chances are in 1000, times in microseconds. */
struct settings {
	/* the network: every direction between two hosts draws its own values up to these */
	uint32_t delay_max, jitter_max;
	uint32_t loss, bursts, duplicates, late_duplicates, reordering, marks, damage;
	uint32_t rate_kib_ms; /* bytes on the way behind each other; 0: as many as there are */
	uint32_t queue_kib;   /* what does not fit in the queue before that is lost */
	uint32_t outages, one_way_outages, outage_max; /* chance for each of the world's ticks */
	/* hosts */
	uint32_t latency;             /* longest time until a host looks at its socket */
	uint32_t freezes, freeze_max; /* a host does not run for a while */
	uint32_t socket_full;         /* a send finds the socket full */
	uint32_t send_errors;         /* a send fails in another way, and counts as lost */
	uint32_t receive_buffer_kib;
	uint32_t no_memory; /* an allocation of the RNIC fails */
	uint32_t joins;     /* equal packets are received as one datagram */
	bool old_kernel;    /* sends of more than 64 packets are refused */
	/* users */
	uint32_t conns; /* connections that live at a time */
	uint32_t steps; /* what users do in all */
	uint32_t pace;  /* longest time between two steps of one end */
	uint32_t violations, ends, in_callbacks;
	uint32_t reads, invalidations; /* of all requests; of SENDs */
	uint32_t token_deaths;         /* an end kills a token that the peer may be using */
	uint32_t max_message;
	unsigned int retry_ms_min, retry_ms_max;
	bool heals; /* the network is sound when users stop; else it may stay dead */
};

struct scenario {
	const char *name, *what;
	void (*choose)(struct prng *rng, struct settings *set);
};

/** All scenarios; the last has no name. */
extern const struct scenario scenarios[];

/** One direction between two hosts (net.c). */
struct path {
	uint32_t delay, jitter, loss, bursts, duplicates, late_duplicates, reordering, marks;
	uint32_t damage;
	uint32_t rate_kib_ms;
	uint64_t busy_until; /* when the queue is empty */
	uint64_t burst_until;
	uint64_t dead_from, dead_until;
	uint64_t harmed_at; /* when it was dead last, or lost what it had no room for */
};

struct host {
	size_t index;
	struct in_addr addr;
	uint32_t mtu;
	struct rnic *rnic;
	struct rnic_pd *pd;   /* of several users */
	bool no_segmentation; /* sends of more than one packet fail from now on */
	uint64_t frozen_until;
	uint64_t harmed_at; /* when the host did not run, or could not send, last */
};

struct world {
	uint64_t seed;
	const struct scenario *scenario;
	struct prng rng;
	struct clock clock;
	struct settings set;
	struct host hosts[MAX_HOSTS];
	size_t num_hosts;
	struct path paths[MAX_HOSTS][MAX_HOSTS];
	struct conn *conns[MAX_CONNS];
	size_t num_conns;
	uint64_t began;
	uint64_t steps; /* done by users */
	bool draining;  /* users post nothing any more */
	bool verbose, failed;
	uint64_t digest;
	char failed_text[512];
};

/** The world of the present run. */
extern struct world *world;

/** Run a seed. @return whether nothing was wrong; else `ret_text` says what */
bool world_run(const struct scenario *scenario, uint64_t seed, bool verbose, uint64_t *ret_digest,
	       char ret_text[512]);
/** Something is wrong. The first sentence of a run counts. */
void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** A line of the event log. */
void world_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Fold a number that has no address in it into the digest. */
void world_note(uint64_t value);

uint64_t now(void);
/** Let a little time pass: a call takes `most` microseconds at most. */
void spend(uint32_t most);
/** A choice of the world: true in `permille` of 1000 cases. */
bool chance(uint32_t permille);
/** lo..hi, both included. */
uint64_t choose(uint64_t lo, uint64_t hi);
/** lo..hi, small values as likely as large ones. */
uint64_t choose_size(uint64_t lo, uint64_t hi);

/* ---- loop.c */

/** Events, alarms that the RNICs have and have not freed. */
size_t loop_live(void);
void loop_free(void);

/* ---- sockets.c */

size_t sockets_live(void);
void sockets_free(void);
/** The socket of an address, or NULL. */
struct sock *socket_of(struct in_addr addr);

/** A packet on its way. */
struct packet {
	uint64_t arrives, order;
	struct in_addr from;
	bool capable, marked; /* ECN */
	bool damaged;
	size_t len;
	uint8_t data[];
};

/** The packet will be in the socket when it arrives. Takes the packet. */
void socket_deliver(struct sock *sock, struct packet *packet);

/* ---- net.c */

void net_init(void);
/** Send one packet, UDP payload. */
void net_send(const struct host *from, struct in_addr to, const uint8_t *data, size_t len,
	      bool capable);
/** Break something now, perhaps. To be called once a tick. */
void net_tick(void);
/** From now on everything works. */
void net_heal(void);
/** Was anything between the hosts, or at one of them, so bad since `from` that a requester may have
 * had no answer? */
bool net_was_bad(const struct host *a, const struct host *b, uint64_t from);

/* ---- host.c */

void hosts_open(void);
/** Close the RNICs. Nothing of them may be left. */
void hosts_close(void);
/** Memory that the program has and has not freed. */
int64_t memory_live(void);
/** The RNIC's code runs from here until host_leave(): allocations may fail. */
void host_enter(void);
/** @return whether the RNIC's code ran */
bool host_leave(void);

#endif
