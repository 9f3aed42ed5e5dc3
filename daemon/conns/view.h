/* SPDX-License-Identifier: MIT */
/**
 * @file view.h
 * What operators see of the connections that programs handed over: snapshots and counters.
 */
#ifndef SMCRD_DAEMON_CONNS_VIEW_H
#define SMCRD_DAEMON_CONNS_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/view.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

struct conns;

enum client_mode {
	CLIENT_MODE_PENDING, /* TCP handshake or rendezvous under way */
	CLIENT_MODE_SMCR,
	CLIENT_MODE_TCP, /* fell back, or never was a candidate */
};

#define CLIENT_PROGRAM_LEN 16 /* of a program's name, with the NUL */

struct client_conn_view {
	uint64_t number;              /* they are counted from 1 */
	uint64_t id;                  /* in the name of the pair; unique in the daemon's life */
	uint64_t cookie;              /* SO_COOKIE of the TCP socket that was handed over */
	uint64_t pair_cookie;         /* of the program's pair end; 0: it had none */
	struct smcr_addr local, peer; /* of the TCP connection; IPv4-mapped addresses as IPv4 */
	enum smcr_role role;
	enum client_mode mode;
	enum ipc_conn_state state;
	bool handed_back; /* its program has the TCP socket, and may go on with it */
	bool plain;       /* it always had: others tell of it, and `number` is theirs */
	bool ended; /* from the history: the connection is over, or is plain TCP out of our sight */
	int error;  /* ended or failed: positive errno that the program saw, else 0 */
	pid_t pid;  /* of the program that handed it over, in smcrd's pid namespace; 0 = not visible
		     */
	uid_t uid;
	char program[CLIENT_PROGRAM_LEN]; /* its name when it did; "": not known */
	uint32_t reason;      /* enum smcr_reason: why not SMC-R; SMCR_REASON_NONE otherwise */
	uint32_t peer_reason; /* the peer's code if it declined, else 0 */
	bool bytes_known;     /* false: the program kept its TCP socket, nothing was counted */
	uint64_t tx_bytes, rx_bytes; /* application bytes */
	bool shared;                 /* its program has the connection's memory, or had it */
	uint64_t shared_tx_bytes, shared_rx_bytes; /* of those, what went through that */
	uint64_t age_ms;                           /* since the handover */
	uint64_t ended_ms;                         /* since the end; 0 unless ended */
	bool in_engine;                            /* `engine` is filled */
	struct smcr_conn_view engine;
};

/** "smcr", "tcp" or, while pending, "pending". Static storage. */
const char *client_mode_name(enum client_mode mode);

/** How far a walk over the connections has come; zeroed: nowhere. */
struct conns_place {
	bool ended;      /* all live ones were seen: it is among those that are remembered */
	uint64_t number; /* of the last one that was seen; 0: none of these yet */
};

/**
 * Call `fn` for the live connections and then for the remembered ones, newest first, until it
 * returns false. One that ends between two parts of a walk may be seen twice, as it was and as it
 * ended; none that lives from the first part to the last is left out. `fn` must not call back into
 * the connections.
 * @param place  where the part before has come to; then where this one has
 * @return true: that was all
 */
bool conns_walk(const struct conns *conns, struct conns_place *place,
		bool (*fn)(void *arg, const struct client_conn_view *view), void *arg);

/** The number of a connection, by what the engine has as its user. */
uint64_t conns_number(const void *user);

struct conns_view {
	uint32_t conns; /* live now: pending, SMC-R and relays */
	uint32_t conns_pending, conns_smcr, conns_relay;
	/* Since start. */
	uint64_t handovers_connected, handovers_connecting, handovers_accepted;
	uint64_t established; /* over SMC-R */
	uint64_t fallbacks;   /* CLC was tried, plain TCP came of it */
	/** Plain TCP without CLC: the peer or this host cannot, or must not. Those that the BPF
	 * programs count (daemon/rendezvous/tally.h) are not among them. */
	uint64_t not_candidates;
	uint64_t failed;       /* rendezvous broke the connection, or connect() failed */
	uint64_t resets;       /* established connections that ended abnormally */
	uint32_t conns_shared; /* now: with memory that their programs have */
	uint64_t shared;       /* since start */
	uint64_t shared_tx_bytes, shared_rx_bytes; /* application bytes through that, */
	uint64_t smcr_tx_bytes, smcr_rx_bytes;     /* and all that went over SMC-R */
	uint64_t relay_tx_bytes, relay_rx_bytes;
};

void conns_get_view(const struct conns *conns, struct conns_view *ret_view);

/** Call `fn` for each reason (ours, and the peer's if it declined, else 0) that kept a connection
 *  from SMC-R, with the number of them. Those that the BPF programs count are not among them. */
void conns_each_reason(const struct conns *conns,
		       void (*fn)(void *arg, uint32_t reason, uint32_t peer_reason, uint64_t count),
		       void *arg);

/** A limit that keeps the SMC option off new connections now. */
struct limit_view {
	bool everybody; /* of all users; else of `uid` */
	uid_t uid;
	enum smcr_reason reason;
};

/** Call `fn` for each of them. */
void limits_each(const struct conns *conns, void (*fn)(void *arg, const struct limit_view *view),
		 void *arg);

#endif
