/* SPDX-License-Identifier: MIT */
/**
 * @file world.h
 * The simulator of the connection manager: machines (daemon/cm/machine.h, unchanged) as hosts on a
 * network that loses, repeats, delays and reorders, with users that do anything at any time, and an
 * attacker. One seed decides everything. See tests/cmsim/README.md.
 *
 *   world.c   clock, events in time, the first violation
 *   net.c     how messages and data travel; repeats are the same to the byte
 *   host.c    a machine, its queue pairs, its restarts
 *   user.c    users: what they do, and what they may be told
 *   attack.c  a host that follows no rules
 *   run.c     plan of a run, and what has to be right in its end
 *   main.c    many runs
 */
#ifndef SMCRD_TESTS_CMSIM_WORLD_H
#define SMCRD_TESTS_CMSIM_WORLD_H

#include "daemon/cm/machine.h"
#include "tests/lib/random.h"

#define SECOND UINT64_C(1000000) /* times are microseconds */

enum {
	MAX_HOSTS = 4,
	MAX_USERS = 2048,
	MAX_QPS = 2048,
	ATTACKER = MAX_HOSTS, /* its place among the addresses */
	PORT = 445,           /* users listen there */
	EMPTY_PORT = 446,     /* and nobody here */
	FIRST_PORT = 1000,    /* of the user who asks first */
	/* limits of a machine with an attacker */
	LIMIT_CONNS = 200,
	LIMIT_PEER = 80,
	LIMIT_REQUESTS = 40,
};

/** What came up in the runs, by which rules are proved. */
enum seen {
	SEEN_CONNECTED,
	SEEN_REPEAT,
	SEEN_RTU_AGAIN,
	SEEN_DREP_AGAIN,
	SEEN_REQ_AGAIN,
	SEEN_HEARD,
	SEEN_CROSSED,
	SEEN_STALE,
	SEEN_REFUSED,
	SEEN_NO_LISTENER,
	SEEN_REP_REFUSED,
	SEEN_LIMITED,
	SEEN_ATTACKED,
	SEEN_RESTART,
	NUM_SEEN,
};

struct world;
struct host;
struct user;

/** A queue pair. It stays until the end of the run, for checks. */
struct qp {
	struct host *host;
	unsigned int incarnation;
	uint32_t qpn;
	enum qp_state {
		QP_INIT,
		QP_RTR,
		QP_RTS,
		QP_ERR,
		QP_DESTROYED,
	} state;
	struct cm_machine_qp how;
	struct user *user;
};

enum user_state {
	USER_ASKED,   /* has a request and has not answered */
	USER_WAITING, /* asked or accepted */
	USER_CONNECTED,
	USER_LEAVING, /* has called cm_machine_disconnect() */
	USER_ENDED,
	USER_GONE, /* freed, or its host was restarted */
};

struct user {
	struct world *world;
	struct host *host;
	unsigned int incarnation;
	struct cm_machine_conn *conn;
	struct qp *qp;
	struct random random; /* its own decisions */
	uint16_t port;        /* of the side that asks */
	bool active;
	bool honest; /* the peer is no attacker */
	int peer;    /* host, or ATTACKER */
	enum user_state state;
	uint64_t since;    /* of the state */
	uint64_t last_ack; /* of data */
	bool was_connected;
	enum cm_end end;
	uint16_t reject_reason;
};

struct host {
	struct world *world;
	int number;
	unsigned int incarnation;
	uint32_t num_qps; /* for honest users, of this incarnation */
	struct cm_machine *machine;
	struct random random; /* of the machine */
	uint64_t wake_at;     /* the event that is set; UINT64_MAX: none */
	bool running;         /* inside cm_machine_run() */
	struct random laziness;
};

/** How a run goes, drawn from its seed. */
struct plan {
	int hosts;
	unsigned int connects;
	uint64_t trouble;          /* until then */
	unsigned int loss, repeat; /* of 1000 messages */
	uint64_t delay_least, delay_most;
	bool quiet; /* no restarts and cuts: the messages alone bring agreement */
	unsigned int restarts, cuts;
	uint64_t lazy;        /* machines do what is due so much later, as in a busy event loop */
	bool mute;            /* users send no data */
	bool fail_qps;        /* now and then an operation on a queue pair fails */
	unsigned int attacks; /* messages of the attacker */
	bool flood;           /* these are REQs, in a few moments */
};

/** An event in time. */
typedef void event_fn(struct world *w, void *arg, uint64_t value);

struct event {
	uint64_t at, order;
	event_fn *fn;
	void *arg;
	uint64_t value;
};

struct heard_mad; /* net.c */

struct world {
	uint64_t seed, now;
	bool verbose, attacked;
	struct plan plan;
	struct event *events; /* a heap, [1..num_events] */
	size_t num_events, room;
	uint64_t order;
	struct random planned, net[MAX_HOSTS + 1][MAX_HOSTS + 1], attacker;
	struct host hosts[MAX_HOSTS];
	struct user *users[MAX_USERS];
	size_t num_users;
	struct qp qps[MAX_QPS];
	size_t num_qps;
	bool calm;    /* the network is perfect, and nobody begins anything new */
	bool leaving; /* users end what they have */
	uint64_t cut_until[MAX_HOSTS][MAX_HOSTS];
	struct heard_mad *heard;             /* every message that was sent */
	uint8_t overheard[64][IBCM_MAD_LEN]; /* by the attacker */
	size_t num_overheard;
	uint16_t requests[MAX_HOSTS][FIRST_PORT]; /* CM_REQUESTs for each port, at each host */
	bool failed;
	char failure[512];
	uint64_t digest; /* of what honest users were told */
	uint64_t seen[NUM_SEEN];
};

/* ---- world.c */

/** Something is not as it has to be. The first one counts. */
__attribute__((format(printf, 2, 3))) void fail(struct world *w, const char *format, ...);
__attribute__((format(printf, 2, 3))) void say(struct world *w, const char *format, ...);
void after(struct world *w, uint64_t us, event_fn *fn, void *arg, uint64_t value);
/** Carry out the next event. @return false: there is none */
bool step(struct world *w);
/** A stream of random numbers for one purpose. */
struct random stream(uint64_t seed, uint64_t purpose);
bool chance(struct random *r, unsigned int permille);
/** lo..hi */
uint64_t between(struct random *r, uint64_t lo, uint64_t hi);

/* ---- net.c */

void gid_of(int host, uint8_t ret_gid[16]);
/** @return -1: no host's */
int host_of(const struct world *w, const uint8_t gid[16]);
void net_mad(struct world *w, int from, int to, const uint8_t mad[IBCM_MAD_LEN]);
/** Data from a queue pair to the one that it is connected with. */
void net_data(struct world *w, struct qp *qp);
/** Lose what is on its way. */
void net_forget(struct world *w);
void net_free(struct world *w);

/* ---- host.c */

void host_start(struct world *w, int number);
/** @param orderly  the machine is closed, and tells its peers once */
void host_restart(struct host *host, bool orderly);
void host_free(struct host *host);
void host_receive(struct host *host, const uint8_t from[16], const uint8_t *mad, size_t len);
/** Let the machine do what is due, at once or soon. To be called after every call to it. */
void host_pump(struct host *host);
struct qp *qp_new(struct host *host, struct user *user);
/** The queue pair that this one is connected with, if that one is connected with it. */
struct qp *qp_mate(struct qp *qp);

/* ---- user.c */

void user_connect(struct world *w, void *arg, uint64_t index);
void user_event(struct host *host, struct cm_machine_conn *conn, void *ctx,
		const struct cm_event *event);
/** Data have come. */
void user_data(struct user *user);
/** Its host is gone. */
void user_lost(struct user *user);
/** All users end what they have. */
void users_leave(struct world *w);
void users_free(struct world *w);

/* ---- attack.c */

void attack(struct world *w, void *arg, uint64_t value);
/** The attacker sees every message. */
void attack_overhear(struct world *w, const uint8_t mad[IBCM_MAD_LEN]);

/* ---- run.c */

/** One run. @return false: something was wrong, and was printed */
bool run(uint64_t seed, bool verbose, uint64_t seen[NUM_SEEN]);

#endif
